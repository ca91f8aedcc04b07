"""The verdict on one request, and the laws that it breaks: the cases that the histories of other tests do not decide."""

import json
from dataclasses import replace
from typing import Any

import pytest

from demo.declared import CONSUMER
from oneslot.laws.evidence import Evidence, breaches_of
from oneslot.laws.groups import judge
from oneslot.laws.ledger import LEDGER_LAWS, SENT_WITHIN_MS

NOW, PATIENCE, RETENTION = 10_000, 100, 1_000
OLD = NOW - RETENTION
Parts = dict[str, Any]
Judged = tuple[str, str]
PLACE: Parts = {"practice": "A81001", "slot_id": "s", "start": "2026-11-23T08:00:00Z", "end": "2026-11-23T08:10:00Z"}


def begun(since: int = NOW, **more: Any) -> Parts:
    """Return an unfinished row that nobody has held since."""
    row = {"message_id": "m", "status": "IN_PROGRESS", "consumption_count": 1, "updated": since, "lease_until": 0}
    return {"ledger": {"m": {**row, **more}}}


def answered(outcome: str = "booked", count: int = 1, **place: Any) -> Parts:
    """Return a COMPLETE row."""
    result = {"outcome": outcome, "appointment_id": "m", **place}
    row = {"message_id": "m", "status": "COMPLETE", "consumption_count": count, "updated": NOW - 5}
    return {"ledger": {"m": {**row, "result": json.dumps(result)}}}


def made(status: str = "booked", created: int = NOW - 5, **more: Any) -> Parts:
    """Return the appointment of the request, and its slot."""
    row = {"appointment_id": "m", "status": status, "created": created, "updated": created, **PLACE, **more}
    held = {("A81001", "s"): {**PLACE, "status": "busy", "appointment_id": "m"}}
    return {"appointments": {"m": row}, "slots": held if status == "booked" else {}}


def cancelled(at: int) -> Parts:
    """Return an appointment that the request cancelled before it was booked."""
    row = {"appointment_id": "other", "status": "cancelled", "cancelled_by": "m", "created": at, "updated": at}
    return {"appointments": {"other": row}}


def line(outcome: str = "failed", *, sent: int = NOW - 9, finished: int = NOW - 5, **more: Any) -> Parts:
    return {"message_id": "m", "outcome": outcome, "sent": sent, "finished": finished, **more}


def logged(*lines: Parts) -> Parts:
    return {"deliveries": list(lines or (line(),))}


def archived(sent: int) -> Parts:
    return {"requests": {"m"}, "sent": {"m": sent}}


