"""A history: the folder with all sources of one audit, checked against its manifests.

<history>/ledger/AWSDynamoDB/...         exports of the ledger and of each declared table, as DynamoDB writes them
<history>/TABLE/AWSDynamoDB/...
<history>/deliveries/*                   the delivery log: JSON lines, plain or gzipped, as are the files below
<history>/accepted/*                     the producer's archive, where it keeps one
<history>/dead-letters/*                 the messages in the dead-letter queue
<history>/dropped/*                      the messages that an operator deleted from there, from the operator log
<history>/waiting/*                      the messages in the queue; without this folder they are not known
<history>/context.json                   {"ledger_retention_seconds": ...}, optional: for how long the ledger keeps a row
"""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from oneslot.audit import files
from oneslot.audit.errors import AuditRefused
from oneslot.audit.files import CUT_SHORT
from oneslot.audit.layout import CONTEXT, EXPORT_FOLDER, NO_EXPORT
from oneslot.audit.model import Model
from oneslot.audit.read import manifests
from oneslot.audit.read.carry import Piece
from oneslot.audit.read.manifests import Export
from oneslot.declaration.reading import declared
from oneslot.laws.form import LINES, object_of

NAMES = ("ledger_retention_seconds", "ledger_retention", "ledger_forgotten_before")
FOREVER = "forever"
LONGEST_SECONDS = 10**10
SAMPLED_LINES = 200
SAMPLED_BYTES = 1 << 17
FORGOTTEN = "Work done before ledger_forgotten_before needs no ledger row: a row missing from that time is not found."
NOTHING = "{folder} contains no rows. Check that it holds the exports of the right tables."
WITHOUT_DELIVERIES = "latency, duplicates and the invariants I6, I7 and I10 are not judged."
NO_DELIVERY = f"The delivery log contains no delivery: {WITHOUT_DELIVERIES} Check that it is the consumer's log."
NOTHING_MISSED = "a request that left no other trace cannot be found missing."
NO_ACCEPTED = f"The archive of accepted requests contains no message_id: {NOTHING_MISSED}"
MISSING_SOURCES = {
    "deliveries": f"There is no delivery log: {WITHOUT_DELIVERIES}",
    "accepted": f"There is no archive of accepted requests: {NOTHING_MISSED}",
    "dead-letters": "The dead-letter queue was not listed: quarantined messages are known from the delivery log only, and "
    "a lost or stuck request may be in that queue.",
    "dropped": "There is no list of dropped messages: a dropped request looks quarantined, stuck or lost.",
    "waiting": "The queue's content is not known: an unseen request counts as lost only after the patience setting.",
}


@dataclass(frozen=True)
class HistoryContext:
    """The retention of the ledger's rows in milliseconds; None if rows are kept forever.

    Before `forgotten_before` (epoch ms; 0 if unset) the retention was shorter, so rows from that time may be gone already.
    """

    retention_ms: int | None = None
    forgotten_before: int = 0


@dataclass(frozen=True)
class History:
    """The sources of one audit. `end` is the time of the exports, epoch ms; `start` is None for full exports.

    `lines` has the files of each log and list that is there, even an
    empty one; `sizes` are theirs. `more_deliveries` are files of the delivery log outside the folder. Only their valid
    lines count here, because the audit whose folder holds the file counts its malformed lines.
    """

    folder: str
    start: int | None
    end: int
    exports: Mapping[str, Export]
    lines: Mapping[str, tuple[str, ...]]
    more_deliveries: tuple[str, ...]
    sizes: Mapping[str, int]
    context: HistoryContext
    notes: tuple[str, ...]
    model: Model

    @property
    def items(self) -> int:
        """The number of items in all exports."""
        return sum(export.items for export in self.exports.values())

    def pieces(self) -> list[tuple[int, Piece]]:
        """Return every file to read, with its size in bytes."""
        numbers = {source.name: source.number for source in self.model.all_sources}
        found = []
        for table, export in self.exports.items():
            home, number = f"{self.folder}/{table}", numbers[table]
            found += [(file.size, Piece(number, f"{home}/{file.path}", md5=file.md5)) for file in export.files]
        for name, paths in self.lines.items():
            found += [(self.sizes[path], Piece(numbers[name], path)) for path in paths]
        more = (Piece(numbers["deliveries"], path, counts=False) for path in self.more_deliveries)
        return found + [(self.sizes[piece.path], piece) for piece in more]


