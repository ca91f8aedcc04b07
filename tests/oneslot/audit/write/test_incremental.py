"""An earlier audit and the changes since give exactly what a full audit gives."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from oneslot.audit import job
from oneslot.audit.conclusion import VERSION, Conclusion
from oneslot.audit.errors import AuditRefused
from oneslot.audit.schema import CURRENT
from oneslot.audit.settings import AuditSettings
from tests.kits.histories import RETENTION, System, write_history
from tests.oneslot.audit.corruptions import CORRUPTIONS, Picker
from tests.oneslot.audit.damage import rewrite

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]
DAY = 24 * 3600 * 1000


def verdict_rows(audit: Path, where: str = "true") -> list[str]:
    """Return an audit's verdicts and figures as sorted text, by the statement that `oneslot.audit.schema` prints."""
    layers = [str(audit.parent / layer) for layer in json.loads((audit / "audit.json").read_text())["layers"]]
    files = ", ".join(f"'{layer}/*.parquet'" for layer in layers)
    asked = CURRENT.replace("'DAY-0/verdicts/*.parquet', 'DAY-1/verdicts/*.parquet'", files)
    with duckdb.connect(config={"threads": 1}) as connection:
        found = connection.sql(asked).filter(where).select("* EXCLUDE (filename, evidence)").fetchall()
    return sorted(map(str, found))


def table_rows(audit: Path, table: str) -> list[tuple[Any, ...]]:
    """Return all rows of an operations table, sorted."""
    files = f"{audit / 'operations' / table}/**/*.parquet"
    with duckdb.connect(config={"threads": 1}) as connection:
        return connection.execute("SELECT * FROM read_parquet(?) ORDER BY ALL", [files]).fetchall()


def test_days_of_changes_equal_one_full_audit(
    spark: SparkSession, audited: Callable[..., Conclusion], tmp_path: Path
) -> None:
    """New requests, lines past the exports' end, corruptions, cancellations, late lines, expired rows."""
    luck = random.Random(41)
    system = System(41, practices=16, slots_per_practice=16)
    system.run(460)
    days = [system.straddle()]
    # Corruptions appear on one day and are gone on the next. Both changes must be seen.
    world, sound = system.world, system.world.copy()
    world.now += DAY
    pick = Picker(world, luck)
    for corruption in luck.sample(CORRUPTIONS, 16):
        corruption(pick)
    days.append(world.copy())
    system.world = corrected = sound
    corrected.now = world.now + DAY
    corrected.accepted, corrected.deliveries = world.accepted, world.deliveries  # logs only grow
    system.run(160)
    system.world.now += RETENTION // 2
    for _ in range(20):
        system.duplicate()
    system.world.now += RETENTION // 2 + DAY
    system.expire()
    system.run(40)
    days.append(system.world.copy())
    for number, day in enumerate(days):
        before = f"day-{number - 1}"
        earlier = {"previous": before, "since": days[number - 1], "deliveries": (before,)} if number else {}
        audited(day, f"day-{number}", tables=True, **earlier)
    audited(days[1], "full-1")
    assert verdict_rows(tmp_path / "day-1") == verdict_rows(tmp_path / "full-1")
    audited(days[2], "full-2", tables=True)
    assert verdict_rows(tmp_path / "day-2") == verdict_rows(tmp_path / "full-2")
    for table in ("totals", "demand", "latency", "appointments", "utilisation", "days", "practices"):
        assert table_rows(tmp_path / "day-2", table) == table_rows(tmp_path / "full-2", table)


def test_quiet_day_judges_open_requests_again(
    spark: SparkSession, audited: Callable[..., Conclusion], tmp_path: Path
) -> None:
    """Empty exports and no log: only the time and the queues changed. Yesterday's finding is still one.

    The share of malformed lines is one of all lines so far.
    """
    system = System(43, practices=4, slots_per_practice=20)
    system.begin("left behind", 0)
    world = system.run(120)
    answered, another = [key for key, row in world.ledger.items() if row["status"] == "COMPLETE"][:2]
    copy = {"message_id": another, "sqs_message_id": "s"}
    world.waiting = [*(world.waiting or []), copy]
    sound = [letter for letter in world.dead_letters if letter["message_id"] != answered]
    world.dead_letters = [*sound, {"message_id": answered, "source_message_id": "s", "reason": "conflict"}]
    broken = next(slot for slot in world.slots.values() if slot["status"] == "free")
    broken["free_key"] = "moved"
    history = write_history(world, tmp_path / "day-0-history")
    (history / "deliveries" / "more.jsonl").write_text("{\n")
    first = audited(history, "day-0")
    sums = first.document["sums"]
    items = sum(sums[name] for name in ("ledger_rows", "slot_rows", "appointment_rows"))
    later = world.copy()
    later.now += 5 * DAY
    later.waiting, later.dead_letters = [], sound
    quiet = write_history(later, tmp_path / "day-1-history", since=world)
    shutil.rmtree(quiet / "deliveries")
    whole = write_history(later, tmp_path / "full-history")
    shutil.copy(history / "deliveries" / "more.jsonl", whole / "deliveries")
    # The share is below the limit for all lines, and above it for the deliveries alone.
    share = 1 / (items + sums["deliveries"] - 1)
    assert sums["deliveries"] * share < 1
    settings = AuditSettings(str(quiet), str(tmp_path / "day-1"), str(tmp_path / "day-0"), tables=False)

    second = job.audit(spark, replace(settings, reject_share=share))
    full = audited(whole, "full")

    assert first.document["verdicts"]["in_flight"] > 0
    assert second.document["verdicts"]["in_flight"] == 0
    assert second.document["verdicts"]["stuck"] + second.document["verdicts"]["lost"] > 0
    assert second.document["items"] == items
    assert second.document["rejects"] == {"lines": 1, "limit_share": share, "above_limit": False}
    assert job.REJECTED_EARLIER.format(lines="1 line") in second.document["notes"]
    assert not [note for note in full.document["notes"] if "could not be read" in note]
    with duckdb.connect(config={"threads": 1}) as connection:
        layer = f"{tmp_path / 'day-1' / 'verdicts'}/*.parquet"
        found = connection.execute("SELECT key FROM read_parquet(?) WHERE violations = 'I4'", [layer]).fetchall()
    assert found == [(f"#{broken['practice']}/{broken['slot_id']}",)]
    by_change, at_once = (verdict_rows(tmp_path / name, "subject <> 'file'") for name in ("day-1", "full"))
    assert by_change == at_once


