"""Where and when somebody is expected, as a hash: two places are equal only if they say the same, be it ever so little."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from oneslot.pipeline.judge.conclusion import Conclusion
from tests.kits.audit_answers import Found, audit_found, duckdb_answers, list_found
from tests.kits.corruptions import Field
from tests.kits.histories import System

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

PLACE = ("practice", "slot_id", "start", "end")


def test_a_place_is_told_from_one_that_lacks_another_part(spark: SparkSession) -> None:
    """Spark's hash passes over what is missing: without `start`, an `end` would be taken for it."""
    from pyspark.sql import functions as F  # noqa: N812

    from oneslot.pipeline.columns import place_link

    places = [("P", *parts) for parts in product((None, "a", "b"), repeat=3)]
    made = spark.createDataFrame(places, ", ".join(f"{name} string" for name in PLACE))
    columns = [F.col(name) for name in PLACE]
    rows = made.select(*columns, place_link(*columns).alias("link"), F.xxhash64(*columns).alias("plain")).collect()
    assert len({row.link for row in rows}) == len(places)
    # What an earlier audit has kept of whole places, and of those who wait at a practice, stays comparable.
    for row in rows:
        said = [row[name] is not None for name in PLACE]
        if said == sorted(said, reverse=True):
            assert row.link == row.plain, row


def test_an_answer_that_lacks_another_part_than_its_appointment_is_found_by_all_three(
    audited: Callable[..., Conclusion], tmp_path: Path
) -> None:
    world = System(21, practices=5, slots_per_practice=30).run(200)
    spoil = Field(world, random.Random(21))
    sown: Found = set()
    for lacking, moved in (("start", {"end": "start"}), ("slot_id", {"start": "slot_id", "end": "start"})):
        appointment = spoil.booked()
        row = world.ledger[appointment["appointment_id"]]
        del appointment["end"], spoil.slot_of(appointment)["end"]
        told = {name: value for name, value in json.loads(row["result"]).items() if name != lacking}
        row["result"] = json.dumps(told | {name: appointment[source] for name, source in moved.items()})
        sown.add(("I5", row["message_id"]))
    conclusion = audited(world)
    assert list_found(world) == sown
    assert duckdb_answers(tmp_path / "audit-history", world.now)[1] == sown
    assert audit_found(tmp_path / "audit") == sown
    assert not conclusion.sound
