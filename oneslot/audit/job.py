"""The audit as a job: read, judge, write. It runs under any `spark-submit`.

    spark-submit --py-files audit.zip oneslot/audit/job.py --history s3://.../history --output s3://.../audit/2026-11-23

Exit status: 0 sound, 1 something does not hold. A sentence says why the input cannot be audited (2), or what died (70).
"""

import dataclasses
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import DataFrame, SparkSession

from oneslot.audit import files
from oneslot.audit.conclusion import Conclusion, conclude
from oneslot.audit.consumer import AuditConsumer
from oneslot.audit.errors import AuditRefused, refusal_of
from oneslot.audit.judge.stage import FINDINGS, LISTED_REJECTS, Judged, Judging, add_up, judge_chunk, without_zeros
from oneslot.audit.model import model_of
from oneslot.audit.read.carry import CARRIED, HASHES, PREVIOUS, REJECTED, Piece, ReadPlan, carried_rows, read_pieces
from oneslot.audit.read.history import NOTHING, History, find_history, sample_notes
from oneslot.audit.read.lines import Window
from oneslot.audit.report.data import collect, run_facts
from oneslot.audit.report.page import render
from oneslot.audit.settings import AuditSettings, parse_arguments
from oneslot.audit.spark.session import Sizing, open_session, prepare
from oneslot.audit.write import finished
from oneslot.audit.write.findings import write_findings
from oneslot.audit.write.finished import FinishedAudit
from oneslot.audit.write.tables import WrittenTable, write_part, write_rows
from oneslot.declaration.declaration import Declaration
from oneslot.declaration.reading import choosing, declared, parse_declaration, read_declaration
from oneslot.errors import AuditDied, BadInput, FileUnreadable
from oneslot.laws.evidence import Evidence
from oneslot.laws.form import PROBLEM_SENTENCES, Problem
from oneslot.wording import counted, visible

REJECTED_EARLIER = (
    "{lines} could not be read in earlier audits, whose rejects.jsonl locate them. "
    "A row of a table stops counting once it is corrected; a line of a log counts until full exports are audited."
)
TASK_BYTES = 8 << 20
"""About as many bytes are read by one task, unless a file has more, or some cores would have none."""
DOUBTS = ("doubted", "not_looked_at")
"""What the quick reader and the quick look left to the slow ways: blocks of lines, and chunks, by reason."""


def audit(spark: SparkSession, settings: AuditSettings, say: Callable[[str], object] = str) -> Conclusion:
    """Run one audit. Raises AuditRefused, and leaves nothing at `output`, if the input cannot be audited.

    `say` gets a sentence on the audit's size before the work begins.
    """
    try:
        return _audit(spark, settings, say)
    except ConnectionError as error:  # of the socket to Java
        raise refusal_of(Py4JNetworkError(JAVA_GONE)) from error
    except (CapturedException, Py4JError, OSError) as error:
        raise refusal_of(error) from error


JAVA_GONE = "Answer from Java side is empty"


def _audit(spark: SparkSession, settings: AuditSettings, say: Callable[[str], object]) -> Conclusion:
    finished.refuse_existing(settings.output)
    if settings.previous:
        finished.refuse_unrelated(settings.previous, settings.output)
    previous = finished.open_audit(settings.previous) if settings.previous else None
    model = model_of(declared())
    if previous:
        finished.refuse_other_consumer(previous, model)
    history = find_history(settings.history, previous.end if previous else None, settings.deliveries, model)
    if previous and previous.context != history.context:
        raise AuditRefused(
            "The ledger's retention differs from the earlier audit's, which changes verdicts on old requests. "
            "Audit full exports."
        )
    say(Sizing(history.items).sentence)
    prepare(spark, Sizing(history.items))
    conclusion, run = None, str(uuid4())
    try:
        finished.begin(settings.output, run)
        notes = [*history.notes, *sample_notes(history)]
        work = Work(spark, settings, history, previous, run)
        answer = write_verdicts(work)
        judged = summarise(work, answer, notes)
        files.write_text(f"{settings.output}/{finished.FILES}", files.pretty(finished.list_files(settings.output)))
        files.write_text(f"{settings.output}/{finished.DESCRIPTION}", files.pretty(judged.document))
        conclusion = judged
    finally:
        if conclusion is None:
            finished.remove_own(settings.output, run)
    files.remove(f"{settings.output}/{finished.STARTED}")
    return conclusion


@dataclass(frozen=True)
class Work:
    """One audit in progress. `run` is its id, which its files of verdicts and its mark in the output have."""

    spark: SparkSession
    settings: AuditSettings
    history: History
    previous: FinishedAudit | None
    run: str

    @property
    def keeps(self) -> bool:
        """Whether a later audit of changes can continue this one."""
        return self.settings.keeps or self.previous is not None


