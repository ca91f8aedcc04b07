"""Expired ledger rows: requests are judged by the other sources, and nothing is reported missing."""

from collections.abc import Callable
from pathlib import Path

import pytest

from appointments.allocation import free_key
from oneslot.audit.conclusion import Conclusion
from tests.kits.histories import MINUTE, RETENTION, START, System, World
from tests.oneslot.audit.audit_answers import list_found
from tests.oneslot.audit.write.test_nightly import agree

pytestmark = [pytest.mark.slow, pytest.mark.spark]
Audited = Callable[..., Conclusion]
DAY = 24 * 3600 * 1000


@pytest.fixture(scope="module")
def old() -> World:
    """A world whose rows have expired, with duplicates at half of the retention, and dead letters about answered requests."""
    system = System(81, practices=3, slots_per_practice=10)
    system.run(180)
    system.world.now += RETENTION // 2
    answered = [line["message_id"] for line in system.world.deliveries if line["answer"]]
    for message_id in answered[::3]:
        line = next(line for line in system.world.deliveries if line["message_id"] == message_id and line["answer"])
        given = {name: line[name] for name in ("claimed_by", "consumption_count", "answer")}
        system.deliver(message_id, "duplicate", **given)
    letters = system.world.dead_letters
    letters += [{"message_id": key, "source_message_id": "s", "reason": "conflict"} for key in answered[1::3]]
    system.world.dropped += [
        {"message_id": key, "source_message_id": "s", "at": system.world.now} for key in answered[2::3]
    ]
    system.world.waiting = []
    system.world.now += RETENTION // 2 + DAY
    for row in [*system.world.ledger.values()]:
        if row["status"] == "IN_PROGRESS":  # every unfinished message went to the dead-letter queue
            letters.append({"message_id": row["message_id"], "source_message_id": "s", "reason": None})
    untouched = {row["message_id"] for row in system.world.accepted} - system.world.ledger.keys()
    letters += [{"message_id": key, "source_message_id": "s", "reason": None} for key in sorted(untouched)]
    system.expire()
    assert not system.world.ledger
    return system.world


def test_expired_rows_break_no_invariant(audited: Audited, old: World, tmp_path: Path) -> None:
    """With late duplicates, dead letters and dropped letters after half of the retention."""
    conclusion = audited(old)
    verdicts, found = agree(tmp_path, "audit", old.now)
    assert found == set()
    assert conclusion.sound, conclusion.sentence
    assert set(verdicts.values()) == {"booked", "waitlist", "cancelled", "refused", "quarantined"}


def test_old_request_is_forgotten_when_only_archived(audited: Audited, old: World, tmp_path: Path) -> None:
    """Without the logs, appointments speak for themselves, and no trace of a refusal is left."""
    bare = old.copy()
    bare.deliveries, bare.dead_letters, bare.dropped = [], [], []
    bare.accepted.append({"message_id": "recent", "sent": bare.now - DAY, "copies": 1})
    conclusion = audited(bare)
    verdicts, found = agree(tmp_path, "audit", bare.now)
    assert found == {("I2", "recent")}
    assert verdicts.pop("recent") == "lost"
    assert set(verdicts.values()) == {"booked", "waitlist", "cancelled", "forgotten"}
    refused = {line["message_id"] for line in old.deliveries if line["outcome"] == "refused"}
    assert refused
    assert {verdicts[message_id] for message_id in refused} <= {"forgotten", "cancelled"}
    assert conclusion.document["verdicts"]["forgotten"] == list(verdicts.values()).count("forgotten")


def test_expired_row_is_missed_after_retention_was_raised(audited: Audited, old: World, tmp_path: Path) -> None:
    """Unless `ledger_forgotten_before` names the time. Later requests must have a row."""
    silent = old.copy()
    silent.retention = None
    silent.accepted.append({"message_id": "recent", "sent": silent.now - DAY, "copies": 1})
    named = silent.copy()
    named.retention, named.forgotten_before = 10 * RETENTION, START + RETENTION // 3

    audited(silent, "silent")
    conclusion = audited(named, "named")

    verdicts, found = agree(tmp_path, "silent", silent.now)
    assert {"I2", "I5r", "I6", "I11"} <= {name for name, _ in found}
    assert "forgotten" not in verdicts.values()
    _, found = agree(tmp_path, "named", named.now)
    assert found == {("I2", "recent")} == list_found(named, named.retention, named.forgotten_before)
    assert [note for note in conclusion.document["notes"] if "ledger_forgotten_before" in note]


