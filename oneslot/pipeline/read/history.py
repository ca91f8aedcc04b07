"""A history: the folder with all sources of one audit, found, checked against its manifests, and ready to read.

<history>/ledger/AWSDynamoDB/...         exports of the three tables, as DynamoDB writes them
<history>/slots/AWSDynamoDB/...
<history>/appointments/AWSDynamoDB/...
<history>/deliveries/*                   the delivery log, JSON lines, plain or gzipped (as all below); only lines that
                                         finished before the exports' end count
<history>/accepted/*                     the producer's archive, where it keeps one
<history>/dead-letters/*                 which messages are in the dead-letter queue
<history>/dropped/*                      what a person deleted from the dead-letter queue, by the audit trail
<history>/waiting/*                      which messages the queue holds; without this folder that is not known
<history>/context.json                   {"ledger_retention_seconds": ...}, optional; `oneslot/pipeline/read/context.py`
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from oneslot.pipeline.errors import AuditRefused
from oneslot.pipeline.judge import facts
from oneslot.pipeline.layout import EXPORT_FOLDER
from oneslot.pipeline.read import manifests, sources
from oneslot.pipeline.read.context import Context, read_context
from oneslot.pipeline.read.manifests import Export
from oneslot.pipeline.storage import Storage, literal
from oneslot.pipeline.vocabulary import Kind

TABLES = ("ledger", "slots", "appointments")
SAMPLED_LINES = 200
CHECKSUM_READERS = 2


@dataclass(frozen=True)
class History:
    """The sources of one audit. `end` is the time that they show, epoch ms; `start` is None for full exports.

    `more_deliveries` are files of the delivery log outside of the folder: of these only sound lines count, as a malformed
    one is counted by the audit whose own folder holds it.
    """

    folder: str
    start: int | None
    end: int
    exports: Mapping[str, Export]
    lines: Mapping[str, tuple[str, ...]]
    more_deliveries: tuple[str, ...]
    context: Context
    notes: tuple[str, ...]

    @property
    def queue_known(self) -> bool:
        """Whether the queue's content is listed, be it empty."""
        return "waiting" in self.lines

    @property
    def dead_letters_known(self) -> bool:
        """Whether the dead-letter queue's content is listed, be it empty."""
        return "dead-letters" in self.lines

    @property
    def delivery_logs(self) -> list[str]:
        """All files of the delivery log."""
        return [*self.lines.get("deliveries", ()), *self.more_deliveries]

    def data_paths(self, table: str) -> list[str]:
        """The data files of a table's export that hold anything."""
        return [f"{self.folder}/{table}/{file.path}" for file in self.exports[table].files if file.items]

    def facts(self, spark: SparkSession) -> DataFrame:
        """All sources as facts."""
        parts = [self._table_facts(spark, table) for table in TABLES if self.data_paths(table)]
        for name, paths in self.lines.items():
            if paths:
                parts.append(self.line_facts(name, sources.read_log(spark, list(paths), name)))
        if self.more_deliveries:
            more = sources.read_lines(spark, list(self.more_deliveries), sources.DELIVERIES)
            parts.append(self.line_facts("deliveries", more).where(F.col("kind") != int(Kind.REJECT)))
        if not parts and self.start is None:
            raise AuditRefused(NOTHING.format(folder=self.folder))
        if not parts:  # nothing has changed since the earlier audit
            return facts.no_facts(spark)
        whole, *others = parts
        for other in others:
            whole = whole.unionByName(other)
        return whole

    def line_facts(self, name: str, lines: DataFrame) -> DataFrame:
        """The lines of a source that is no table, as facts."""
        if name == "deliveries":
            return facts.delivery_facts(lines, self.start, self.end)
        return facts.LINE_FACTS[name](lines)

    def _table_facts(self, spark: SparkSession, table: str) -> DataFrame:
        export = self.exports[table]
        if export.start is None:
            schema = sources.full_export_schema(table)
            items = facts.whole_items(sources.read_lines(spark, self.data_paths(table), schema))
        else:
            schema = sources.incremental_export_schema(table)
            items = facts.images(sources.read_lines(spark, self.data_paths(table), schema), export.start, export.end)
        return facts.TABLE_FACTS[table](items)

    def start_checksums(self, storage: Storage) -> Future[None]:
        """Compare every data file with its manifest's MD5, beside the audit. The future raises AuditRefused."""
        return ThreadPoolExecutor(1, thread_name_prefix="checksums").submit(self._compare_checksums, storage)

    def _compare_checksums(self, storage: Storage) -> None:
        files = [(f"{self.folder}/{table}", file) for table, export in self.exports.items() for file in export.files]
        expected = [(f"{home}/{file.path}", file.md5) for home, file in files if file.md5 is not None]
        with ThreadPoolExecutor(CHECKSUM_READERS) as readers:
            for (path, md5), actual in zip(expected, readers.map(storage.md5, (p for p, _ in expected)), strict=True):
                if actual != md5:
                    raise AuditRefused(
                        f"{path} is not the file that its manifest lists: it was cut short or changed. "
                        "Copy or export it again."
                    )


