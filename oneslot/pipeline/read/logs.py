"""Lines of the delivery log, the archive and the lists of queues as facts."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from oneslot.pipeline.columns import absent, coded, identity_or, no_identity, reserved, zero
from oneslot.pipeline.read.facts import LARGEST_COUNT, LATEST_EPOCH_MS, fact, facts_or_reject, first_problem
from oneslot.pipeline.read.sources import CORRUPT
from oneslot.pipeline.vocabulary import Delivered, Kind, Problem


def delivered(answers: Mapping[str, int], other_answer: int | None = None) -> str:
    """Return SQL for the code of a line's outcome, as `Model` has them; null for an outcome that the audit does not know."""
    of_library = {outcome.name.lower(): int(outcome) for outcome in Delivered}
    known = coded("outcome", {**answers, **of_library})
    return known if other_answer is None else f"coalesce({known}, {other_answer})"


def delivery_facts(lines: DataFrame, start: int | None, end: int, code: str) -> DataFrame:
    """Return facts of the delivery log. The consumer's other log lines are skipped.

    A sound line counts if it finished from `start` (inclusive; None: no bound) to `end` (exclusive), epoch ms. A later line
    shows work that the tables do not show yet, and an earlier line was counted by the audit before. `code` is `delivered`.
    """
    delivery = fact(
        identity_or("sqs_message_id"),
        Kind.DELIVERY,
        code=F.expr(code),
        number=F.expr("coalesce(consumption_count, 0)"),
        at=F.col("finished"),
        until=F.col("sent"),
        link=F.when(F.col("claimed_by").isNotNull(), F.xxhash64("claimed_by")).otherwise(zero()),
        extra=F.when(F.col("answer").isNotNull(), F.xxhash64("answer")),
    )
    relevant = lines.where((F.col("message") == "delivery") | F.col(CORRUPT).isNotNull())
    counted = F.when(finished_within(start, end), delivery)
    return facts_or_reject(whole_lines(relevant), delivery_problem(code), counted)


def sound_deliveries(lines: DataFrame, code: str) -> DataFrame:
    """Return the valid lines of the delivery log with all their columns, whatever time they finished."""
    return whole_lines(lines.where(F.col("message") == "delivery")).where(delivery_problem(code).isNull())


def delivery_problem(code: str) -> Column:
    """Return the problem of a line of the delivery log, or null."""
    return first_problem(
        {
            Problem.MISSING_ATTRIBUTE: f"{absent('outcome', 'finished', 'sent')} OR {no_identity('sqs_message_id')}",
            Problem.OUT_OF_RANGE: f"finished NOT BETWEEN 0 AND {LATEST_EPOCH_MS} "
            f"OR sent NOT BETWEEN 0 AND {LATEST_EPOCH_MS} OR consumption_count < 0",
            Problem.UNKNOWN_VALUE: f"({code}) IS NULL OR {reserved('message_id')}",
        }
    )


def finished_within(start: int | None, end: int) -> Column:
    """Return true where a line finished from `start` (inclusive) to `end` (exclusive), epoch ms."""
    before_end = F.col("finished") < end
    return before_end if start is None else before_end & (F.col("finished") >= start)


def accepted_facts(lines: DataFrame) -> DataFrame:
    """Return facts of the producer's archive. A request without an id cannot be followed, and is skipped."""
    accepted = fact(
        F.col("message_id"),
        Kind.ACCEPTED,
        number=F.coalesce(F.col("copies"), F.lit(1)),
        at=F.col("sent"),
    )
    problem = first_problem(
        {
            Problem.MISSING_ATTRIBUTE: absent("sent"),
            Problem.OUT_OF_RANGE: f"sent NOT BETWEEN 0 AND {LATEST_EPOCH_MS} OR copies NOT BETWEEN 0 AND {LARGEST_COUNT}",
            Problem.UNKNOWN_VALUE: reserved("message_id"),
        }
    )
    relevant = lines.where(F.col("message_id").isNotNull() | F.col(CORRUPT).isNotNull())
    return facts_or_reject(whole_lines(relevant), problem, accepted)


def dead_letter_facts(lines: DataFrame) -> DataFrame:
    """Return facts of the messages in the dead-letter queue."""
    problem = first_problem({Problem.MISSING_ATTRIBUTE: no_identity("source_message_id")})
    dead = fact(identity_or("source_message_id"), Kind.DEAD_LETTER)
    return facts_or_reject(whole_lines(lines), problem, dead)


def dropped_facts(lines: DataFrame) -> DataFrame:
    """Return facts of the messages that an operator deleted from the dead-letter queue, from the operator log."""
    problem = first_problem(
        {
            Problem.MISSING_ATTRIBUTE: f"at IS NULL OR {no_identity('source_message_id')}",
            Problem.OUT_OF_RANGE: f"at NOT BETWEEN 0 AND {LATEST_EPOCH_MS}",
            Problem.UNKNOWN_VALUE: reserved("message_id"),
        }
    )
    dropped = fact(identity_or("source_message_id"), Kind.DROPPED, at=F.col("at"))
    return facts_or_reject(whole_lines(lines), problem, dropped)


def waiting_facts(lines: DataFrame) -> DataFrame:
    """Return facts of the messages in the queue."""
    problem = first_problem({Problem.MISSING_ATTRIBUTE: no_identity("sqs_message_id")})
    waiting = fact(identity_or("sqs_message_id"), Kind.WAITING)
    return facts_or_reject(whole_lines(lines), problem, waiting)


def whole_lines(lines: DataFrame) -> DataFrame:
    """Return lines of a log with the columns that items of tables have: sign +1, inside the window, no bad number."""
    return lines.selectExpr("*", "1 AS sign", "false AS outside", "false AS bad")


LINE_FACTS = {
    "accepted": accepted_facts,
    "dead-letters": dead_letter_facts,
    "dropped": dropped_facts,
    "waiting": waiting_facts,
}
