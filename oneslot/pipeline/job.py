"""The audit as a job: it reads, judges and writes, through `storage.py`. It runs under any `spark-submit`.

    spark-submit oneslot/pipeline/job.py --history s3://.../history --output s3://.../audit/2026-11-23 [--previous ...]

Exit code: 0 sound, 1 something does not hold, 2 the input cannot be audited (the sentence says why).
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from dataclasses import dataclass
from urllib.parse import unquote

from py4j.protocol import Py4JJavaError
from pyspark import StorageLevel
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from oneslot.pipeline import vocabulary
from oneslot.pipeline.errors import AuditRefused
from oneslot.pipeline.judge import evidence, operations, verdicts
from oneslot.pipeline.judge.conclusion import Conclusion, conclude
from oneslot.pipeline.judge.operations import WEIGHT
from oneslot.pipeline.read.history import NOTHING, History, find_history, sample_notes
from oneslot.pipeline.read.rejects import locate_rejects, source_of
from oneslot.pipeline.report.data import collect
from oneslot.pipeline.report.page import render
from oneslot.pipeline.session import SessionSettings, open_session, size_on_disk
from oneslot.pipeline.storage import Storage, literal
from oneslot.pipeline.vocabulary import REJECT_SHARE, Subject
from oneslot.pipeline.write import outputs
from oneslot.pipeline.write.outputs import Run


@dataclass(frozen=True)
class AuditSettings:
    """What to audit and where to leave the answer.

    Attributes:
        history: the folder with the sources; `oneslot.pipeline.read.history` has its layout.
        output: a folder that does not exist yet. It appears when it is whole.
        deliveries: further folders with files of the delivery log. Of all lines only those count that finished before the
            exports' end, and in an audit of changes not before their begin: what comes late is found in these folders.
        previous: the output of the audit that this one continues, or None for a full audit.
        partitions: of the shuffle, and so the number of files of verdicts; the same number gives the same bytes. None: one
            for each PARTITION_ITEMS items of the exports, so that a partition's size does not grow with the history.
        reject_share: above this share of malformed lines the audit does not call the history sound.
        patience_seconds: how long a request may be unseen while the content of the queue is not known.
        checksums: read every data file once more to compare its MD5 with the manifest's.
        tables: also write the operations tables, findings and report; off, only verdicts and totals are made.
    """

    history: str
    output: str
    previous: str | None = None
    deliveries: tuple[str, ...] = ()
    partitions: int | None = None
    reject_share: float = REJECT_SHARE
    patience_seconds: int = 4 * 24 * 3600
    checksums: bool = True
    tables: bool = True

    @property
    def reads_bytes(self) -> int | None:
        """The size of what will be read; None if it is not on this machine, or in the layers of earlier audits."""
        return None if self.previous else size_on_disk(self.history, *self.deliveries)


REJECTED_EARLIER = (
    "{lines} that could not be read: in audits before this one, whose rejects.jsonl say where. A row that is mended in its "
    "table no longer counts with the next export; a line of a log counts until full exports are audited."
)
PARTITION_ITEMS = 750_000
FEWEST_PARTITIONS = 8
BROADCAST_KEYS = 4_000_000  # at 16 bytes each; more are brought together by a shuffle


def audit(spark: SparkSession, settings: AuditSettings) -> Conclusion:
    """Run one audit. Raises AuditRefused, with nothing left at `output`, if the input cannot be audited."""
    try:
        return _audit(spark, settings)
    except (CapturedException, Py4JJavaError) as error:
        raise AuditRefused(outputs.sentence_of(error)) from error


def _audit(spark: SparkSession, settings: AuditSettings) -> Conclusion:
    storage = Storage(spark)
    outputs.refuse_existing(storage, settings.output)
    if settings.previous:
        outputs.refuse_unrelated(settings.previous, settings.output)
    previous = outputs.open_run(storage, settings.previous) if settings.previous else None
    history = find_history(storage, settings.history, previous.end if previous else None, settings.deliveries)
    if previous and previous.context != history.context:
        raise AuditRefused(
            "The ledger's retention is not what it was in the earlier audit, which changes verdicts on old requests. "
            "Audit full exports."
        )
    checks = history.start_checksums(storage) if settings.checksums else None
    aside = outputs.aside(settings.output)
    storage.delete(aside)
    try:
        notes = [*history.notes, *sample_notes(spark, history)]
        work = Work(spark, storage, settings, history, previous, aside)
        conclusion = summarise(work, write_verdicts(work), notes)
        if checks is not None:
            checks.result()
        storage.rename(aside, settings.output)
        # Where renaming is copying, a crash leaves part of the folder: what says that it is whole comes last.
        storage.write_text(f"{settings.output}/{outputs.DESCRIPTION}", outputs.pretty(conclusion.document))
    except (CapturedException, Py4JJavaError):
        if checks is not None:
            checks.result()  # a damaged file has the better sentence
        raise
    finally:
        storage.delete(aside)
        spark.catalog.clearCache()
    return conclusion


@dataclass(frozen=True)
class Work:
    """One audit under way. `aside` is where it is written until it is whole."""

    spark: SparkSession
    storage: Storage
    settings: AuditSettings
    history: History
    previous: Run | None
    aside: str

    @property
    def partitions(self) -> int:
        """How many partitions the shuffle has."""
        items = sum(export.items for export in self.history.exports.values())
        return self.settings.partitions or max(FEWEST_PARTITIONS, -(-items // PARTITION_ITEMS))


def write_verdicts(work: Work) -> DataFrame:
    """Judge and write the verdicts; returns the written rows with weight 1 and those that they replace with weight -1."""
    spark, storage, history, previous = work.spark, work.storage, work.history, work.previous
    moment = verdicts.Moment(
        now=history.end,
        queue_known=history.queue_known,
        dead_letters_known=history.dead_letters_known,
        patience=work.settings.patience_seconds * 1000,
        retention=history.context.retention_ms,
        forgotten_before=history.context.forgotten_before,
    )
    gathered = evidence.gather(history.facts(spark), work.partitions)
    folder = f"{work.aside}/{outputs.VERDICTS}"
    if previous is None:
        outputs.write_verdicts(storage, verdicts.judge(gathered, moment), folder)
        return outputs.read_verdicts(spark, folder).withColumn(WEIGHT, F.lit(1))
    today = gathered.persist(StorageLevel.MEMORY_AND_DISK)
    before = replaced_rows(previous.verdicts(spark), today).persist(StorageLevel.MEMORY_AND_DISK)
    after = evidence.merge(before, today, work.partitions)
    outputs.write_verdicts(storage, verdicts.judge(after, moment), folder)
    written = outputs.read_verdicts(spark, folder).withColumn(WEIGHT, F.lit(1))
    return written.unionByName(before.withColumn(WEIGHT, F.lit(-1)))


def replaced_rows(layered: DataFrame, today: DataFrame) -> DataFrame:
    """The newest earlier row of each key that must be judged again: it changed today, or time may have changed it.

    Rows are picked by the key's hash, which is small enough to be sent to where the earlier rows are, so that these are
    read and not moved. A key that shares its hash with another is judged again without need, and to the same verdict.
    """
    still_open = layered.where(verdicts.is_open()).select("hash")
    again = today.select("hash").union(still_open).distinct().persist(StorageLevel.MEMORY_AND_DISK)
    wanted = F.broadcast(again) if again.count() <= BROADCAST_KEYS else again
    return outputs.newest_rows(layered.join(wanted, on="hash", how="left_semi"))


def summarise(work: Work, weighed: DataFrame, notes: list[str]) -> Conclusion:
    """Write everything that follows from the verdicts: totals, tables, findings, repair lists, rejects, description."""
    spark, storage, settings, history, previous = work.spark, work.storage, work.settings, work.history, work.previous
    aside = work.aside
    wanted = operations.TABLES if settings.tables else (operations.TOTALS,)
    for table in wanted:
        folder = f"{aside}/{outputs.OPERATIONS}/{table.name}"
        earlier = f"{previous.folder}/{outputs.OPERATIONS}/{table.name}" if previous else None
        yesterday = spark.read.parquet(literal(earlier)) if earlier and storage.exists(earlier) else None
        outputs.write_table(storage, operations.tabulate(table, weighed, yesterday), folder, table.partition)
    for summary in operations.SUMMARIES if settings.tables else ():
        made = summary.make(
            {name: spark.read.parquet(literal(f"{aside}/{outputs.OPERATIONS}/{name}")) for name in summary.sources}
        )
        outputs.write_table(storage, made, f"{aside}/{outputs.OPERATIONS}/{summary.name}", None)
    totals = [row.asDict() for row in spark.read.parquet(literal(f"{aside}/{outputs.OPERATIONS}/totals")).collect()]
    written = weighed.where(F.col(WEIGHT) == 1)
    counted = (F.col("subject") == Subject.FILE) & (F.col("rejected") > 0)
    files = written.where(counted).select("key", "rejected").collect() if _rejected(totals) else []
    rejected = {unquote(row.key[1:]): row.rejected for row in files}  # Spark names files as a URL does
    check_counts(spark, history, previous, totals, rejected)
    rejects = [line for path in rejected for line in locate_rejects(spark, history, path)]
    storage.write_text(f"{aside}/rejects.jsonl", outputs.json_lines(rejects))
    if settings.tables:
        outputs.write_findings(storage, written, aside, dead_letters_known=history.dead_letters_known)
    earlier_items = previous.items if previous else 0
    # Of a log's line nobody can say later whether it was mended: the files may be others each night.
    if earlier_rejects := sum(row["sum_rejected"] for row in totals) - sum(rejected.values()):
        notes = [*notes, REJECTED_EARLIER.format(lines=vocabulary.counted(earlier_rejects, "line", "lines"))]
    conclusion = conclude(history, totals, notes, settings.reject_share, earlier_items)
    layers = [*(previous.layers if previous else ()), f"{settings.output}/{outputs.VERDICTS}"]
    document = {**conclusion.document, "layers": [outputs.layer_name(settings.output, layer) for layer in layers]}
    if settings.tables:
        data = collect(spark, aside, history, document)
        storage.write_text(f"{aside}/report.html", render(data))
    return dataclasses.replace(conclusion, document=document)


def check_counts(
    spark: SparkSession,
    history: History,
    previous: Run | None,
    totals: list[dict[str, int]],
    rejected: dict[str, int],
) -> None:
    """Refuse an export that holds more or fewer lines than its manifest says, and a history without any."""
    if not totals:
        raise AuditRefused(NOTHING.format(folder=history.folder))
    for table, column in (("ledger", "ledger_rows"), ("appointments", "appointment_rows"), ("slots", "slot_rows")):
        export = history.exports[table]
        if previous is None:
            mine = sum(count for path, count in rejected.items() if source_of(history, path) == table)
            read = sum(row[f"sum_{column}"] for row in totals) + mine
        else:
            # Old images take rows back, so rows say nothing about lines; a day's lines are quickly counted.
            paths = history.data_paths(table)
            read = spark.read.text([*map(literal, paths)]).where(F.trim("value") != "").count() if paths else 0
        if read != export.items:
            raise AuditRefused(
                f"{export.home} should hold {export.items} items by its manifest, and {read} were read: it was cut short "
                "or changed. Copy or export it again."
            )


def _rejected(totals: list[dict[str, int]]) -> bool:
    return any(row["sum_rejected"] for row in totals)


def parse_arguments(arguments: list[str]) -> tuple[AuditSettings, SessionSettings]:
    """The command line of the job."""
    parser = argparse.ArgumentParser(
        prog="job.py", description="Audit what the system left behind, request by request."
    )
    parser.add_argument("--history", required=True, help="folder with the sources")
    parser.add_argument("--output", required=True, help="folder to make; it must not exist")
    parser.add_argument("--previous", help="output of the audit that this one continues")
    parser.add_argument(
        "--deliveries",
        action="append",
        default=[],
        help="more folders with files of the delivery log: repeated, or with commas between them",
    )
    parser.add_argument("--partitions", type=int, help="of the shuffle; by default as many as the exports need")
    parser.add_argument("--reject-share", type=float, default=AuditSettings.reject_share)
    parser.add_argument("--patience-seconds", type=int, default=AuditSettings.patience_seconds)
    parser.add_argument("--no-checksums", action="store_true")
    parser.add_argument("--memory", default=SessionSettings.memory, help="of the driver when run on one machine")
    parser.add_argument("--scratch", help="folder for Spark's temporary files when run on one machine")
    # A managed service adds arguments of its own (Glue: --JOB_NAME and others): they are not ours to refuse.
    given, _ = parser.parse_known_args(arguments)
    wanted = AuditSettings(
        history=given.history.rstrip("/"),
        output=given.output.rstrip("/"),
        previous=given.previous.rstrip("/") if given.previous else None,
        deliveries=tuple(folder.rstrip("/") for folder in ",".join(given.deliveries).split(",") if folder),
        partitions=given.partitions,
        reject_share=given.reject_share,
        patience_seconds=given.patience_seconds,
        checksums=not given.no_checksums,
    )
    session_settings = SessionSettings(
        memory=given.memory,
        scratch=given.scratch,
        partitions=given.partitions or SessionSettings.partitions,
        reads_bytes=wanted.reads_bytes,
    )
    return wanted, session_settings


def main(arguments: list[str]) -> int:
    """Run the job; returns the exit code."""
    settings, session_settings = parse_arguments(arguments)
    try:
        spark = open_session(session_settings)
        conclusion = audit(spark, settings)
    except AuditRefused as refusal:
        print(refusal, file=sys.stderr)  # noqa: T201 - this is the job's command line
        return 2
    print(conclusion.sentence)  # noqa: T201 - as above
    return 0 if conclusion.sound else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