BOOKED = {**answered(**PLACE), **made()}
CANCELLED_SINCE = made("cancelled", created=5, cancelled_by="c")
QUARANTINED = line("quarantined")
QUEUE = {"waiting": {"m"}}
WITHOUT_LISTS: dict[str, tuple[Parts, Judged]] = {
    "a dead letter alone": ({"quarantined": {"m"}}, ("quarantined", "")),
    "dropped alone": ({"dropped": {"m"}}, ("dropped", "")),
    "quarantined at its release": ({**logged(line("quarantined", finished=9)), **begun(9)}, ("quarantined", "")),
    "seen as long ago as the patience": (logged(line(sent=NOW - PATIENCE)), ("in_flight", "")),
    "seen before that": (logged(line(sent=NOW - PATIENCE - 1)), ("lost", "I2")),
    "archived before that": (archived(NOW - PATIENCE - 1), ("lost", "I2")),
    "held as long ago as the patience": ({**logged(), **begun(NOW - PATIENCE)}, ("in_flight", "")),
    "held before that, all older than the retention": (
        {**begun(9), **logged(line(sent=9, finished=9))},
        ("stuck", "I2 I9"),
    ),
    "an appointment whose row expired": (made(created=OLD - 1), ("booked", "")),
    "an appointment whose row must exist": (made(created=OLD), ("booked", "I5r")),
    "a cancellation whose row expired": (cancelled(OLD - 1), ("cancelled", "")),
    "a cancellation whose row is unfinished": ({**begun(), **cancelled(NOW - 5)}, ("in_flight", "I5r")),
    "sent again after its row expired": (
        {**archived(OLD - 1), **logged(line(sent=NOW - PATIENCE - 1, finished=OLD - 1))},
        ("forgotten", ""),
    ),
    "booked, and the appointment waits": ({**answered(**PLACE), **made("waitlist")}, ("booked", "I5")),
    "booked without place, and cancelled before": (
        {
            **answered(),
            "appointments": {
                "m": {"appointment_id": "m", "status": "cancelled", "cancelled_by": "c", "created": 5, "practice": None}
            },
        },
        ("cancelled", ""),
    ),
    "two answers, the later after the row expired": (
        {**BOOKED, **made(created=5), **logged(line("booked", answer="a"), line("duplicate", answer="b"))},
        ("booked", "I7"),
    ),
    "two answers, and it was cancelled between them": (
        {
            **answered("cancelled"),
            **CANCELLED_SINCE,
            **logged(line("booked", answer="a"), line("cancelled", answer="b")),
        },
        ("cancelled", "I7"),
    ),
    "never claimed": ({**made(), **answered(count=0, **PLACE)}, ("booked", "I10")),
    "a line counts more claims": ({**BOOKED, **logged(line("booked", consumption_count=2))}, ("booked", "I10")),
    "three claims, each the first": (
        {**made(), **answered(count=2, **PLACE), **logged(*(line("fenced", claimed_by=name) for name in "abc"))},
        ("booked", "I10"),
    ),
    "answered, and the row is unfinished": ({**begun(), **logged(line("booked"))}, ("in_flight", "I6")),
    "a result that is none": ({**answered("mislaid")}, ("stuck", "I5")),
}


def judged(parts: Parts, **moment: Any) -> Judged:
    """Return the verdict on the request `m`, and the laws that it breaks."""
    usual = {"now": NOW, "patience_ms": PATIENCE, "retention_ms": RETENTION, "dead_letters_known": False}
    evidence: Evidence = CONSUMER.evidence(**{**usual, **moment, **parts})
    found = [breach.invariant for breach in CONSUMER.check(evidence) if breach.subject == "m"]
    twice = any(law.twice for law in CONSUMER.laws if law.name in found)
    return evidence.request("m").verdict(twice=twice), " ".join(found)


@pytest.mark.parametrize(("parts", "expected"), WITHOUT_LISTS.values(), ids=WITHOUT_LISTS)
def test_verdict_when_no_queue_is_listed(parts: Parts, expected: Judged) -> None:
    """As each night on AWS."""
    assert judged(parts) == expected


WITH_LISTS: dict[str, tuple[Parts, Judged]] = {
    "a copy in the queue alone": (QUEUE, ("in_flight", "")),
    "dropped, and a copy waits": ({**QUEUE, "dropped": {"m"}}, ("in_flight", "")),
    "old, and a copy waits": ({**QUEUE, **archived(OLD - 1)}, ("in_flight", "")),
    "quarantined, and a copy waits": ({**QUEUE, **logged(QUARANTINED)}, ("in_flight", "")),
    "quarantined by the log alone": (logged(QUARANTINED), ("lost", "I2")),
    "begun without a known request": (begun(), ("in_flight", "")),
    "begun": ({**begun(), **logged()}, ("in_flight", "I2")),
    "released": ({**begun(NOW - 5), **logged()}, ("stuck", "I2 I9")),
    "quarantined by the log after its claim": ({**begun(NOW - 5), **logged(QUARANTINED)}, ("stuck", "I2 I9")),
}


@pytest.mark.parametrize(("parts", "expected"), WITH_LISTS.values(), ids=WITH_LISTS)
def test_verdict_when_both_queues_are_listed(parts: Parts, expected: Judged) -> None:
    """An unseen request is lost at once; a row without a known request is not."""
    assert judged({"waiting": frozenset(), **parts}, dead_letters_known=True) == expected


