"""Unusual days: no changes, few rows, malformed lines, odd paths, and ids that name a patient."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from appointments.nhs_number import contains_one
from oneslot.audit import job
from oneslot.audit.conclusion import Conclusion
from oneslot.audit.settings import parse_arguments
from tests.kits.histories import Item, System, World, write_history

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]
Audited = Callable[..., Conclusion]
DAY = 24 * 3600 * 1000
NHS_NUMBER = "9990000018"


def eventful(world: World) -> Item:
    """Return a line of the delivery log about a message with several lines."""
    ids = [line["message_id"] for line in world.deliveries if line["message_id"]]
    return next(line for line in world.deliveries if ids.count(line["message_id"]) > 1)


def test_claim_of_yesterday_is_not_a_crash_of_today(audited: Audited, tmp_path: Path) -> None:
    """The first claim was fenced before midnight and answered after. Today's log lacks its line."""
    system = System(94, practices=2, slots_per_practice=10)
    world = system.world
    system.begin("long", 0)
    system.deliver("long", "fenced", claimed_by="a", consumption_count=1)
    world.now += DAY
    yesterday = world.copy()
    audited(yesterday, "day-0", nightly=True)
    world.now += 60_000
    world.ledger["long"] |= {"status": "COMPLETE", "consumption_count": 2, "updated": world.now}
    world.ledger["long"]["result"] = json.dumps({"outcome": "refused", "appointment_id": "long"})
    system.deliver("long", "refused", claimed_by="b", consumption_count=2, answer="x")
    world.now += DAY
    options = {"previous": "day-0", "since": yesterday, "nightly": True, "tables": True}
    audited(world, "day-1", **options)
    report = (tmp_path / "day-1" / "report.html").read_text()
    assert "claim 2 took over: refused" in report
    assert "claim 1 crashed" not in report


def test_job_exits_with_2_when_a_file_system_is_unknown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    history = write_history(System(95, practices=1).run(5), tmp_path / "history")
    given = {"--history": str(history), "--output": str(tmp_path / "audit")}
    for name in ("--history", "--output", "--previous"):
        arguments = [part for pair in {**given, name: "nowhere://bucket/folder"}.items() for part in pair]
        assert job.main(arguments) == 2
        printed = capsys.readouterr().err.strip()
        assert "\n" not in printed
        assert "Arrow has no file system for nowhere" in printed
    assert not (tmp_path / "audit").exists()


def test_deliveries_option_takes_several_folders() -> None:
    """A service may pass each argument only once, so commas separate folders, too."""
    required = ["--history", "h", "--output", "o"]
    settings, _ = parse_arguments([*required, "--deliveries", "a/,s3://b/c", "--deliveries", "d"])
    assert settings.deliveries == ("a", "s3://b/c", "d")
    assert parse_arguments(required)[0].deliveries == ()


def test_audit_path_is_never_a_pattern(audited: Audited, tmp_path: Path) -> None:
    """Spark reads some letters as a pattern, and names files as URLs. A folder may be called like a source."""
    world = System(99, practices=1).run(10)
    odd = "[0-9] {a,b} * ? ^ \\x 100% deliveries/slots/ledger"
    assert audited(world, f"{odd}/day-0").sound
    later = world.copy()
    later.now += DAY
    later.deliveries.append({"message": "delivery"})
    conclusion = audited(later, f"{odd}/day-1", tables=True, previous=f"{odd}/day-0", since=world)
    assert conclusion.document["sums"]["deliveries"] == len(world.deliveries)
    (reject,) = map(json.loads, (tmp_path / odd / "day-1" / "rejects.jsonl").read_text().splitlines())
    log = tmp_path / odd / "day-1-history" / "deliveries" / "deliveries.jsonl.gz"
    assert reject["file"].endswith(str(log))
    assert (reject["line"], reject["problem"]) == (1, "missing_attribute")


def test_report_omits_nhs_numbers_and_malformed_lines(spark: SparkSession, audited: Audited, tmp_path: Path) -> None:
    """An id that holds a number is withheld in findings and repair lists, too. A message without an id has no life."""
    system = System(93, practices=3, slots_per_practice=20)
    world = system.run(60)
    for _ in range(20):
        system.deliver(None, "quarantined", sqs_message_id="no-id", finished=world.now - 1)
    sample = eventful(world)
    for change in ({"sent": None}, {"finished": None}, {"outcome": "mislaid"}):
        world.deliveries.append({**sample, **change})
    lost, exhausted, known = f"patient {NHS_NUMBER}", f"999-000-0018/{1}", "1234567890"
    for message_id in (lost, exhausted, known):
        world.accepted.append({"message_id": message_id, "sent": world.now - 1, "copies": 1})
    world.dead_letters.append({"message_id": exhausted, "source_message_id": "s", "reason": None})
    for _ in range(2):
        world.deliveries.append({**world.deliveries[0], "message_id": lost, "outcome": "busy"})

    conclusion = audited(world, tables=True)

    assert conclusion.document["rejects"]["lines"] == 3
    report = (tmp_path / "audit" / "report.html").read_text()
    assert sample["message_id"] in report
    assert "mislaid" not in report
    assert "?no-id" not in report
    assert NHS_NUMBER not in report
    repair = tmp_path / "audit" / "repair"
    look = [json.loads(line)["id"] for line in (repair / "look-at.jsonl").read_text().splitlines()]
    assert [name for name in look if name.startswith("withheld-")]
    assert known in look
    assert (repair / "redrive.jsonl").read_text() == ""
    assert NHS_NUMBER not in (repair / "look-at.jsonl").read_text()
    found = spark.read.parquet(str(tmp_path / "audit" / "findings")).collect()
    assert not [row.id for row in found if contains_one(row.id)]
