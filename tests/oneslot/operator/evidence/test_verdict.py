"""The verdict on given evidence: each count, and the limits between the kinds of verdict."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from demo.declared import CONSUMER
from oneslot.laws.evidence import Law
from oneslot.operator.evidence.gathering import Gathered
from oneslot.operator.evidence.malformed import DELIVERY_LOG, Malformed
from oneslot.operator.evidence.verdict import CheckVerdict, judge
from oneslot.operator.sending.archive import AcceptedRequest
from oneslot.operator.sending.messages import MALFORMED, Archived
from oneslot.runtime.sqs.dead_letters import DeadLetter
from oneslot.runtime.sqs.queue import QueueDepth

NOW = 1_800_000_000_000
EMPTY = QueueDepth(0, 0, 0)
SLOT = {"practice": "A81001", "slot_id": "s-1", "start": "2026-11-23T08:00:00Z", "end": "2026-11-23T08:10:00Z"}


def row(message_id: str, outcome: str, **said: str) -> dict[str, Any]:
    """A completed row of the ledger."""
    result = {"outcome": outcome, "appointment_id": message_id, **said}
    return {
        "message_id": message_id,
        "status": "COMPLETE",
        "consumption_count": 1,
        "updated": NOW,
        "result": json.dumps(result),
    }


def appointment(message_id: str, status: str, **said: Any) -> dict[str, Any]:
    return {
        "appointment_id": message_id,
        "status": status,
        "practice": "A81001",
        "created": NOW,
        "updated": NOW,
        **said,
    }


def delivery(message_id: str | None, outcome: str, sqs_message_id: str = "sqs") -> dict[str, Any]:
    return {
        "message_id": message_id,
        "sqs_message_id": sqs_message_id,
        "outcome": outcome,
        "finished": NOW,
        "sent": NOW,
    }


def accepted(
    message_id: str | None, *sqs_message_ids: str, content: str = "one", kind: str = "request"
) -> AcceptedRequest:
    return AcceptedRequest(Archived(message_id, kind, payload_hash=content), NOW, sqs_message_ids)


def letter(message_id: str | None, reason: str, sqs_message_id: str) -> DeadLetter:
    return DeadLetter(sqs_message_id, message_id, reason, "", None, NOW)


def gathered(
    requests: Sequence[AcceptedRequest] | None = (),
    letters: Sequence[DeadLetter] = (),
    *,
    queue: QueueDepth = EMPTY,
    behind: int = 0,
    malformed_lines: Sequence[Malformed] = (),
    **evidence: Any,
) -> Gathered:
    """Evidence of a stack, as `gather` puts it together."""
    ids = None if requests is None else {line.request.message_id for line in requests if line.request.message_id}
    quarantined = {each.message_id for each in letters if each.message_id}
    waiting: frozenset[str] | None = frozenset() if queue.empty and not behind else None
    found = CONSUMER.evidence(requests=ids, quarantined=quarantined, waiting=waiting, now=NOW, **evidence)
    return Gathered(found, requests or None, letters, queue, 0, behind, malformed_lines)


def verdict_of(found: Gathered) -> CheckVerdict:
    return judge(found, "oneslot {}".format)


def sound() -> dict[str, Any]:
    """One request of each outcome, done and logged."""
    rows = [
        row("booked", "booked", **SLOT),
        row("waits", "waitlist", practice="A81001"),
        row("refused", "refused", reason="no_such_appointment"),
        row("cancels", "cancelled") | {"result": json.dumps({"outcome": "cancelled", "appointment_id": "gone"})},
        {
            "message_id": "begun",
            "status": "IN_PROGRESS",
            "consumption_count": 1,
            "updated": NOW,
            "lease_until": NOW + 1,
        },
    ]
    appointments = [
        appointment("booked", "booked", **SLOT),
        appointment("waits", "waitlist"),
        {"appointment_id": "gone", "status": "cancelled", "cancelled_by": "cancels", "created": NOW, "updated": NOW},
    ]
    outcomes = {"booked": "booked", "waits": "waitlist", "refused": "refused", "cancels": "cancelled"}
    return {
        "ledger": {each["message_id"]: each for each in rows},
        "slots": {("A81001", "s-1"): SLOT | {"status": "busy", "appointment_id": "booked"}},
        "appointments": {each["appointment_id"]: each for each in appointments},
        "deliveries": [
            *(delivery(name, outcome) for name, outcome in outcomes.items()),
            delivery("waits", "duplicate"),
        ],
    }


def test_counts_are_those_of_the_evidence() -> None:
    requests = [
        *(accepted(name, f"sqs-{name}") for name in ("booked", "refused", "cancels", "begun")),
        accepted("waits", "sqs-1", "sqs-2"),
        accepted("waits", "sqs-3", content="another"),
        accepted("waits", "sqs-4"),
        accepted(None, "sqs-5", kind=MALFORMED),
        accepted(None, "sqs-6", kind=MALFORMED),
    ]
    letters = [
        letter("waits", "conflict", "sqs-3"),
        letter(None, "not_json", "sqs-5"),
        letter(None, "not_json", "sqs-6"),
    ]
    verdict = verdict_of(gathered(requests, letters, queue=QueueDepth(1, 0, 0), **sound()))
    assert verdict.kind == "unfinished"
    counts = verdict.document()["counts"]
    assert counts == {
        "requests": 7,  # an id with two contents is one, and each message without an id is one
        "verdicts": {"booked": 1, "waitlist": 1, "cancelled": 1, "refused": 1, "quarantined": 2, "in_flight": 1},
        "unarchived": 0,
        "messages": 10,
        "reused": 1,
        "deliveries": 5,
        "completed": 4,
        "duplicates": 1,
        "dead_letters": {"conflict": 1, "not_json": 2},
        "lost": None,
        "double_booked": 0,
        "too_old": 0,
        "malformed_deliveries": 0,
    }


DIGEST = "0" * 64


@pytest.mark.parametrize("outcome", ["booked", "duplicate"])
def test_message_without_id_is_not_lost_when_it_was_answered(outcome: str) -> None:
    """Under the digest of its content, by the log."""
    requests = [accepted(None, "sqs-1", "sqs-2", kind=MALFORMED)]
    both = [delivery(DIGEST, outcome, name) for name in ("sqs-1", "sqs-2")]
    ledger = {DIGEST: row(DIGEST, "booked")}
    for logged, lost in ((both, set()), (both[:1], {"sqs-2"}), ([], {"sqs-1", "sqs-2"})):
        verdict = verdict_of(gathered(requests, deliveries=logged, ledger=ledger))
        assert {breach.subject for breach in verdict.breaches if breach.invariant == "I2"} == lost
        assert verdict.counts.lost == len(lost)


@pytest.mark.parametrize("outcome", ["busy", "failed", "quarantined"])
def test_message_without_id_is_lost_when_no_queue_has_it(outcome: str) -> None:
    """Whatever the log says, as in the audit. A dead letter, or one that an operator dropped, is not lost."""
    requests = [accepted(None, "sqs-1", "sqs-2", "sqs-3", kind=MALFORMED)]
    logged = [delivery(None, outcome, name) for name in ("sqs-1", "sqs-2", "sqs-3")]
    found = gathered(requests, [letter(None, "not_json", "sqs-2")], deliveries=logged, dropped={"?sqs-3"})
    verdict = verdict_of(found)
    assert {(breach.invariant, breach.subject) for breach in verdict.breaches} == {("I2", "sqs-1")}
    assert verdict.counts.verdicts == {"quarantined": 1, "dropped": 1, "lost": 1}


@pytest.mark.parametrize("unseen", [{"queue": QueueDepth(0, 1, 0)}, {"queue": QueueDepth(0, 0, 1)}, {"behind": 1}])
def test_nothing_is_lost_while_a_queue_may_hold_it(unseen: dict[str, Any]) -> None:
    verdict = verdict_of(gathered([accepted(None, "sqs-1"), accepted("m-1", "sqs-2")], **unseen))
    assert (verdict.kind, verdict.breaches, verdict.counts.lost) == ("unfinished", (), None)


def test_double_bookings_count_slots_and_requests() -> None:
    evidence = sound()
    evidence["appointments"]["second"] = appointment("second", "booked", **SLOT)
    evidence["slots"]["A81001", "s-2"] = SLOT | {"slot_id": "s-2", "status": "busy", "appointment_id": "booked"}
    verdict = verdict_of(gathered([accepted("booked", "sqs-1")], **evidence))
    assert (verdict.kind, verdict.counts.double_booked, verdict.counts.lost) == ("broken", 2, 0)
    document = verdict.document()
    found = {each["name"]: each["breaches"] for each in document["invariants"] if each["breaches"]}
    assert found["I1"] == found["I3"] == 1
    assert sum(found.values()) == len(document["breaches"])


def test_requests_of_other_producers_count_as_requests() -> None:
    letters = [
        letter("bad", "invalid_field", "dlq-1"),
        letter(None, "not_json", "sqs-3"),
        letter("not ours", "invalid_field", "dlq-2"),
        letter(None, "not_json", "dlq-3"),
    ]
    requests = [accepted("booked", "sqs-1"), accepted("bad", "sqs-2"), accepted(None, "sqs-3")]
    verdict = verdict_of(gathered(requests, letters, **sound()))
    assert (verdict.kind, verdict.counts.requests, verdict.counts.unarchived) == ("holds", 9, 6)
    assert "is quarantined with its reason (4)" in verdict.sentence


def test_lost_is_known_only_when_there_is_an_archive() -> None:
    known = verdict_of(gathered([accepted("booked", "sqs-1")], **sound()))
    assert (known.kind, known.counts.lost) == ("holds", 0)
    assert known.sentence.startswith("Exactly once: each of 5 requests has")
    assert known.sentence.endswith(f"all {len(known.document()['invariants'])} invariants hold.")
    unknown = verdict_of(gathered(None, **sound()))
    assert (unknown.kind, unknown.counts.lost) == ("holds", None)
    assert unknown.sentence.startswith("Sound: each of 5 requests")
    assert "a lost one would not show" in unknown.sentence
    assert "older" not in unknown.sentence
    assert (unknown.counts.messages, unknown.counts.unarchived) == (None, None)
    old = verdict_of(replace(gathered(None), too_old=3))
    assert (old.kind, "3 more are older" in old.sentence) == ("holds", True)


def test_verdict_is_given_when_anything_was_left_behind() -> None:
    """A refusal, an appointment that the ledger has forgotten, a dropped request or a dead letter is enough."""
    dropped = gathered([accepted("m-1", "sqs-1")])
    left = (
        gathered(ledger={"refused": row("refused", "refused")}),
        gathered(appointments={"waits": appointment("waits", "waitlist")}, forgotten_before=NOW + 1),
        replace(dropped, evidence=replace(dropped.evidence, quarantined={"m-1"})),
        gathered(letters=[letter("m-1", "not_json", "sqs-1")]),
    )
    assert [verdict_of(found).kind for found in left] == ["holds"] * len(left)
    ends = replace(dropped, evidence=replace(dropped.evidence, dropped={"m-1"}, quarantined={"m-2", "m-3"}))
    said = verdict_of(ends).sentence
    assert "has exactly one answer, is quarantined with its reason (2) or was dropped by an operator (1);" in said
    nothing = verdict_of(gathered())
    assert (nothing.kind, "Nothing to check" in nothing.sentence) == ("nothing", True)


LINE = Malformed(DELIVERY_LOG, "line 7", "finished")


def test_verdict_is_unreadable_above_the_limit_of_bad_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a limit of one line in a hundred, in place of the audit's 100,000. A broken or unfinished verdict stays so."""
    monkeypatch.setattr("oneslot.operator.evidence.verdict.REJECT_SHARE", 0.01)
    evidence = sound()
    rows = sum(len(evidence[name]) for name in ("ledger", "slots", "appointments"))
    requests = [accepted("booked", "sqs-1")]

    def kind_of(lines: int, **more: Any) -> str:
        logged = [evidence["deliveries"][0]] * (lines - rows)
        made = gathered(requests, malformed_lines=[LINE], **more, **evidence | {"deliveries": logged})
        verdict = verdict_of(made)
        assert list(verdict.malformed) == [LINE]
        assert verdict.counts.malformed_deliveries == 1
        kind, above = verdict.kind, lines < 100
        reported = f"1 line of the delivery log is malformed, {'more than' if above else 'within'} the limit of 1.000%"
        assert reported in verdict.sentence
        assert verdict.sentence.startswith("Not sound, because too many lines are malformed.") == (kind == "unreadable")
        return kind

    assert kind_of(100) == "holds"
    assert kind_of(99) == "unreadable"
    assert kind_of(50, queue=QueueDepth(1, 0, 0)) == "unfinished"
    assert verdict_of(gathered(malformed_lines=[LINE])).kind == "unreadable"
    lost = verdict_of(gathered([accepted("never-seen", "sqs-1")], malformed_lines=[LINE]))
    assert lost.kind == "broken"
    assert "is malformed, more than the limit" in lost.sentence