def find_history(storage: Storage, folder: str, after: int | None, more_deliveries: Sequence[str] = ()) -> History:
    """Find the sources in a folder and check what can be checked without reading the data.

    `after` (epoch ms) is the end of the audit that this one continues; `more_deliveries` are folders with further files of
    the delivery log. Raises AuditRefused with a sentence.
    """
    if not storage.exists(folder):
        raise AuditRefused(f"There is no folder {folder}. Make one with `oneslot export`, or name another history.")
    notes: list[str] = []
    exports = {table: _export(storage, f"{folder}/{table}", table, notes) for table in TABLES}
    manifests.check_together(exports, after)
    notes += [f"The export of {table} is empty." for table, export in exports.items() if not export.items]
    lines = {}
    more: list[str] = []
    missing: list[str] = []
    for home in more_deliveries:
        found = _files(storage, home)
        more += found or ()
        if found is None:
            missing.append(home)
    if missing:
        others = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        notes.append(f"There is no delivery log in {missing[0]}{others}: what it was to tell is not judged.")
    for name in sources.LINES:
        found = _files(storage, f"{folder}/{name}")
        if found is not None:
            lines[name] = tuple(found)
        elif name != "deliveries" or not more:
            notes.append(MISSING_SOURCES[name])
    once = {storage.whole_name(path): path for path in (*more, *lines.get("deliveries", ()))}
    besides = tuple(path for path in once.values() if path not in lines.get("deliveries", ()))
    first = exports[TABLES[0]]
    context = read_context(storage, folder, first.end)
    notes += [FORGOTTEN] if context.forgotten_before else []
    return History(folder, first.start, first.end, exports, lines, besides, context, tuple(notes))


def _files(storage: Storage, folder: str) -> list[str] | None:
    """The files in a folder that hold anything; None if there are none at all."""
    files = storage.files(folder)
    return [path for path, size in files.items() if size] if files else None


FORGOTTEN = (
    "What was done before the moment that ledger_forgotten_before names needs no row: one that vanished is not missed."
)
NOTHING = "{folder} holds no rows at all: there is nothing to audit. Are these the right tables?"
WITHOUT_DELIVERIES = "latency, duplicates and the invariants I6, I7 and I10 cannot be judged."
NO_DELIVERY = f"The delivery log tells of no delivery: {WITHOUT_DELIVERIES} Is it the consumer's?"
NOTHING_MISSED = "a request that left no trace at all cannot be missed."
NO_ACCEPTED = f"The archive of accepted requests names none by its message_id: {NOTHING_MISSED}"
MISSING_SOURCES = {
    "deliveries": f"There is no delivery log: {WITHOUT_DELIVERIES}",
    "accepted": f"There is no archive of accepted requests: {NOTHING_MISSED}",
    "dead-letters": "The dead-letter queue was not listed: quarantined messages are known from the delivery log only, and "
    "what is lost or stuck may be there.",
    "dropped": "There is no list of what was dropped by hand: such a request looks quarantined, stuck or lost.",
    "waiting": "The queue's content is not known: an unseen request is called lost only after the patience that is set.",
}


def sample_notes(spark: SparkSession, history: History) -> list[str]:
    """Look at the first lines of each export: refuse another table's, and name attributes that the audit does not know."""
    notes = []
    for table in TABLES:
        paths = history.data_paths(table)
        if not paths:
            continue
        rows = spark.read.text(literal(paths[0])).limit(SAMPLED_LINES).collect()
        items = [item for row in rows for item in _items(row.value)]
        keys = sources.KEY_ATTRIBUTES[table]
        # Tables share attributes (a booked appointment has practice and slot_id), so what a row has too many counts as well.
        strange = [item for item in items if any(key not in item for key in keys) or _foreign(table) & item.keys()]
        if len(strange) * 2 > len(items):
            raise AuditRefused(
                f"The export in {history.folder}/{table} is of another table: its items are not what {table} holds, "
                f"by {' and '.join(keys)}. Put the export of {table} there."
            )
        unknown = sorted({name for item in items for name in item} - sources.KNOWN_ATTRIBUTES[table])
        if unknown:
            notes.append(
                f"Items of {table} carry attributes that the audit does not know ({', '.join(unknown)}); "
                f"seen in the first {SAMPLED_LINES} lines, and not audited."
            )
    return notes


def _foreign(table: str) -> frozenset[str]:
    """Attributes that only the other tables have."""
    known = sources.KNOWN_ATTRIBUTES
    return frozenset().union(*known.values()) - known[table]


def _items(line: str) -> list[dict[str, object]]:
    try:
        record = json.loads(line)
    except ValueError:
        return []
    if not isinstance(record, dict):
        return []
    return [item for name in ("Item", "NewImage", "OldImage") if isinstance(item := record.get(name), dict)]


def _export(storage: Storage, folder: str, table: str, notes: list[str]) -> Export:
    """The newest whole export of a table. Beside one that is whole, those that failed or go on are left out, and noted."""
    root = f"{folder}/{EXPORT_FOLDER}"
    homes = [name for name in storage.names(root) if name != "data" and not name.startswith(("_", "."))]
    if not homes:
        raise AuditRefused(f"{folder} holds no export: there is no {EXPORT_FOLDER}/<export id> in it. Export {table}.")
    read = [(home := f"{root}/{name}", storage.read_text(f"{home}/manifest-summary.json")) for name in homes]
    # The summary is written last. An export that failed leaves its folder, and the night is then exported again.
    whole = [(home, text) for home, text in read if text is not None] or read
    if left_out := len(read) - len(whole):
        notes.append(f"Exports of {table} that failed or were not finished are left out: {left_out}.")
    found = [
        (home, manifests.parse_summary(home, text, storage.read_text(f"{home}/manifest-summary.md5")))
        for home, text in whole
    ]
    home, summary = manifests.newest(found)
    text = storage.read_text(f"{home}/manifest-files.json")
    export = manifests.parse_export(home, summary, text, storage.read_text(f"{home}/manifest-files.md5"))
    for file in export.files:
        if not storage.exists(f"{folder}/{file.path}"):
            raise AuditRefused(f"{home} lists {file.path}, which is not there: not all of the export was copied.")
    return export
