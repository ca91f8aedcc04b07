"""Findings and repair lists: the requests, and other rows, that an operator must look at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from oneslot.audit.spark.storage import Storage
from oneslot.audit.vocabulary import UNSOUND, SubjectKind
from oneslot.audit.write.columns import WITHHELD, shown_id
from oneslot.audit.write.files import write_lines
from oneslot.audit.write.rows import FewRows, ManyRows
from oneslot.laws.form import ROW_PREFIX
from oneslot.laws.request import RequestVerdict

RESEND = "send the request again with the same message_id"


WRONG_VERDICTS = (*UNSOUND, RequestVerdict.QUARANTINED)
COLUMNS = dict.fromkeys(("subject", "id", "verdict", "invariant"), "string")


def count_wrong(totals: Iterable[Mapping[str, Any]]) -> int:
    """Return the number of subjects that findings or repair lists may name, from the totals."""
    return sum(row["subjects"] for row in totals if row["violations"] or row["verdict"] in WRONG_VERDICTS)


def write_findings(
    storage: Storage, judged: DataFrame, folder: str, *, dead_letters_known: bool, any_wrong: bool
) -> DataFrame | None:
    """Write the findings and the repair lists. Return the findings; None, and no query, if nothing is wrong.

    If the dead-letter queue was not listed, a lost or stuck message may be in it, and may be redriven from there.
    """
    if not any_wrong:
        FewRows([], COLUMNS).write(storage, f"{folder}/findings")
        for name in ("redrive", "look-at"):
            storage.write_text(f"{folder}/repair/{name}.jsonl", "")
        return None
    bad = judged.where((F.col("violations") != "") | F.col("verdict").isin(*WRONG_VERDICTS))
    shown = bad.select(
        "subject",
        shown_id(F.col("key"), display_key()).alias("id"),
        "verdict",
        "violations",
        "quarantined_at",
        "dead_letters",
        "ledger_resting_since",
    ).persist()
    findings = shown.select("subject", "id", "verdict", F.explode(F.split("violations", " ")).alias("invariant"))
    ordered = findings.where(F.col("invariant") != "").orderBy("invariant", "subject", "id")
    ManyRows(ordered).write(storage, f"{folder}/findings")
    # A message that the consumer quarantined cannot succeed unchanged. One that ran out of receives may succeed now, and so
    # may one that was redriven after its quarantine: its row is newer, as in `Request.set_aside`.
    quarantined = F.col("quarantined_at")
    exhausted = (F.col("dead_letters") > 0) & (quarantined.isNull() | (quarantined < F.col("ledger_resting_since")))
    resend = F.col("verdict").isin(RequestVerdict.LOST, RequestVerdict.STUCK)
    perhaps_there = resend & ~F.lit(dead_letters_known)
    redriven = (exhausted & (F.col("verdict") == RequestVerdict.QUARANTINED)) | perhaps_there
    # A withheld id finds no message.
    redrive = shown.where(redriven & ~F.startswith("id", F.lit(WITHHELD))).select(
        F.col("id").alias("message_id"), "verdict", F.lit("redrive").alias("action")
    )
    write_lines(storage, redrive.orderBy("message_id"), f"{folder}/repair/redrive.jsonl")
    look = shown.where(resend | (F.col("violations") != "")).select(
        "subject",
        "id",
        "verdict",
        "violations",
        F.when(perhaps_there, f"redrive it from the dead-letter queue; if it is not there, {RESEND}")
        .when(resend, RESEND)
        .otherwise("compare the rows")
        .alias("action"),
    )
    write_lines(storage, look.orderBy("subject", "id"), f"{folder}/repair/look-at.jsonl")
    return ordered


def display_key() -> Column:
    """Return a key for display: a row that is judged as itself is `part/part`, as a slot is `practice/slot_id`."""
    prefixed = F.startswith("key", F.lit(ROW_PREFIX)) | F.col("subject").isin(
        SubjectKind.FILE, SubjectKind.UNIDENTIFIED
    )
    return F.when(prefixed, F.substring("key", 2, 10_000)).otherwise(F.col("key"))