def test_verdict_is_unreadable_when_a_row_is_malformed() -> None:
    """It is only counted: an archive and an empty queue do not make a guess of it."""
    evidence = sound()
    del evidence["ledger"]["refused"]["status"]
    del evidence["ledger"]["waits"]["status"]
    lost = accepted("never-seen", "sqs-1")
    verdict = verdict_of(gathered([lost], malformed_lines=[LINE], **evidence))
    assert (verdict.kind, verdict.holds, verdict.breaches) == ("unreadable", False, ())
    assert (verdict.counts.lost, verdict.counts.double_booked, verdict.counts.completed) == (None, None, 2)
    assert verdict.sentence.startswith("No verdict: the row ")
    assert "and 1 more." in verdict.sentence
    malformed = [(each["where"], each["key"], each["attribute"]) for each in verdict.document()["malformed"]]
    rows = [("ledger", "refused", "status"), ("ledger", "waits", "status")]
    assert sorted(malformed[:2]) == rows
    assert malformed[2:] == [(DELIVERY_LOG, "line 7", "finished")]


def test_other_laws_are_judged_when_one_is_not_local() -> None:
    """Its breaches are those of the parts, where rows that name the subject are missing."""
    all_three = Law("all_three", "", lambda evidence: [("waits", "")] if len(evidence.rows("appointments")) < 3 else [])
    declaration = replace(CONSUMER)
    declaration.__dict__["laws"] = (*CONSUMER.laws, all_three)
    found = replace(gathered(None, **sound()), declaration=declaration)
    lost = replace(found, evidence=replace(found.evidence, ledger={}))

    holds, broken = verdict_of(found), verdict_of(lost)

    assert (holds.kind, broken.kind) == ("unreadable", "broken")
    assert f"; all {len(CONSUMER.judged)} invariants hold." in holds.sentence
    assert all("The law all_three is not local" in each.sentence for each in (holds, broken))
    assert {each.invariant for each in broken.breaches} >= {"I5r", "I6"}
