"""A finished audit: a folder with the description that is written last, and that readers open first.

Everything is written where it stays, because renaming in S3 copies every byte. A crash leaves a folder with `_started` and
without the description: no reader takes it for an audit, and the next run removes it.

verdicts/part-NNNNN-*.parquet a row for each request, and other subject, that this run judged, with its figures
operations/<table>/           see `oneslot.audit.operations`
findings/part-*.parquet       each broken invariant, with its subject
repair/redrive.jsonl          messages to redrive; repair/look-at.jsonl: subjects that an operator must look at
files.json                    the files of verdicts with their sizes
rejects.jsonl                 malformed lines: file, line and problem, never the text
audit.json                    written last: the input, the conclusion, and the folders of verdicts
report.html                   the same for people
"""

import json
import os
import socket
from dataclasses import dataclass
from typing import Any

from oneslot.audit import files
from oneslot.audit.conclusion import VERSION
from oneslot.audit.errors import AuditRefused
from oneslot.audit.model import Model
from oneslot.audit.read.history import HistoryContext

DESCRIPTION = "audit.json"
STARTED = "_started"
FILES = "files.json"
VERDICTS = "verdicts"
OPERATIONS = "operations"


@dataclass(frozen=True)
class FinishedAudit:
    """A finished audit.

    `layers` are its folders of verdicts, oldest first; a later row replaces an earlier one. `items` is the number of items in
    its exports and those of the audits before it.
    """

    folder: str
    end: int
    items: int
    context: HistoryContext
    layers: tuple[str, ...]
    document: dict[str, Any]


def open_audit(folder: str) -> FinishedAudit:
    """Open a finished audit. Raises AuditRefused for a folder that is not one, or that a crash left incomplete."""
    text = files.read_text(f"{folder}/{DESCRIPTION}")
    if text is None:
        raise AuditRefused(f"{folder} has no {DESCRIPTION}: it is not a finished audit.")
    try:
        document = json.loads(text)
        if document["version"] != VERSION:
            raise AuditRefused(f"{folder} was written by another version of the audit. Audit full exports once.")
        layers = tuple(str(layer) for layer in document["layers"])
        run = FinishedAudit(
            folder,
            int(document["end"]),
            int(document["items"]),
            HistoryContext(document["retention_ms"], document["forgotten_before"]),
            tuple(_beside(folder, layer) for layer in layers),
            document,
        )
        continues = document["continues"]
    except (ValueError, KeyError, TypeError) as error:
        raise AuditRefused(f"{folder}/{DESCRIPTION} is not valid. Audit full exports.") from error
    if not continues:
        raise AuditRefused(
            f"{folder} was made without --continue, so it does not hold the rows that a later audit needs. Audit full exports "
            "with --continue."
        )
    for layer in run.layers:
        refuse_incomplete(folder, layer)
    return run


def refuse_other_consumer(previous: FinishedAudit, model: Model) -> None:
    """Reject an audit whose verdicts or sums are not those of this consumer's model."""
    known = {"verdicts": {*model.verdicts}, "sums": {*model.summed}}
    differs = any(previous.document[name].keys() != names for name, names in known.items())
    if differs or previous.document["carried"] != model.carried:
        raise AuditRefused(
            f"{previous.folder} is an audit of another consumer, or of one that was declared otherwise. Audit full exports."
        )


def list_files(folder: str) -> dict[str, int]:
    """Return the files of an audit's verdicts with their sizes in bytes: the content of `files.json`."""
    return {entry.base_name: entry.size for entry in files.listing(f"{folder}/{VERDICTS}")}


def refuse_incomplete(folder: str, layer: str) -> None:
    """Reject a layer whose files are not those that its audit wrote."""
    home = layer.rpartition("/")[0]
    found = list_files(home)
    if not found:
        raise AuditRefused(f"{folder} builds on {layer}, which does not exist. Audit full exports.")
    if files.read_text(f"{home}/{FILES}") != files.pretty(found):
        raise AuditRefused(
            f"{layer} does not hold the files that its audit wrote. Copy it again, or audit full exports."
        )


def layer_name(folder: str, layer: str) -> str:
    """Return a layer's name in a description: relative to the folder of the audits, so that they can be moved together."""
    parent = folder.rstrip("/").rpartition("/")[0]
    return layer[len(parent) + 1 :] if parent and layer.startswith(f"{parent}/") else layer


def refuse_unrelated(previous: str, folder: str) -> None:
    """Reject two audits in unrelated folders by relative paths, because a layer's relative name would mean nothing there."""
    together = previous.rpartition("/")[0] == folder.rpartition("/")[0]
    if not together and not (_whole(previous) and _whole(folder)):
        raise AuditRefused(
            f"{previous} and {folder} are in different folders. Name both by absolute paths, or write the audit beside the one "
            "that it continues."
        )


def _whole(path: str) -> bool:
    return path.startswith("/") or ":" in path


def _beside(folder: str, layer: str) -> str:
    parent = folder.rstrip("/").rpartition("/")[0]
    return f"{parent}/{layer}" if parent and not _whole(layer) else layer


def begin(folder: str, run: str) -> None:
    """Mark a folder as this run's. Raises AuditRefused if another audit has just marked it."""
    owner = {"run": run, "host": socket.gethostname(), "process": os.getpid()}
    if not files.create_text(f"{folder}/{STARTED}", json.dumps(owner)):
        raise AuditRefused(IN_USE.format(folder=folder))


def remove_own(folder: str, run: str) -> None:
    """Remove what this run wrote, and nothing of another run in the same folder."""
    if _owner(folder).get("run") == run:
        files.remove(folder)


def refuse_existing(folder: str) -> None:
    """Reject an output that exists: an audit never overwrites another. Remove what an audit that crashed left there."""
    if not files.exists(folder):
        return
    if files.exists(f"{folder}/{DESCRIPTION}"):
        raise AuditRefused(f"{folder} already exists. Name another output, or remove it.")
    if not files.exists(f"{folder}/{STARTED}"):
        raise AuditRefused(f"{folder} already exists and is not a finished audit. Remove it, or name another output.")
    owner = _owner(folder)
    if owner.get("host") == socket.gethostname() and _is_alive(owner.get("process")):
        raise AuditRefused(IN_USE.format(folder=folder))
    files.remove(folder)


IN_USE = "Another audit is writing to {folder}. Wait until it ends, or name another output."


def _owner(folder: str) -> dict[str, Any]:
    """Return the run that marked a folder; empty if none did, or a crash cut the mark."""
    try:
        owner = json.loads(files.read_text(f"{folder}/{STARTED}") or "{}")
    except ValueError:
        return {}
    return owner if isinstance(owner, dict) else {}


def _is_alive(process: object) -> bool:
    """Return whether another process of this machine has this id."""
    if not isinstance(process, int) or process == os.getpid():
        return False
    try:
        os.kill(process, 0)
    except OSError as error:  # it is another user's
        return isinstance(error, PermissionError)
    return True
