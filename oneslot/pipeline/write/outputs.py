"""What an audit leaves: a folder that appears when it is whole, and a description that readers ask first.

verdicts/part-NNNNN.parquet   a row for each request, slot and appointment judged in this run, with its evidence
operations/<table>/           see oneslot.pipeline.judge.operations
findings/part-NNNNN.parquet   each invariant that does not hold, for which subject
repair/redrive.jsonl          what to send through again; repair/look-at.jsonl what a person must see
rejects.jsonl                 malformed lines: file, line and problem, never the line itself
audit.json                    written last: what was audited, what was found, and where the verdicts are
report.html                   the same for people
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from oneslot.pipeline.columns import WITHHELD, shown_id
from oneslot.pipeline.errors import AuditRefused
from oneslot.pipeline.judge.evidence import KEY, MEASURES
from oneslot.pipeline.read.context import Context
from oneslot.pipeline.storage import Storage, literal
from oneslot.pipeline.vocabulary import Subject, Verdict

DESCRIPTION = "audit.json"
VERDICTS = "verdicts"
OPERATIONS = "operations"
VERSION = 5
USUAL_VALUES = {
    **{measure.name: "0L" for measure in MEASURES if measure.starts_at_zero},
    "claim_high": "claim_low",
    "answer_high": "answer_low",
}
"""Columns of verdicts → what their null stands for, as SQL."""


@dataclass(frozen=True)
class Run:
    """A finished audit.

    `layers` are its folders of verdicts, oldest first; a later row replaces an earlier one. `items` is how many items its
    exports and those of the audits before had.
    """

    folder: str
    end: int
    items: int
    context: Context
    layers: tuple[str, ...]
    document: dict[str, Any]

    def verdicts(self, spark: SparkSession) -> DataFrame:
        """The verdict rows of all layers, with the number of their layer."""
        whole: DataFrame | None = None
        for number, layer in enumerate(self.layers):
            rows = read_verdicts(spark, layer).withColumn("layer", F.lit(number))
            whole = rows if whole is None else whole.unionByName(rows)
        if whole is None:
            raise AuditRefused(f"{self.folder}/{DESCRIPTION} names no verdicts; audit full exports again.")
        return whole


def write_verdicts(storage: Storage, judged: DataFrame, folder: str) -> None:
    """Judged evidence as Parquet. What is 0, or repeats another column, is written as null: most of a row, and free then."""
    written = judged.withColumns({name: F.expr(f"nullif({name}, {usual})") for name, usual in USUAL_VALUES.items()})
    written.write.parquet(folder)
    rename_parts(storage, folder)


def read_verdicts(spark: SparkSession, folder: str) -> DataFrame:
    """One folder of verdicts as it was judged, with what it was written without."""
    return spark.read.parquet(literal(folder)).withColumns(
        {name: F.expr(f"coalesce({name}, {usual})") for name, usual in USUAL_VALUES.items()}
    )


def newest_rows(layered: DataFrame) -> DataFrame:
    """Of rows with a `layer`, the newest of each key, without the layer."""
    columns = [name for name in layered.columns if name not in (*KEY, "layer")]
    whole = F.struct("layer", *columns).alias("row")
    newest = layered.select(*KEY, whole).groupBy(*KEY).agg(F.max_by("row", "row.layer").alias("row"))
    return newest.select(*KEY, *(f"row.{name}" for name in columns))


def current_verdicts(spark: SparkSession, folder: str) -> DataFrame:
    """The verdicts as they stand after the audit in `folder`, over all of its layers."""
    newest = newest_rows(open_run(Storage(spark), folder).verdicts(spark))
    return newest.where(F.col("subject") != Subject.GONE)


def open_run(storage: Storage, folder: str) -> Run:
    """A finished audit. Raises AuditRefused for a folder that is none, or that a crash left behind."""
    text = storage.read_text(f"{folder}/{DESCRIPTION}")
    if text is None:
        raise AuditRefused(f"{folder} has no {DESCRIPTION}: it is not a finished audit.")
    try:
        document = json.loads(text)
        if document["version"] != VERSION:
            raise AuditRefused(f"{folder} was written by another version of the audit: audit full exports once.")
        layers = tuple(str(layer) for layer in document["layers"])
        run = Run(
            folder,
            int(document["end"]),
            int(document["items"]),
            Context(document["retention_ms"], document.get("forgotten_before", 0)),
            tuple(_beside(folder, layer) for layer in layers),
            document,
        )
    except (ValueError, KeyError, TypeError) as error:
        raise AuditRefused(f"{folder}/{DESCRIPTION} cannot be read; audit again.") from error
    missing = [layer for layer in run.layers if not storage.exists(layer)]
    if missing:
        raise AuditRefused(f"{folder} builds on {missing[0]}, which is gone. Audit full exports again.")
    return run


def layer_name(folder: str, layer: str) -> str:
    """A layer as a description names it: relative to the folder that holds the audits, so that they move together."""
    parent = folder.rstrip("/").rpartition("/")[0]
    return layer[len(parent) + 1 :] if parent and layer.startswith(f"{parent}/") else layer


def refuse_unrelated(previous: str, folder: str) -> None:
    """A layer is named relative to the audit that builds on it, and that has no meaning between two unrelated folders."""
    together = previous.rpartition("/")[0] == folder.rpartition("/")[0]
    if not together and not (_whole(previous) and _whole(folder)):
        raise AuditRefused(
            f"{previous} and {folder} are in different folders: name both by their whole paths, or put the audit beside "
            "the one that it continues."
        )


def _whole(path: str) -> bool:
    return path.startswith("/") or ":" in path


def _beside(folder: str, layer: str) -> str:
    if _whole(layer):
        return layer
    parent = folder.rstrip("/").rpartition("/")[0]
    return f"{parent}/{layer}" if parent else layer


def aside(folder: str) -> str:
    """Where an audit is written until it is whole. Its name says what it is; no reader looks there."""
    parent, _, name = folder.rstrip("/").rpartition("/")
    hidden = f".{name}.incomplete"
    return f"{parent}/{hidden}" if parent else hidden


def refuse_existing(storage: Storage, folder: str) -> None:
    """An audit never overwrites another."""
    if not storage.exists(folder):
        return
    if storage.exists(f"{folder}/{DESCRIPTION}"):
        raise AuditRefused(f"{folder} exists already. Name another output, or remove it.")
    raise AuditRefused(f"{folder} exists already and is no finished audit: remove it, or name another output.")


def rename_parts(storage: Storage, folder: str) -> None:
    """Give Spark's files names without the random part, so that the same input leaves the same files."""
    for number, name in enumerate(name for name in storage.names(folder) if name.startswith("part-")):
        extension = name.partition(".")[2].removeprefix("c000.")
        storage.rename(f"{folder}/{name}", f"{folder}/part-{number:05d}.{extension}")


