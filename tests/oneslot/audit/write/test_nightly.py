"""The nightly audit on AWS: exports, a delivery log whose files end anywhere, and queues that are not listed."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from oneslot.audit.conclusion import Conclusion
from tests.kits.histories import System, write_history
from tests.oneslot.audit.audit_answers import audit_found, audit_verdicts, duckdb_answers

pytestmark = [pytest.mark.spark, pytest.mark.slow]
Audited = Callable[..., Conclusion]
DAY = 24 * 3600 * 1000


def agree(folder: Path, name: str, now: int) -> tuple[dict[str, str], set[tuple[str, str]]]:
    """Return the verdicts and findings of an audit, after comparing them with DuckDB's."""
    verdicts, found = audit_verdicts(folder / name), audit_found(folder / name)
    assert (verdicts, found) == duckdb_answers(folder / f"{name}-history", now)
    return verdicts, found


def released(system: System) -> str:
    """Add a request whose attempt was throttled: its claim was released, and its message is in the queue."""
    message_id = system.new_id()
    system.begin(message_id, 0)
    system.deliver(message_id, "failed")
    return message_id


def set_aside(system: System) -> str:
    """Add a request that failed only after its claim, so that its row stays."""
    message_id = system.new_id()
    system.begin(message_id, 0)
    system.deliver(message_id, "quarantined", reason="unknown_practice")
    return message_id


def test_healthy_night_is_sound(audited: Audited, tmp_path: Path) -> None:
    """A released request will be retried, and a quarantined one is quarantined although its row is unfinished."""
    system = System(71, practices=5, slots_per_practice=30)
    system.run(200)
    retried, hopeless = released(system), set_aside(system)
    system.run(1)
    conclusion = audited(system.world, nightly=True)
    verdicts, found = agree(tmp_path, "audit", system.world.now)
    assert found == set()
    assert (verdicts[retried], verdicts[hopeless]) == ("in_flight", "quarantined")
    assert conclusion.sound, conclusion.sentence
    assert any("The dead-letter queue was not listed" in note for note in conclusion.document["notes"])


def test_released_request_is_stuck_when_patience_ends(audited: Audited, tmp_path: Path) -> None:
    """So is a redriven one. A request that stays quarantined, or is quarantined again, is not."""
    system = System(72, practices=5, slots_per_practice=30)
    system.run(60)
    retried, hopeless, redriven, unseen = released(system), set_aside(system), set_aside(system), system.new_id()
    system.deliver(unseen, "failed")
    again = set_aside(system)
    system.world.now += DAY
    system.begin(redriven, system.world.now + 60_000)
    system.begin(again, 0)
    system.deliver(again, "quarantined", reason="unknown_practice")
    system.world.now += 4 * DAY
    audited(system.world, nightly=True, tables=True)
    verdicts, found = agree(tmp_path, "audit", system.world.now)
    assert verdicts[hopeless] == verdicts[again] == "quarantined"
    assert verdicts[redriven] == "in_flight"
    assert (verdicts[retried], verdicts[unseen]) == ("stuck", "lost")
    assert {("I2", retried), ("I9", retried), ("I2", unseen)} <= found
    assert hopeless not in {subject for _, subject in found}
    # Its receives may have run out, so it may be in the dead-letter queue and is listed for a redrive.
    repair = tmp_path / "audit" / "repair"
    redrive = {row["message_id"] for row in map(json.loads, (repair / "redrive.jsonl").read_text().splitlines())}
    assert {retried, unseen} <= redrive
    look = {row["id"]: row["action"] for row in map(json.loads, (repair / "look-at.jsonl").read_text().splitlines())}
    assert look[unseen].startswith("redrive it from the dead-letter queue; if it is not there, send")
    system.world.now += DAY
    audited(system.world, "later", nightly=True)
    assert agree(tmp_path, "later", system.world.now)[0][redriven] == "stuck"


def test_quarantined_request_may_be_in_an_unlisted_queue(audited: Audited, tmp_path: Path) -> None:
    """The queue is listed as empty, and the log shows the quarantine."""
    system = System(74, practices=2, slots_per_practice=10)
    system.run(30)
    hopeless, system.world.waiting = set_aside(system), []
    system.deliver("malformed", "quarantined", reason="invalid_field")
    system.world.now += 10_000
    history = write_history(system.world, tmp_path / "audit-history")
    (history / "dead-letters" / "dead-letters.jsonl").unlink()
    (history / "dead-letters").rmdir()
    audited(history)
    verdicts, found = agree(tmp_path, "audit", system.world.now)
    assert (verdicts[hopeless], verdicts["malformed"]) == ("quarantined", "quarantined")
    assert not {hopeless, "malformed"} & {subject for _, subject in found}


def test_line_past_the_exports_counts_in_the_next_audit(audited: Audited, tmp_path: Path) -> None:
    """The log's last file reaches past midnight. The next audit reads the same file, and counts the line once.

    A malformed line counts only in the audit whose folder holds its file. A folder named twice counts once.
    """
    system = System(75, practices=3, slots_per_practice=20)
    system.run(40)
    shown = system.straddle()
    late = next(reversed(system.world.ledger))
    first = audited(shown, "day-0", nightly=True)
    assert first.sound, first.sentence
    assert late not in agree(tmp_path, "day-0", shown.now)[0]
    system.run(20)
    system.world.now = shown.now + DAY
    options = {"previous": "day-0", "since": shown, "nightly": True}
    (tmp_path / "day-0-history" / "deliveries" / "more.jsonl").write_text('{"message": "delivery", "mess\n')
    second = audited(system.world, "day-1", deliveries=("day-0", "day-0", "day-1", "none", "nor-this"), **options)
    assert second.sound, second.sentence
    assert second.document["rejects"]["lines"] == 0
    assert sum("There is no delivery log in" in note for note in second.document["notes"]) == 2
    full = audited(system.world, "full", nightly=True)
    assert second.document["sums"] == full.document["sums"]
    assert full.document["sums"]["deliveries"] == len(system.world.deliveries)
    assert audit_verdicts(tmp_path / "day-1") == audit_verdicts(tmp_path / "full")
