"""The ledger's laws that a history can show, as columns: true where a row of measures breaks one.

Each has the name of a law of `oneslot.laws.ledger`. A consumer's `Model` adds its own. A test compares the names.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from oneslot.pipeline.judge.states import (
    Moment,
    Shown,
    answered_again,
    begun_again,
    begun_in_no_queue,
    begun_is_over,
    complete,
    dropped,
    forgotten,
    unfinished_is_over,
)
from oneslot.pipeline.vocabulary import UNKNOWN_OUTCOME

SOURCE_FINDINGS = {
    "S1": "A table's export holds each item at most once.",
}
"""Findings about the sources themselves; the laws are the consumer's."""


LEDGER_LAWS = ("I2", "I5r", "I6", "I7", "I9", "I10", "I11")


def ledger_violations(moment: Moment, shown: Shown) -> Mapping[str, Column]:
    """Return each law of the ledger, with the column that is true where a row breaks it."""
    made, acted = F.expr(shown.made), F.expr(shown.acted)
    old = forgotten(moment, shown)
    two = F.when(F.col("claim_low") != F.col("claim_high"), F.lit(2))
    # A request that comes again after its row expired gets a new row, whose count starts at 1.
    renewed = moment.may_be_gone(F.col("delivery_sent"), moment.now)
    excused = old | begun_again(moment, shown)
    claims = F.greatest(F.lit(1), F.col("consumptions_seen"), F.bit_count("claims_seen"), two)
    kept = complete() & (F.col("ledger_outcome") != UNKNOWN_OUTCOME)
    return {
        "I2": (unfinished_is_over(moment) | begun_in_no_queue(moment)) & ~old,
        "I5r": ~complete() & acted & ~excused,
        "I6": (F.col("deliveries_done") > 0) & ~complete() & ~excused,
        "I7": F.coalesce(
            ((F.col("answer_low") != F.col("answer_high")) & ~answered_again(moment, shown))
            | (kept & ~F.expr(shown.answered) & ~renewed),
            F.lit(False),
        ),
        "I9": begun_is_over(moment),
        "I10": (F.col("ledger_rows") > 0) & (F.col("ledger_consumptions") < F.when(renewed, 1).otherwise(claims)),
        "I11": ((F.col("dead_letters") > 0) | dropped()) & made & ~complete() & ~excused,
    }