def find_history(folder: str, after: int | None, more_deliveries: Sequence[str], model: Model) -> History:
    """Find the sources in a folder, and check what can be checked without reading the data.

    `after` (epoch ms) is the end of the audit that this one continues. `more_deliveries` are folders with further files of
    the delivery log. Raises AuditRefused.
    """
    if not files.exists(folder):
        raise AuditRefused(f"There is no folder {folder}. Make one with `oneslot export`, or name another history.")
    notes: list[str] = []
    exports = {table: _export(f"{folder}/{table}", table, notes) for table in model.exports}
    manifests.check_together(exports, after, declared().stack)
    notes += [f"The export of {table} is empty." for table, export in exports.items() if not export.items]
    found = {name: several for name in LINES if (several := _files(f"{folder}/{name}")) is not None}
    lines = {name: tuple(path for path, size in several.items() if size) for name, several in found.items()}
    sizes = {path: size for several in found.values() for path, size in several.items()}
    more: dict[str, int] = {}
    for home in more_deliveries:
        files_of = _files(home)
        if files_of is None:
            notes.append(f"There is no delivery log in {home}: its deliveries are not judged.")
        more |= files_of or {}
    notes += [
        note for name, note in MISSING_SOURCES.items() if name not in lines and not (name == "deliveries" and more)
    ]
    own = set(lines.get("deliveries", ()))
    besides = tuple(path for path, size in more.items() if size and path not in own)
    first = exports["ledger"]
    context = read_context(folder, first.end)
    notes += [FORGOTTEN] if context.forgotten_before else []
    return History(
        folder, first.start, first.end, exports, lines, besides, {**more, **sizes}, context, tuple(notes), model
    )


def _files(folder: str) -> dict[str, int] | None:
    """Return the files in a folder with their sizes; None if the folder has no files. Raises AuditRefused for a cut one."""
    found = files.files_below(folder)
    for path, size in found.items():
        if path.endswith(".gz") and not size:
            raise AuditRefused(CUT_SHORT.format(path=path))
    return found or None


def first_lines(path: str) -> list[str]:
    """Return the first lines of a data file, as far as its first bytes hold them. The audit itself reports damage."""
    system, inside = files.place_of(path)
    with system.open_input_stream(inside, compression=None) as file:
        packed = bytes(file.read(SAMPLED_BYTES))
    try:
        content = zlib.decompressobj(wbits=31).decompress(packed) if path.endswith(".gz") else packed
    except zlib.error:
        return []
    return content.decode("utf-8", errors="replace").split("\n")[:SAMPLED_LINES]


def sample_notes(history: History) -> list[str]:
    """Look at the first lines of each export. Reject another table's, and return notes on unknown attributes."""
    notes = []
    known_anywhere = frozenset[str]().union(*(export.known for export in history.model.exports.values()))
    for table, export in history.model.exports.items():
        paths = [f"{history.folder}/{table}/{file.path}" for file in history.exports[table].files if file.items]
        if not paths:
            continue
        items = [item for line in first_lines(paths[0]) for item in _items(line)]
        keys = export.key
        # Tables share attributes, as a booked appointment has its slot's, so an attribute of another table counts.
        foreign = known_anywhere - export.known if export.known else frozenset[str]()
        strange = [item for item in items if any(key not in item for key in keys) or foreign & item.keys()]
        if len(strange) * 2 > len(items):
            raise AuditRefused(
                f"The export in {history.folder}/{table} is of another table: most of its items do not look like {table}, "
                f"whose key is {' and '.join(keys)}. Put the export of {table} there."
            )
        given = {name for item in items for name in item}
        for attribute, place in export.wanted.items():
            if items and attribute not in given:
                raise AuditRefused(
                    f"No row of {table} has the attribute {attribute}, which {place} names. Correct {place} in the "
                    f"consumer's oneslot.toml; the rows have {', '.join(sorted(given))}."
                )
        unknown = sorted(given - export.known) if export.known else []
        if unknown:
            notes.append(
                f"Items of {table} carry attributes that the audit does not know ({', '.join(unknown)}); "
                f"seen in the first {SAMPLED_LINES} lines, and not audited."
            )
    return notes


def _items(line: str) -> list[dict[str, object]]:
    record = object_of(line) or {}
    return [item for name in ("Item", "NewImage", "OldImage") if isinstance(item := record.get(name), dict)]