def test_malformed_row_counts_until_it_is_corrected(audited: Callable[..., Conclusion], tmp_path: Path) -> None:
    """Or deleted. A row that changes in between counts once, in a full export and in changes."""
    world = System(46, practices=2, slots_per_practice=10).run(30)
    corrected, changed, deleted = sorted(world.slots)[:3]
    statuses = {key: slot["status"] for key, slot in world.slots.items()}
    for key in (corrected, changed):
        world.slots[key]["status"] = "unknown"
    days = [world.copy()]
    world.slots[corrected]["status"], world.slots[changed]["room"] = statuses[corrected], "3"
    world.slots[deleted]["status"] = "unknown"
    days.append(world.copy())
    world.slots[changed]["status"] = statuses[changed]
    del world.slots[deleted]
    days.append(world.copy())
    listed = []
    for number, day in enumerate(days):
        day.now += number * DAY
        earlier = {"previous": f"day-{number - 1}", "since": days[number - 1]} if number else {}
        conclusion = audited(day, f"day-{number}", **earlier)
        listed.append(len((tmp_path / f"day-{number}" / "rejects.jsonl").read_text().splitlines()))
        assert conclusion.document["rejects"]["lines"] == (2, 2, 0)[number]
    assert listed == [2, 2, 0]
    full = audited(days[-1], "full")
    assert (conclusion.sentence, conclusion.document["sums"]) == (full.sentence, full.document["sums"])


def test_changes_are_refused_when_they_do_not_follow(audited: Callable[..., Conclusion], tmp_path: Path) -> None:
    """A gap, an overlap, full exports after an audit, changes without one. A line outside the window is malformed."""
    world = System(44).run(20)
    audited(world, "day-0")
    gap = world.copy()
    gap.now += DAY
    later = gap.copy()
    later.now += DAY
    with pytest.raises(AuditRefused, match=r"The earlier audit ends at .* and these exports begin at"):
        audited(later, "day-2", previous="day-0", since=gap)
    overlap = world.copy()
    overlap.now -= 1
    with pytest.raises(AuditRefused, match=r"The earlier audit ends at .* and these exports begin at"):
        audited(later, "day-2h", previous="day-0", since=overlap)
    with pytest.raises(AuditRefused, match="These are full exports"):
        audited(later, "day-2b", previous="day-0")
    with pytest.raises(AuditRefused, match="there is no earlier audit to add them to"):
        audited(later, "day-2c", since=gap)
    with pytest.raises(AuditRefused, match=r"has no audit\.json: it is not a finished audit"):
        audited(later, "day-2d", previous="day-0-history", since=gap)
    changed = write_history(later, tmp_path / "changed", since=world)
    (changed / "context.json").write_text('{"ledger_retention_seconds": 5}')
    with pytest.raises(AuditRefused, match="retention differs from"):
        audited(changed, "day-2e", previous="day-0")
    shorter = later.copy()
    shorter.forgotten_before = shorter.now
    with pytest.raises(AuditRefused, match="retention differs from"):
        audited(shorter, "day-2g", previous="day-0", since=world)
    moved = later.copy()
    next(iter(moved.slots.values()))["free_key"] = "moved"
    folder = write_history(moved, tmp_path / "late", since=world, parts=1)
    rewrite(folder, "slots", lambda text: text.replace(f'"N":"{(moved.now - 1) * 1000}"', '"N":"1000"'))
    assert audited(folder, "day-1", previous="day-0").document["rejects"]["lines"] == 1
    assert "outside_window" in (tmp_path / "day-1" / "rejects.jsonl").read_text()
    description = tmp_path / "day-0" / "audit.json"
    description.write_text(json.dumps({**json.loads(description.read_text()), "version": VERSION - 1}))
    with pytest.raises(AuditRefused, match="written by another version of the audit"):
        audited(later, "day-2f", previous="day-0", since=world)