@pytest.mark.parametrize("lists", [{"waiting": frozenset()}, {"dead_letters_known": True}])
def test_quarantined_request_may_be_in_the_queue_that_is_not_listed(lists: Parts) -> None:
    """A message redriven after the log's line may be in the other queue."""
    assert judged(logged(line("quarantined", sent=5)), **lists) == ("quarantined", "")


def test_row_is_forgotten_by_either_limit() -> None:
    """The present retention, and the time before which it was shorter."""

    def missed(**moment: Any) -> list[int]:
        return [at for at in (OLD - 1, OLD, NOW - 2, NOW - 1) if "I5r" in judged(made(created=at), **moment)[1]]

    assert missed() == [OLD, NOW - 2, NOW - 1]
    assert missed(forgotten_before=5) == [OLD, NOW - 2, NOW - 1]
    assert missed(forgotten_before=NOW - 1) == [NOW - 1]
    assert missed(retention_ms=None) == [OLD - 1, OLD, NOW - 2, NOW - 1]
    assert missed(retention_ms=None, forgotten_before=OLD) == [OLD, NOW - 2, NOW - 1]


def test_request_took_effect_twice_when_it_holds_two_slots() -> None:
    second = {("A81001", "t"): {**PLACE, "slot_id": "t", "status": "busy", "appointment_id": "m"}}
    parts = {**BOOKED, "slots": {**BOOKED["slots"], **second}}
    assert judged(parts) == ("duplicate_effect", "I1")


def test_answer_of_another_request_is_not_kept() -> None:
    evidence = CONSUMER.evidence(**answered(), now=NOW)
    assert evidence.request("m").kept == "booked"
    others = replace(evidence, ledger={"other": evidence.ledger["m"]})
    assert (others.request("other").kept, others.request("other").recorded) == (None, None)


@pytest.mark.parametrize(("result", "verdict"), [("{}", "complete"), ("{ }", "complete"), ("{", "stuck")])
def test_verdict_is_complete_when_the_answer_is_empty(result: str, verdict: str) -> None:
    """And no outcomes are declared."""
    row = {"message_id": "m", "status": "COMPLETE", "consumption_count": 1, "result": result}
    assert Evidence(ledger={"m": row}).request("m").verdict() == verdict


LAWS = {law.name: law for law in LEDGER_LAWS}


@pytest.mark.parametrize(("forgotten_before", "broken"), [(0, True), (100, True), (200, False)])
def test_answers_are_compared_unless_the_first_was_forgotten(forgotten_before: int, broken: bool) -> None:
    """The request was sent and answered at 100, undone by a restore of all tables, and answered again after 200."""
    lines = [line("complete", answer=answer, sent=sent, finished=sent + 1) for sent, answer in ((100, "a"), (300, "b"))]
    row = {"message_id": "m", "status": "COMPLETE", "consumption_count": 1, "updated": 301}
    evidence = Evidence(ledger={"m": row}, deliveries=lines, forgotten_before=forgotten_before, now=400)

    assert bool(list(breaches_of(LAWS["I7"], evidence))) == broken


@pytest.mark.parametrize(
    ("more", "broken"),
    [
        ({"unsent": 2, "updated": -SENT_WITHIN_MS - 1}, True),
        ({"unsent": 2, "updated": -SENT_WITHIN_MS}, False),
        ({"updated": -10 * SENT_WITHIN_MS}, False),
    ],
)
def test_row_breaks_the_law_when_its_messages_wait_for_over_an_hour(more: Parts, broken: bool) -> None:
    row = {"message_id": "m", "status": "COMPLETE", "consumption_count": 1, "result": '{"outcome":"taken"}', **more}

    found = judge(Evidence(ledger={"m": row}, now=0), [LAWS["I13"]])

    assert [(each.invariant, each.subject) for each in found] == ([("I13", "m")] if broken else [])
    assert all("2 of its messages are not marked as sent" in each.detail for each in found)
