"""The audit as a job: read, judge, write. It runs under any `spark-submit`.

    spark-submit --py-files audit.zip oneslot/audit/job.py --history s3://.../history --output s3://.../audit/2026-11-23

Exit status: 0 sound, 1 something does not hold, 2 the input cannot be audited and a sentence says why.
"""

from __future__ import annotations

import dataclasses
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from py4j.protocol import Py4JJavaError
from pyspark import StorageLevel
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from oneslot.audit import operations
from oneslot.audit.conclusion import Conclusion, conclude
from oneslot.audit.consumer import AuditConsumer
from oneslot.audit.errors import AuditRefused, refusal_of
from oneslot.audit.judge.stage import Moment, judge_chunk
from oneslot.audit.judged import PREVIOUS
from oneslot.audit.model import model_of
from oneslot.audit.read.carry import COLUMNS
from oneslot.audit.read.checksums import start_checksums
from oneslot.audit.read.history import NOTHING, History, find_history, sample_notes
from oneslot.audit.read.logs import quoted
from oneslot.audit.read.rejects import locate_rejects, source_finder
from oneslot.audit.report.data import Written, collect, run_facts
from oneslot.audit.report.page import render
from oneslot.audit.settings import AuditSettings, parse_arguments
from oneslot.audit.spark.session import open_session
from oneslot.audit.spark.sizing import Sizing, prepare
from oneslot.audit.spark.storage import Storage, literal
from oneslot.audit.vocabulary import SubjectKind
from oneslot.audit.write import files, finished
from oneslot.audit.write.findings import count_wrong, write_findings
from oneslot.audit.write.finished import FinishedAudit
from oneslot.audit.write.rows import FewRows, Rows
from oneslot.declaration.declaration import Declaration
from oneslot.declaration.reading import choosing, declared, parse_declaration, read_declaration
from oneslot.errors import BadInput, FileUnreadable
from oneslot.laws.request import RequestVerdict
from oneslot.wording import counted, visible

REJECTED_EARLIER = (
    "{lines} could not be read in earlier audits, whose rejects.jsonl locate them. "
    "A row of a table stops counting once it is corrected; a line of a log counts until full exports are audited."
)
SECONDS_FOR_CHECKSUMS = 3
"""What the checksums of an export of usual size take at most. Those of a larger one go on beside the work."""
FEW_ITEMS = 75_000
"""The most items of exports for which the operations tables are made without Spark."""
BROADCAST_KEYS = 4_000_000  # at 16 bytes each; more are joined by a shuffle


def audit(spark: SparkSession, settings: AuditSettings, say: Callable[[str], object] = str) -> Conclusion:
    """Run one audit. Raises AuditRefused, and leaves nothing at `output`, if the input cannot be audited.

    `say` gets a sentence on the audit's size before the work begins.
    """
    try:
        return _audit(spark, settings, say)
    except (CapturedException, Py4JJavaError) as error:
        raise refusal_of(error) from error


def _audit(spark: SparkSession, settings: AuditSettings, say: Callable[[str], object]) -> Conclusion:
    storage = Storage(spark)
    finished.refuse_existing(storage, settings.output)
    if settings.previous:
        finished.refuse_unrelated(settings.previous, settings.output)
    previous = finished.open_audit(storage, settings.previous) if settings.previous else None
    model = model_of(declared())
    if previous:
        finished.refuse_other_consumer(previous, model)
    history = find_history(storage, settings.history, previous.end if previous else None, settings.deliveries, model)
    if previous and previous.context != history.context:
        raise AuditRefused(
            "The ledger's retention differs from the earlier audit's, which changes verdicts on old requests. "
            "Audit full exports."
        )
    say(Sizing(history.items).sentence)
    prepare(spark, Sizing(history.items))
    checks = start_checksums(storage, history) if settings.checksums else None
    conclusion = None
    try:
        finished.begin(storage, settings.output)
        notes = [*history.notes, *sample_notes(storage, history)]
        _refuse_damaged(checks, SECONDS_FOR_CHECKSUMS)
        work = Work(spark, storage, settings, history, previous)
        verdicts_written = write_verdicts(work)
        _refuse_damaged(checks, 0)
        judged = summarise(work, verdicts_written, notes)
        if checks is not None:
            checks.result()
        written = finished.list_files(storage, settings.output)
        storage.write_text(f"{settings.output}/{finished.FILES}", files.pretty(written))
        storage.write_text(f"{settings.output}/{finished.DESCRIPTION}", files.pretty(judged.document))
        conclusion = judged
    except (CapturedException, Py4JJavaError):
        if checks is not None:
            checks.result()  # a damaged file has the better sentence
        raise
    finally:
        if conclusion is None:
            storage.delete(settings.output)
        spark.catalog.clearCache()
    storage.delete(f"{settings.output}/{finished.STARTED}")
    return conclusion