def _export(folder: str, table: str, notes: list[str]) -> Export:
    """Return the newest finished export of a table. Unfinished ones beside it are left out and noted."""
    root = f"{folder}/{EXPORT_FOLDER}"
    homes = [
        name
        for name in (entry.base_name for entry in files.listing(root))
        if name != "data" and not name.startswith(("_", "."))
    ]
    if not homes:
        raise AuditRefused(NO_EXPORT.format(folder=folder, table=table))
    read = [(home := f"{root}/{name}", files.read_text(f"{home}/manifest-summary.json")) for name in homes]
    # DynamoDB writes the summary last. A failed export leaves its folder, and the night is then exported again.
    whole = [(home, text) for home, text in read if text is not None] or read
    if left_out := len(read) - len(whole):
        notes.append(f"Exports of {table} that failed or were not finished are left out: {left_out}.")
    found = [(home, manifests.parse_summary(home, text, _checksum(f"{home}/manifest-summary"))) for home, text in whole]
    home, summary = manifests.newest(found)
    text = files.read_text(f"{home}/manifest-files.json")
    export = manifests.parse_export(home, summary, text, _checksum(f"{home}/manifest-files"))
    listed = _listed(folder, export)
    for file in export.files:
        if file.path not in listed:
            raise AuditRefused(f"{home} lists {file.path}, which does not exist: the export was copied in part.")
    return replace(export, files=tuple(replace(file, size=listed[file.path]) for file in export.files))


def _checksum(manifest: str) -> str | None:
    """Return the checksum beside a manifest. Exports have `.md5`; the developer guide names it `.checksum`."""
    return files.read_text(f"{manifest}.md5") or files.read_text(f"{manifest}.checksum")


def _listed(folder: str, export: Export) -> dict[str, int]:
    """Return the size of each entry of the folders with an export's data files, by its path as in `DataFile`."""
    homes = sorted({file.path.rpartition("/")[0] for file in export.files})
    return {f"{home}/{entry.base_name}": entry.size for home in homes for entry in files.listing(f"{folder}/{home}")}


def read_context(folder: str, end: int) -> HistoryContext:
    """Return the context of a history that ends at `end`, epoch ms. Without the file the ledger keeps every row.

    Raises AuditRefused for an invalid file.
    """
    path = f"{folder}/{CONTEXT}"
    text = files.read_text(path)
    if text is None:
        return HistoryContext()
    document = manifests.json_object(path, text)
    if unknown := document.keys() - NAMES:
        raise AuditRefused(f"{path}: {min(unknown)!r} is not a known name. Use {', '.join(NAMES)}.")
    seconds = document.get("ledger_retention_seconds")
    # At most three hundred years, far below where Spark's milliseconds overflow. `type`, because bool is an int in Python.
    if seconds is not None and not (type(seconds) is int and 0 < seconds <= LONGEST_SECONDS):
        raise AuditRefused(f"{path}: ledger_retention_seconds must be a whole number from 1 to {LONGEST_SECONDS}.")
    if seconds is not None and "ledger_retention" in document:
        raise AuditRefused(f"{path}: ledger_retention and ledger_retention_seconds contradict each other. Remove one.")
    if document.get("ledger_retention", FOREVER) != FOREVER:
        raise AuditRefused(
            f"{path}: ledger_retention can only be {FOREVER!r}. For a number write ledger_retention_seconds."
        )
    return HistoryContext(None if seconds is None else seconds * 1000, _forgotten_before(path, document, end))


def _forgotten_before(path: str, document: Mapping[str, object], end: int) -> int:
    moment = document.get("ledger_forgotten_before")
    if moment is None:
        return 0
    try:
        before = datetime.fromisoformat(str(moment))
    except ValueError:
        before = datetime.min  # noqa: DTZ901 - rejected below, as a time without a zone
    if before.tzinfo is None:
        raise AuditRefused(f"{path}: ledger_forgotten_before must be a time such as 2026-11-23T14:00:00Z.")
    if before.timestamp() * 1000 > end:
        raise AuditRefused(
            f"{path}: ledger_forgotten_before is {moment}, later than the exports, so no missing row would be found. "
            "Name the time from which the ledger kept its rows for longer."
        )
    return round(before.timestamp() * 1000)
