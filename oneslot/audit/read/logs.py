"""Lines of the delivery log, the archive and the lists of queues, under the requests that they are about."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pyspark.sql import DataFrame

from oneslot.audit.read.carry import (
    absent,
    carried,
    first_problem,
    reserved,
)
from oneslot.audit.read.sources import CORRUPT
from oneslot.laws.form import LARGEST_COUNT, LATEST_EPOCH_MS, UNIDENTIFIED_PREFIX, Problem
from oneslot.laws.schema import LIBRARY_OUTCOMES, Schema

_TIME = f"NOT BETWEEN 0 AND {LATEST_EPOCH_MS}"


def known_outcome(schema: Schema) -> str:
    """Return SQL that is true for an outcome that the log may have."""
    words = ", ".join(quoted(word) for word in (*schema.answers, *sorted(LIBRARY_OUTCOMES)))
    return f"outcome IN ({words})" if schema.outcomes else "true"


def quoted(word: str) -> str:
    """Return a text as a literal of SQL."""
    escaped = word.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _identity_or(sqs_message_id: str) -> str:
    """Return SQL for the message's own id, or a key made from the id that SQS gave a message without one."""
    return f"coalesce(message_id, concat('{UNIDENTIFIED_PREFIX}', {sqs_message_id}))"


def _no_identity(sqs_message_id: str) -> str:
    """Return SQL that is true where a line has neither the message's own id nor the id from SQS."""
    return f"(message_id IS NULL AND {sqs_message_id} IS NULL)"


def carried_deliveries(lines: DataFrame, place: int, start: int | None, end: int, known: str) -> DataFrame:
    """Return the lines of the delivery log under their requests. The consumer's other log lines are skipped.

    A sound line counts if it finished from `start` (inclusive; None: no bound) to `end` (exclusive), epoch ms. A later line
    shows work that the tables do not show yet, and an earlier line was counted by the audit before. `known` is `known_outcome`.
    """
    relevant = whole_lines(lines.where(f"message = 'delivery' OR {CORRUPT} IS NOT NULL"))
    within = f"finished < {end}" if start is None else f"finished >= {start} AND finished < {end}"
    row = "to_json(struct(outcome, consumption_count, sent, finished, claimed_by, answer))"
    problem = delivery_problem(known)
    counted = f"CASE WHEN {within} THEN {_identity_or('sqs_message_id')} END"
    return carried(relevant, place, problem, row, [counted])


def sound_deliveries(lines: DataFrame, known: str) -> DataFrame:
    """Return the valid lines of the delivery log with all their columns, whatever time they finished."""
    return whole_lines(lines.where("message = 'delivery'")).where(f"({delivery_problem(known)}) IS NULL")


def delivery_problem(known: str) -> str:
    """Return SQL for the problem of a line of the delivery log, or null."""
    return first_problem(
        {
            Problem.MISSING_ATTRIBUTE: f"{absent('outcome', 'finished', 'sent')} OR {_no_identity('sqs_message_id')}",
            Problem.OUT_OF_RANGE: f"finished {_TIME} OR sent {_TIME} OR consumption_count < 0",
            Problem.UNKNOWN_VALUE: f"NOT ({known}) OR {reserved('message_id')}",
        }
    )


def _carried_accepted(lines: DataFrame, place: int) -> DataFrame:
    """Return the lines of the producer's archive. A request without an id cannot be followed, and is skipped."""
    problem = first_problem(
        {
            Problem.MISSING_ATTRIBUTE: absent("sent"),
            Problem.OUT_OF_RANGE: f"sent {_TIME} OR copies NOT BETWEEN 0 AND {LARGEST_COUNT}",
            Problem.UNKNOWN_VALUE: reserved("message_id"),
        }
    )
    relevant = whole_lines(lines.where(f"message_id IS NOT NULL OR {CORRUPT} IS NOT NULL"))
    return carried(relevant, place, problem, "to_json(struct(sent, coalesce(copies, 1) AS copies))", ["message_id"])


def _carried_list(lines: DataFrame, place: int, sqs_message_id: str, *, at: bool = False) -> DataFrame:
    """Return the messages of a list, each under its id or that of SQS. `at`: each has a time."""
    conditions = {Problem.MISSING_ATTRIBUTE: ("at IS NULL OR " if at else "") + _no_identity(sqs_message_id)}
    if at:
        conditions |= {Problem.OUT_OF_RANGE: f"at {_TIME}", Problem.UNKNOWN_VALUE: reserved("message_id")}
    row = "CAST(at AS STRING)" if at else "'1'"
    return carried(whole_lines(lines), place, first_problem(conditions), row, [_identity_or(sqs_message_id)])


def whole_lines(lines: DataFrame) -> DataFrame:
    """Return lines of a log with the columns that items of tables have: sign +1, inside the window, no bad number."""
    return lines.selectExpr("*", "1 AS sign", "false AS outside", "false AS bad")


CARRIED_LINES: dict[str, Callable[[DataFrame, int], DataFrame]] = {
    "accepted": _carried_accepted,
    "dead-letters": partial(_carried_list, sqs_message_id="source_message_id"),
    "dropped": partial(_carried_list, sqs_message_id="source_message_id", at=True),
    "waiting": partial(_carried_list, sqs_message_id="sqs_message_id"),
}