def _refuse_damaged(checks: Future[None] | None, seconds: float) -> None:
    """Raise `AuditRefused` if a file is known to be damaged. Wait so long for that: minutes of Spark's work depend on it."""
    if checks is not None and wait([checks], seconds).done:
        checks.result()


@dataclass(frozen=True)
class Work:
    """One audit in progress."""

    spark: SparkSession
    storage: Storage
    settings: AuditSettings
    history: History
    previous: FinishedAudit | None

    @property
    def output(self) -> str:
        """The folder of the output."""
        return self.settings.output

    @property
    def chunks(self) -> int:
        """The number of chunks, each of which one task judges."""
        return self.settings.partitions or Sizing(self.history.items).chunks

    @property
    def keeps(self) -> bool:
        """Whether a later audit of changes can continue this one."""
        return self.settings.keeps or self.previous is not None

    def table(self, name: str) -> str:
        """Return the folder of an operations table."""
        return f"{self.output}/{finished.OPERATIONS}/{name}"


OPEN_VERDICTS = (RequestVerdict.IN_FLIGHT, RequestVerdict.STUCK, RequestVerdict.LOST, RequestVerdict.QUARANTINED)
OPEN = (
    f"coalesce(verdict IN ({', '.join(map(quoted, OPEN_VERDICTS))}), false)"
    " OR violations != '' OR dead_letters > 0 OR waiting > 0"
)
"""SQL that is true for a row that must be judged again although none of its sources changed."""


def write_verdicts(work: Work) -> DataFrame:
    """Carry every row to the subjects that it names, let the laws judge each chunk, and write and return the verdicts."""
    spark, history, previous = work.spark, work.history, work.previous
    local = str(spark.sparkContext.master).startswith("local")
    # On a cluster --py-files puts the consumer's package on the workers' path.
    consumer = AuditConsumer(history.model.declaration, tuple(sys.path) if local else ())
    moment = Moment(
        now=history.end,
        queue_known=history.queue_known,
        dead_letters_known=history.dead_letters_known,
        archive_known="accepted" in history.lines,
        patience_ms=work.settings.patience_seconds * 1000,
        retention_ms=history.context.retention_ms,
        forgotten_before=history.context.forgotten_before,
    )
    rows = history.carried(spark, consumer)
    if previous is not None:
        rows = with_earlier_rows(previous.verdicts(spark), rows.persist(StorageLevel.MEMORY_AND_DISK))
    judge = partial(judge_chunk, consumer=consumer, moment=moment, tables=work.settings.tables, keeps=work.keeps)
    schema = ", ".join(f"{name} {kind}" for name, kind in history.model.columns.items())
    judged = rows.repartition(work.chunks, "key").mapInArrow(judge, schema)
    return files.write_verdicts(judged, f"{work.output}/{finished.VERDICTS}")


def with_earlier_rows(layered: DataFrame, today: DataFrame) -> DataFrame:
    """Return today's rows with what the earlier audit kept of each key to judge again.

    Such a key changed today, or time may have changed its verdict. Keys are picked by their hash, which is small enough to send
    to the earlier rows, so that these are scanned and not shuffled. A key that shares its hash with another is judged again
    without need, and to the same verdict.
    """
    still_open = layered.where(OPEN).select("hash")
    again = today.selectExpr("xxhash64(key) AS hash").union(still_open).distinct().persist(StorageLevel.MEMORY_AND_DISK)
    wanted = F.broadcast(again) if again.count() <= BROADCAST_KEYS else again
    newest = files.newest_rows(
        layered.select("hash", "key", "layer", "evidence").join(wanted, on="hash", how="left_semi")
    )
    return today.unionByName(newest.selectExpr("key", f"{PREVIOUS} AS place", "evidence AS row")).select(*COLUMNS)


