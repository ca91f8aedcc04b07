"""One row of measures gives subject, verdict and findings: the cases that the histories of other tests do not decide."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from oneslot.pipeline.judge.measures import KEY
from oneslot.pipeline.model import model_of
from workload.audit.model import MEASURES
from workload.audit.vocabulary import AppointmentStatus, Outcome, SlotStatus
from workload.declared import CONSUMER

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
NOW, PATIENCE, RETENTION = 10_000, 100, 1_000
Row = dict[str, Any]
Judged = tuple[str, str | None, str]

BEGUN = {"ledger_rows": 1, "ledger_consumptions": 1}
ANSWERED = {**BEGUN, "ledger_complete": 1, "ledger_outcome": int(Outcome.BOOKED), "ledger_names": 7}
MADE = {"appointment_rows": 1, "appointment_status": int(AppointmentStatus.BOOKED), "appointment_created": NOW - 5}
BOOKED = {**ANSWERED, **MADE, "held_slots": 1}
LOGGED = {"deliveries": 1, "delivery_sent": NOW - 9, "last_finished": NOW - 5}
DONE = {**LOGGED, "deliveries_done": 1, "delivered_outcome": 1, "first_done": NOW - 5}
OLD = NOW - RETENTION
SLOT = {"key": "#practice#slot", "slot_rows": 1, "slot_status": int(SlotStatus.BUSY)}

SEEN_ONCE: dict[str, tuple[Row, Judged]] = {
    "a dead letter alone": ({"dead_letters": 1}, ("request", "quarantined", "")),
    "a copy in the queue alone": ({"waiting": 1}, ("request", "in_flight", "")),
    "dropped alone": ({"dropped_at": 5}, ("request", "dropped", "")),
    "dropped, and a copy waits": ({"dropped_at": 5, "waiting": 1}, ("request", "in_flight", "")),
    "old, and a copy waits": ({"accepted_sent": OLD - 1, "waiting": 1}, ("request", "in_flight", "")),
    "quarantined, and a copy waits": ({**LOGGED, "quarantined_at": 9, "waiting": 1}, ("request", "in_flight", "")),
    "quarantined at the moment of its release": (
        {**LOGGED, **BEGUN, "quarantined_at": 9, "ledger_resting_since": 9},
        ("request", "quarantined", ""),
    ),
    "seen as long ago as the patience": ({**LOGGED, "delivery_sent": NOW - PATIENCE}, ("request", "in_flight", "")),
    "seen before that": ({**LOGGED, "delivery_sent": NOW - PATIENCE - 1}, ("request", "lost", "I2")),
    "held as long ago as the patience": (
        {**LOGGED, **BEGUN, "ledger_resting_since": NOW - PATIENCE},
        ("request", "in_flight", ""),
    ),
    "held before that, all older than the retention": (
        {**LOGGED, **BEGUN, "ledger_resting_since": 9, "last_finished": 9, "delivery_sent": 9},
        ("request", "stuck", "I2 I9"),
    ),
    "an appointment whose row expired": (
        {**MADE, "appointment_created": OLD - 1, "held_slots": 1},
        ("appointment", None, ""),
    ),
    "an appointment whose row must exist": (
        {**MADE, "appointment_created": OLD, "held_slots": 1},
        ("appointment", None, "I5r"),
    ),
    "a cancellation whose row expired": (
        {"cancellations": 1, "cancelled_at": OLD - 1},
        ("appointment", None, ""),
    ),
    "a cancellation whose row is unfinished": (
        {**BEGUN, "cancellations": 1, "cancelled_at": NOW - 5, "ledger_resting_since": NOW},
        ("request", "in_flight", "I5r"),
    ),
    "sent again after its row expired": (
        {"accepted_sent": OLD - 1, "deliveries": 1, "delivery_sent": NOW - PATIENCE - 1},
        ("request", "forgotten", ""),
    ),
    "booked, and the appointment waits": (
        {**BOOKED, "appointment_status": int(AppointmentStatus.WAITLIST)},
        ("request", "booked", "I5"),
    ),
    "booked without place, and cancelled before": (
        {**ANSWERED, "ledger_names": 0, "appointment_rows": 1, "appointment_status": int(AppointmentStatus.TOMBSTONE)},
        ("request", "cancelled", "I5"),
    ),
    "two answers, the later after the row expired": (
        {**BOOKED, **DONE, "appointment_created": 5, "answer_low": 1, "answer_high": 2},
        ("request", "booked", "I7"),
    ),
    "never claimed": ({**BOOKED, "ledger_consumptions": 0}, ("request", "booked", "I10")),
    "a line counts more claims": ({**BOOKED, **DONE, "consumptions_seen": 2}, ("request", "booked", "I10")),
    "three claims, each the first": (
        {**BOOKED, **DONE, "ledger_consumptions": 2, "claims_seen": 7},
        ("request", "booked", "I10"),
    ),
    "two claims of one bit": (
        {**BOOKED, **DONE, "claims_seen": 1, "claim_low": 64, "claim_high": 128},
        ("request", "booked", "I10"),
    ),
    "600,000 answers, and the row is unfinished": (
        {**BEGUN, **DONE, "ledger_resting_since": NOW, "deliveries": 600_000, "deliveries_done": 600_000},
        ("request", "in_flight", "I6"),
    ),
    "an appointment twice": ({**BOOKED, "appointment_rows": 2}, ("request", "duplicate_effect", "S1")),
    "a slot held by its appointment": ({**SLOT, "holdings": 1}, ("slot", None, "")),
    "a slot held by another appointment": ({**SLOT, "holdings": 1, "holder_differs": 3}, ("slot", None, "I4")),
    "a slot twice": ({**SLOT, "slot_rows": 2, "slot_status": 1}, ("slot", None, "S1")),
}


def judged(spark: SparkSession, rows: dict[str, Row], **moment: Any) -> dict[str, Judged]:
    """Return each row of measures as it is judged. A measure that is not given is 0 or null."""
    from oneslot.pipeline.judge import verdicts
    from oneslot.pipeline.judge.states import Moment

    usual = {measure.name: 0 if measure.starts_at_zero else None for measure in MEASURES.all}
    evidence = [{**usual, "hash": number, "key": "m", **row} for number, row in enumerate(rows.values())]
    schema = ", ".join(f"{name} {'string' if name == 'key' else 'bigint'}" for name in MEASURES.columns)
    table = spark.createDataFrame([tuple(row[name] for name in MEASURES.columns) for row in evidence], schema)
    at = Moment(**{"now": NOW, "patience": PATIENCE, "retention": RETENTION, **moment})
    found = verdicts.judge(table, at, model_of(CONSUMER)).orderBy(KEY[0]).collect()
    return {name: (row.subject, row.verdict, row.violations) for name, row in zip(rows, found, strict=True)}


def test_verdict_when_the_queue_is_not_known(spark: SparkSession) -> None:
    """As each night on AWS."""
    expected = {name: answer for name, (_, answer) in SEEN_ONCE.items()}
    assert judged(spark, {name: row for name, (row, _) in SEEN_ONCE.items()}) == expected


def test_verdict_when_both_queues_are_known(spark: SparkSession) -> None:
    """An unseen request is lost at once; a row without a known request is not."""
    rows = {
        "quarantined by the log alone": {**LOGGED, "quarantined_at": NOW - 5},
        "begun without a known request": {**BEGUN, "ledger_resting_since": NOW},
        "begun": {**BEGUN, **LOGGED, "ledger_resting_since": NOW},
        "released": {**BEGUN, **LOGGED, "ledger_resting_since": NOW - 5},
        "quarantined by the log after its claim": {
            **BEGUN,
            **LOGGED,
            "ledger_resting_since": NOW - 5,
            "quarantined_at": NOW - 5,
        },
    }
    assert judged(spark, rows, queue_known=True, dead_letters_known=True) == {
        "quarantined by the log alone": ("request", "lost", "I2"),
        "begun without a known request": ("request", "in_flight", ""),
        "begun": ("request", "in_flight", "I2"),
        "released": ("request", "stuck", "I2 I9"),
        "quarantined by the log after its claim": ("request", "stuck", "I2 I9"),
    }


@pytest.mark.slow
def test_verdict_when_one_queue_is_known(spark: SparkSession) -> None:
    """A message redriven after the log's line may be in the other queue."""
    rows = {"quarantined": {**LOGGED, "quarantined_at": NOW - 5, "delivery_sent": 5}}
    for known in ("queue_known", "dead_letters_known"):
        assert judged(spark, rows, **{known: True}) == {"quarantined": ("request", "quarantined", "")}


@pytest.mark.slow
def test_row_is_forgotten_by_either_limit(spark: SparkSession) -> None:
    """The present retention, and the time before which it was shorter."""
    made = {str(at): {**MADE, "appointment_created": at} for at in (OLD - 1, OLD, NOW - 2, NOW - 1)}

    def missed(**moment: Any) -> list[str]:
        return [name for name, (_, _, broken) in judged(spark, made, **moment).items() if "I5r" in broken.split()]

    assert missed() == [str(OLD), str(NOW - 2), str(NOW - 1)]
    assert missed(forgotten_before=5) == [str(OLD), str(NOW - 2), str(NOW - 1)]
    assert missed(forgotten_before=NOW - 1) == [str(NOW - 1)]
    assert missed(retention=None) == [*made]
    assert missed(retention=None, forgotten_before=OLD) == [str(OLD), str(NOW - 2), str(NOW - 1)]