def pieces_of(work: Work) -> tuple[tuple[Piece, ...], ...]:
    """Return the files of each task, dealt out from the largest to the smallest."""
    found = sorted(work.history.pieces(), key=lambda each: (-each[0], each[1]))
    tasks = max(work.spark.sparkContext.defaultParallelism, sum(size for size, _ in found) // TASK_BYTES)
    return tuple(tuple(piece for _, piece in found[start::tasks]) for start in range(tasks) if found[start:])


def carried(spark: SparkSession, reading: ReadPlan) -> DataFrame:
    """Return the blocks of all files."""
    tasks = spark.range(0, len(reading.pieces), 1, max(1, len(reading.pieces)))
    return tasks.mapInArrow(partial(read_pieces, reading=reading), CARRIED)


def write_verdicts(work: Work) -> Judged:
    """Carry every row to the subjects that it names, judge each chunk, and write the verdicts. Return the sums and lists."""
    spark, history, settings = work.spark, work.history, work.settings
    pieces = pieces_of(work)
    if not pieces and history.start is None:
        raise AuditRefused(NOTHING.format(folder=history.folder))
    continues, sizing = work.previous is not None, Sizing(history.items)
    earlier = work.previous.folder if work.previous else None
    local = str(spark.sparkContext.master).startswith("local")
    # On a cluster --py-files puts the consumer's package on the workers' path.
    consumer = AuditConsumer(history.model.declaration, tuple(sys.path) if local else ())
    reading = ReadPlan(consumer, pieces, sizing.chunks, Window(history.start, history.end), continues)
    if work.previous is not None:
        reading = with_earlier_rows(work, work.previous, reading)
    moment = Evidence(
        requests=() if "accepted" in history.lines else None,
        waiting=() if "waiting" in history.lines else None,
        dead_letters_known="dead-letters" in history.lines,
        now=history.end,
        patience_ms=settings.patience_seconds * 1000,
        retention_ms=history.context.retention_ms,
        forgotten_before=history.context.forgotten_before,
    )
    folder = f"{settings.output}/{finished.VERDICTS}"
    whole, parts = history.start is None, sizing.parts if settings.tables else 1
    judging = Judging(consumer, moment, folder, work.run, parts, settings.tables, work.keeps, whole)
    judge = partial(judge_chunk, judging=judging)
    judged = carried(spark, reading).repartitionById(sizing.chunks, "chunk").mapInArrow(judge, CARRIED)
    if parts > 1:
        add = partial(add_up_part, judging=judging, output=settings.output, previous=earlier)
        judged = judged.repartitionById(parts, "chunk").mapInArrow(add, CARRIED)
    rows = judged.toArrow()
    blocks = zip(rows["source"].to_pylist(), (block.as_buffer() for block in rows["block"]), strict=True)
    answer = add_up(blocks, judging.wanted)
    if parts == 1:
        write_tables(judging, settings.output, earlier, 0, answer)
    return answer


def with_earlier_rows(work: Work, previous: FinishedAudit, reading: ReadPlan) -> ReadPlan:
    """Return how today's rows are read with what earlier audits kept of each key to judge again.

    Such a key changed today, or time may have changed its verdict. Keys are picked by their hash, which is small enough to
    send to the tasks. A key that shares its hash with another is judged again without need, and to the same verdict.
    """
    layers = [
        (Piece(PREVIOUS, f"{layer}/{entry.base_name}", layer=number),)
        for number, layer in enumerate(previous.layers)
        for entry in files.listing(layer)
    ]
    whole = dataclasses.replace(reading, pieces=(*reading.pieces, *layers))
    hashes = carried(work.spark, whole).where(f"source = {HASHES}").select("block").toArrow()["block"].to_pylist()
    wanted = np.unique(np.frombuffer(b"".join(hashes), np.uint64))
    return dataclasses.replace(whole, wanted=wanted)


def write_tables(judging: Judging, output: str, previous: str | None, part: int, answer: Judged) -> None:
    """Add yesterday's tables to the sums of a part, and write the rows that are not zeros."""
    for number, table in enumerate(judging.wanted):
        folder = f"{finished.OPERATIONS}/{table.name}"
        rows = answer.tables[number]
        if previous is not None:
            earlier = WrittenTable(f"{previous}/{folder}", table.schema, table.partition).read()
            rows = table.summed([rows, earlier.filter(judging.of_part(table, earlier, part))])
        rows = without_zeros(table, rows)
        if rows.num_rows or part == 0:
            write_part(f"{output}/{folder}", part, rows, table.partition if rows.num_rows else None)


def add_up_part(
    batches: Iterable[pa.RecordBatch], judging: Judging, output: str, previous: str | None
) -> Iterator[pa.RecordBatch]:
    """Add up the blocks of a part, and write its rows of each table. Yield the totals, and what the report shows."""
    rows: list[tuple[int, bytes]] = []
    part = None
    for batch in batches:
        rows += zip(*(batch.column(name).to_pylist() for name in ("source", "block")), strict=True)
        part = batch.column("chunk")[0].as_py() if len(batch) else part
    if part is not None:
        answer = add_up(rows, judging.wanted)
        write_tables(judging, output, previous, part, answer)
        kept = [(part, source, block) for source, block in rows if source == 0 or source >= REJECTED]
        yield carried_rows(kept)


def summarise(work: Work, answer: Judged, notes: list[str]) -> Conclusion:
    """Write all that follows from the verdicts: totals, tables, findings, repair lists, rejects and report."""
    settings, history, previous = work.settings, work.history, work.previous
    folder, wanted = f"{settings.output}/{finished.OPERATIONS}", history.model.tables[: None if settings.tables else 1]
    tables = {table.name: WrittenTable(f"{folder}/{table.name}", table.schema, table.partition) for table in wanted}
    totals = tables[history.model.tables[0].name].read().to_pylist()
    check_counts(history, totals, answer)
    located = sorted(answer.rows(REJECTED), key=lambda row: (row["file"], row["line"]))[:LISTED_REJECTS]
    files.write_text(f"{settings.output}/rejects.jsonl", files.json_lines(map(_located, located)))
    # A log's files may be others each night, so no later audit can see that a line was corrected.
    rejects = sum(row["sum_rejected"] for row in totals)
    if earlier_rejects := rejects - answer.counts["rejected"]["lines"]:
        notes = [*notes, REJECTED_EARLIER.format(lines=counted(earlier_rejects, "line", "lines"))]
    conclusion = conclude(history, totals, notes, settings.reject_share, previous.items if previous else 0)
    layers = [*(previous.layers if previous else ()), f"{settings.output}/{finished.VERDICTS}"]
    document = {
        **conclusion.document,
        "continues": work.keeps,
        "carried": history.model.carried,
        "layers": [finished.layer_name(settings.output, layer) for layer in layers],
        "doubts": {name: dict(sorted(several.items())) for name, several in answer.counts.items() if name in DOUBTS},
    }
    if settings.tables:
        wrong = answer.blocks.get(FINDINGS) or history.model.arrow_schema.empty_table()
        known, declaration = "dead-letters" in history.lines, history.model.declaration
        findings = write_findings(wrong, settings.output, declaration, dead_letters_known=known)
        made = {summary.name: summary.make(tables) for summary in history.model.summaries}
        for summary in history.model.summaries:
            write_rows(f"{folder}/{summary.name}", made[summary.name], summary.columns)
        run = run_facts(history, settings, document["layers"], work.spark.version)
        content = collect(
            answer, tables, summaries=made, findings=findings, history=history, document=document, run=run
        )
        files.write_text(f"{settings.output}/report.html", render(content))
    return dataclasses.replace(conclusion, document=document)


def _located(row: Mapping[str, Any]) -> dict[str, Any]:
    problem = Problem(row["problem"])
    named = {"attribute": row["attribute"]} if row["attribute"] else {}
    detail = PROBLEM_SENTENCES[problem]
    return {"file": row["file"], "line": row["line"], "problem": problem.name.lower(), "detail": detail, **named}


def check_counts(history: History, totals: list[dict[str, Any]], answer: Judged) -> None:
    """Reject an export with more or fewer lines than its manifest counts, and a history without rows."""
    if not totals:
        raise AuditRefused(NOTHING.format(folder=history.folder))
    for table, export in history.exports.items():
        read = answer.counts["lines"][table]
        if read != export.items:
            raise AuditRefused(
                f"{export.home} should hold {export.items} items by its manifest, and {read} were read: it was cut short "
                "or changed. Copy or export it again."
            )


def find_consumer(settings: AuditSettings) -> Declaration:
    """Return the consumer that the settings name, in a file that Arrow reads. Raises `FileUnreadable`."""
    if settings.consumer is None:
        return declared()
    if Path(settings.consumer).is_file():
        return read_declaration(Path(settings.consumer))
    text = files.read_text(settings.consumer)
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
        with choosing(find_consumer(settings)):
            conclusion = audit(spark, settings)
    except (AuditRefused, BadInput, AuditDied) as refusal:
        print(visible(str(refusal)), file=sys.stderr)  # noqa: T201 - the job's command line
        return getattr(refusal, "exit_code", 2)
    print(conclusion.sentence)  # noqa: T201 - the job's command line
    return 0 if conclusion.sound else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