def summarise(work: Work, written: DataFrame, notes: list[str]) -> Conclusion:
    """Write all that follows from the verdicts: totals, tables, findings, repair lists, rejects and report."""
    spark, storage, settings, history, previous = work.spark, work.storage, work.settings, work.history, work.previous
    tables = write_tables(work, written)
    first = history.model.tables[0]
    totals = tables[first.name].sums(first.dimensions, first.figures)
    rejects = sum(row["sum_rejected"] for row in totals)
    with_rejects = (F.col("subject") == SubjectKind.FILE) & (F.col("rejected") > 0)
    rows = written.where(with_rejects).select("key", "rejected").collect() if rejects else []
    rejected = {unquote(row.key[1:]): row.rejected for row in rows}  # Spark names files as URLs
    check_counts(spark, history, previous, totals, rejected)
    storage.write_text(f"{work.output}/rejects.jsonl", files.json_lines(locate_rejects(spark, history, rejected)))
    # A log's files may be others each night, so no later audit can see that a line was corrected.
    if earlier_rejects := rejects - sum(rejected.values()):
        notes = [*notes, REJECTED_EARLIER.format(lines=counted(earlier_rejects, "line", "lines"))]
    conclusion = conclude(history, totals, notes, settings.reject_share, previous.items if previous else 0)
    layers = [*(previous.layers if previous else ()), f"{settings.output}/{finished.VERDICTS}"]
    document = {
        **conclusion.document,
        "continues": work.keeps,
        "carried": history.model.carried,
        "layers": [finished.layer_name(settings.output, layer) for layer in layers],
    }
    if settings.tables:
        findings = write_findings(
            storage,
            written,
            work.output,
            dead_letters_known=history.dead_letters_known,
            any_wrong=count_wrong(totals) > 0,
        )
        of_report = Written(written, tables, write_summaries(work, tables), findings)
        run = run_facts(history, settings, document["layers"], spark.version)
        content = collect(spark, of_report, history, document, run)
        storage.write_text(f"{work.output}/report.html", render(content))
    return dataclasses.replace(conclusion, document=document)


def write_tables(work: Work, written: DataFrame) -> dict[str, Rows]:
    """Write and return the totals and, if wanted, the operations tables."""
    spark, storage, previous = work.spark, work.storage, work.previous
    model = work.history.model
    wanted = model.tables if work.settings.tables else model.tables[:1]
    yesterday = {}
    for table in wanted:
        earlier = f"{previous.folder}/{finished.OPERATIONS}/{table.name}" if previous else None
        if earlier and storage.exists(earlier):
            yesterday[table.name] = spark.read.parquet(literal(earlier))
    cells = written.where("cells IS NOT NULL").select("cells")
    made = operations.tabulate(wanted, cells, yesterday, few=work.history.items <= FEW_ITEMS)
    for table in wanted:
        made[table.name].write(storage, work.table(table.name), table.partition)
    return made


def write_summaries(work: Work, tables: Mapping[str, Rows]) -> dict[str, list[dict[str, Any]]]:
    """Write and return the summaries of the operations tables."""
    made = {summary.name: FewRows(summary.make(tables), summary.columns) for summary in work.history.model.summaries}
    for name, summary in made.items():
        summary.write(work.storage, work.table(name))
    return {name: summary.rows for name, summary in made.items()}


def check_counts(
    spark: SparkSession,
    history: History,
    previous: FinishedAudit | None,
    totals: Sequence[Mapping[str, Any]],
    rejected: dict[str, int],
) -> None:
    """Reject an export with more or fewer lines than its manifest counts, and a history without rows."""
    if not totals:
        raise AuditRefused(NOTHING.format(folder=history.folder))
    source_of = source_finder(history)
    malformed: Counter[str] = Counter()
    for path, count in rejected.items():
        malformed[source_of(path)] += count
    for table, exported in history.model.exports.items():
        export = history.exports[table]
        if previous is None:
            read = sum(row[f"sum_{exported.counted}"] for row in totals) + malformed[table]
        else:
            # Old images take rows back, so the sums say nothing about lines. A day's lines are quickly counted.
            paths = history.data_folders(table)
            read = spark.read.text([*map(literal, paths)]).where(F.trim("value") != "").count() if paths else 0
        if read != export.items:
            raise AuditRefused(
                f"{export.home} should hold {export.items} items by its manifest, and {read} were read: it was cut short "
                "or changed. Copy or export it again."
            )


def find_consumer(spark: SparkSession, settings: AuditSettings) -> Declaration:
    """Return the consumer that the settings name, in a file on this machine or in Spark's storage. Raises `FileUnreadable`."""
    if settings.consumer is None:
        return declared()
    if Path(settings.consumer).is_file():
        return read_declaration(Path(settings.consumer))
    text = Storage(spark).read_text(settings.consumer)
    if text is None:
        raise FileUnreadable(
            f"The file {settings.consumer} does not exist. Name the consumer's oneslot.toml with --consumer."
        )
    return parse_declaration(text, None)


def main(arguments: list[str]) -> int:
    """Run the job, and return its exit status."""
    settings, session_settings = parse_arguments(arguments)
    try:
        spark = open_session(session_settings)
        with choosing(find_consumer(spark, settings)):
            conclusion = audit(spark, settings)
    except (AuditRefused, BadInput) as refusal:
        print(visible(str(refusal)), file=sys.stderr)  # noqa: T201 - the job's command line
        return 2
    print(conclusion.sentence)  # noqa: T201 - the job's command line
    return 0 if conclusion.sound else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
