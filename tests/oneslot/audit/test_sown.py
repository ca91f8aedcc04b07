"""Every kind of corruption once among many correct rows: each is found, and nothing else. So is what breaks a stranger's law.

`make -C lab audit-sown` uses a million rows.
"""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lab.benchmarks.audit.data import Requests, write_full
from oneslot.audit.layout import Part, item_line
from oneslot.declaration.reading import choosing
from oneslot.laws.groups import judge
from tests.kits.histories import System, World
from tests.kits.shop import SHOP, Shop
from tests.oneslot.audit.audit_answers import audit_found, list_found
from tests.oneslot.audit.corruptions import CORRUPTIONS, Picker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REQUESTS = int(os.environ.get("SOWN_REQUESTS", "4000"))


def parts(world: World) -> dict[str, Part]:
    """Return the lines of a world by source."""
    found = {}
    for table, items in world.tables().items():
        lines = [item_line(item) for item in items.values()]
        found[table] = Part(b"".join(lines), len(lines))
    logs = {
        "deliveries": world.deliveries,
        "accepted": world.accepted,
        "dead-letters": world.dead_letters,
        "dropped": world.dropped,
        "waiting": world.waiting or [],
    }
    for name, rows in logs.items():
        found[name] = Part("".join(json.dumps(row) + "\n" for row in rows).encode(), len(rows))
    return found


@pytest.mark.slow
@pytest.mark.spark
def test_every_corruption_is_found_among_correct_rows(spark: SparkSession, tmp_path: Path) -> None:
    """One audit finds what the project's own list finds in the corrupted rows."""
    from oneslot.audit.job import audit
    from oneslot.audit.settings import AuditSettings

    correct = Requests(0, REQUESTS)
    world = System(21, practices=8, slots_per_practice=26).run(420)
    world.now = correct.end
    pick = Picker(world, random.Random(21))
    sown = {corruption.__name__: corruption(pick) for corruption in CORRUPTIONS}
    write_full(tmp_path / "history", [correct], parts(world))
    settings = AuditSettings(str(tmp_path / "history"), str(tmp_path / "audit"), tables=False)
    conclusion = audit(spark, settings)
    found = audit_found(tmp_path / "audit")
    assert {name: breach for name, breach in sown.items() if breach not in found} == {}
    assert found == list_found(world)
    sums = conclusion.document["sums"]
    rows = sum(sums[name] for name in ("ledger_rows", "appointment_rows", "slot_rows", "accepted_copies", "deliveries"))
    assert rows > 4.5 * REQUESTS
    assert len(sown) >= 15
    print(f"{len(sown)} kinds, each once in {rows:,} rows: all found, {len(found)} findings in all")  # noqa: T201


@pytest.mark.slow
@pytest.mark.spark
def test_law_of_a_stranger_over_two_tables_finds_the_same_breaches_in_check_and_audit(
    spark: SparkSession, tmp_path: Path
) -> None:
    from oneslot.audit.job import audit
    from oneslot.audit.settings import AuditSettings

    shop = Shop(REQUESTS)
    shop.corrupt()
    by_check = {(breach.invariant, breach.subject) for breach in judge(shop.evidence(), SHOP.laws)}

    with choosing(SHOP):
        audit(spark, AuditSettings(str(shop.write(tmp_path / "history")), str(tmp_path / "audit"), tables=False))

    assert audit_found(tmp_path / "audit") == by_check
    assert by_check == {("parts_add_up", order_id) for order_id in ("o-3", "o-7", "o-9")}