def write_table(storage: Storage, table: DataFrame, folder: str, partition: str | None) -> None:
    """A small table, sorted, as one Parquet file; or one for each value of the column that it is partitioned by."""
    writer = table.coalesce(1).write
    (writer.partitionBy(partition) if partition else writer).parquet(folder)
    if partition and not storage.names(folder):
        # No value, no file, and then nothing says what the columns are.
        table.limit(0).coalesce(1).write.mode("overwrite").parquet(folder)
    for name in storage.names(folder) if partition else ():
        if name.startswith(f"{partition}="):
            rename_parts(storage, f"{folder}/{name}")
    rename_parts(storage, folder)


def write_lines(storage: Storage, rows: DataFrame, path: str) -> None:
    """Rows as one file of JSON lines, in the rows' order."""
    rows.select(F.to_json(F.struct(*rows.columns)).alias("value")).coalesce(1).write.text(f"{path}.parts")
    (part,) = (name for name in storage.names(f"{path}.parts") if name.startswith("part-"))
    storage.rename(f"{path}.parts/{part}", path)
    storage.delete(f"{path}.parts")


def write_findings(storage: Storage, judged: DataFrame, folder: str, *, dead_letters_known: bool) -> None:
    """The rows that someone must look at, as findings and as repair lists.

    Where the dead-letter queue was not listed, what is lost or stuck may be in it, and may be redriven from there.
    """
    bad = judged.where((F.col("violations") != "") | F.col("verdict").isin(*UNSOUND, Verdict.QUARANTINED))
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
    write_table(storage, ordered, f"{folder}/findings", None)
    storage.make_folder(f"{folder}/repair")
    # Quarantined by the consumer means that it can never succeed as it is. In the dead-letter queue without that,
    # its receives ran out: it may well succeed now. A row that was written later was redriven in between, as in
    # `verdicts.quarantined_by_log`, and what the consumer said before is over.
    quarantined = F.col("quarantined_at")
    exhausted = (F.col("dead_letters") > 0) & (quarantined.isNull() | (quarantined < F.col("ledger_resting_since")))
    resend = F.col("verdict").isin(Verdict.LOST, Verdict.STUCK)
    perhaps_there = resend & ~F.lit(dead_letters_known)
    redriven = (exhausted & (F.col("verdict") == Verdict.QUARANTINED)) | perhaps_there
    # A withheld id finds no message; the consumer accepts none such either.
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


def display_key() -> Column:
    """A key as people read it: a slot is `practice/slot_id`."""
    return (
        F.when(F.col("subject") == Subject.SLOT, F.replace(F.substring("key", 2, 10_000), F.lit("#"), F.lit("/")))
        .when(F.col("subject").isin(Subject.FILE, Subject.UNIDENTIFIED), F.substring("key", 2, 10_000))
        .otherwise(F.col("key"))
    )


RESEND = "send the request again with the same message_id"
UNSOUND = (Verdict.LOST, Verdict.STUCK, Verdict.DUPLICATE_EFFECT)
"""Verdicts that no sound history has."""


def pretty(document: Mapping[str, Any]) -> str:
    """A document as JSON for people and programs; equal documents give equal bytes."""
    return json.dumps(document, indent=2, sort_keys=True) + "\n"


def json_lines(rows: list[dict[str, Any]]) -> str:
    """Rows as JSON lines, members sorted."""
    return "".join(json.dumps(row, sort_keys=True) + "\n" for row in rows)


def sentence_of(error: Exception) -> str:
    """What a person needs of an error of Spark's: its own first sentence, not the Java behind it."""
    # Of an error of Java's the first line names the call; what went wrong is Java's own message.
    text = str(error.java_exception) if isinstance(error, Py4JJavaError) else str(error)
    first = text.strip().splitlines()[0]
    for sign, meaning in SIGNS.items():
        if sign in str(error):
            return f"{meaning} (Spark says: {first[:200]})"
    return f"Spark could not finish: {first[:400]}"


SIGNS = {
    "EOFException": "A gzipped file ends in the middle: it was cut short. Copy or export it again.",
    "ZipException": "A file that ends in .gz is not gzip, or is damaged. Copy or export it again.",
    "not a gzip file": "A file that ends in .gz is not gzip, or is damaged. Copy or export it again.",
    "incorrect data check": "A gzipped file is damaged. Copy or export it again.",
    "Relative path in absolute URI": "Spark reads no file whose name has a colon: rename it.",
    "No space left on device": "The disk is full: give Spark another folder with --scratch.",
    "OutOfMemoryError": "Spark ran out of memory: give it more with --memory.",
}