def test_late_copies_do_not_extend_the_life_of_a_row(audited: Audited, tmp_path: Path) -> None:
    """The line of a first answer is gone, with its process or because the row was put by hand.

    A copy without an answer is lost all the same.
    """
    system = System(85, practices=2, slots_per_practice=10)
    system.run(20)
    system.accept("refused-once")
    result = {"outcome": "refused", "appointment_id": "entered", "reason": "handled_before_migration"}
    system.complete("entered", result, 1)
    line = system.world.deliveries.pop()
    sent = system.world.now
    system.world.now += RETENTION * 2 // 3
    system.deliver("refused-once", "duplicate", sent=sent, claimed_by="c", consumption_count=1, answer="a")
    for message_id in ("entered", "unanswered"):
        system.accept(message_id)
    given = {name: line[name] for name in ("claimed_by", "consumption_count", "answer")}
    system.deliver("entered", "duplicate", **given)
    early, late = system.world.copy(), system.world
    early.now, late.now = sent + RETENTION, sent + RETENTION + DAY
    system.expire()
    assert "entered" in early.ledger
    assert "entered" not in late.ledger
    for world, name, verdict in ((early, "early", "refused"), (late, "late", "forgotten")):
        audited(world, name)
        verdicts, found = agree(tmp_path, name, world.now)
        mine = {"entered": verdict, "refused-once": "forgotten", "unanswered": "lost"}
        assert {message_id: verdicts[message_id] for message_id in mine} == mine
        of_these = {breach for breach in found if breach[1] in mine}
        assert of_these == {("I2", "unanswered")}
        assert of_these == {breach for breach in list_found(world, RETENTION) if breach[1] in mine}


def test_late_copy_begins_a_new_row_when_the_first_expired(audited: Audited, tmp_path: Path) -> None:
    """It counts claims from one, may be unfinished, and may find a cancellation. Earlier, all three are violations."""
    system = System(84, practices=2, slots_per_practice=10)
    system.run(20)
    for message_id in ("under-way", "cancelled-since", "comes-again"):
        system.book(message_id)
    system.world.ledger["comes-again"]["consumption_count"] = 3
    row = system.world.ledger["comes-again"]
    first = next(line for line in reversed(system.world.deliveries) if line["message_id"] == "comes-again")
    first["consumption_count"] = 3
    system.accept("refused-first")
    system.complete("refused-first", {"outcome": "refused", "appointment_id": "refused-first"}, 1)
    world = system.world
    withdrawn = world.appointments["cancelled-since"]
    slot = world.slots[withdrawn["practice"], withdrawn["slot_id"]]
    slot |= {"status": "free", "free_key": free_key(slot)}
    del slot["appointment_id"]
    withdrawn |= {"status": "cancelled", "cancelled_by": "canceller", "updated": world.now}
    system.accept("canceller")
    system.complete("canceller", {"outcome": "cancelled", "appointment_id": "cancelled-since"}, 1)
    early, late = world.copy(), world
    late.now += RETENTION + DAY
    system.expire()
    mine = ("under-way", "cancelled-since", "canceller", "refused-first", "withdrawer", "comes-again")
    found = {}
    for name, shown in (("early", early), ("late", late)):
        system.world = shown
        shown.now += MINUTE
        system.begin("under-way", 0)
        system.deliver("under-way", "quarantined", reason="unknown_practice")
        shown.dead_letters.append({"message_id": "under-way", "source_message_id": "s", "reason": "unknown_practice"})
        again = {"claimed_by": "f" * 32, "consumption_count": 1}
        shown.ledger["comes-again"] = {**row, **again, "updated": shown.now}
        shown.deliveries.append({**first, **again, "outcome": "duplicate", "finished": shown.now + 20})
        system.complete("cancelled-since", {"outcome": "cancelled", "appointment_id": "cancelled-since"}, 1)
        # The cancellation of a refused request finds no row, and the late copy finds the cancellation.
        mark = {"status": "cancelled", "cancelled_by": "withdrawer", "created": shown.now, "updated": shown.now}
        shown.appointments["refused-first"] = {"appointment_id": "refused-first", **mark}
        for message_id in ("withdrawer", "refused-first"):
            system.accept(message_id)
            system.complete(message_id, {"outcome": "cancelled", "appointment_id": "refused-first"}, 1)
        shown.now += MINUTE
        audited(shown, name)
        _, breaches = agree(tmp_path, name, shown.now)
        found[name] = {breach for breach in breaches if breach[1] in mine}
    assert found["early"] == {
        ("I10", "comes-again"),
        *((invariant, "under-way") for invariant in ("I5r", "I6", "I11")),
        *(
            (invariant, message_id)
            for invariant in ("I7", "I10")
            for message_id in ("cancelled-since", "refused-first")
        ),
    }
    assert found["late"] == set()
