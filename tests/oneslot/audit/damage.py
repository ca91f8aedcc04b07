"""Ways to damage a history, each with the sentence that the audit must give."""

import base64
import gzip
import hashlib
import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.kits.histories import arn


def manifest(history: Path, table: str, name: str) -> Path:
    """Return a manifest of a table's export."""
    (path,) = (history / table / "AWSDynamoDB").glob(f"*/{name}")
    return path


def data_file(history: Path, table: str) -> Path:
    """Return the single data file of a table's export, full or incremental."""
    (path,) = (history / table / "AWSDynamoDB").rglob("data/*.json.gz")
    return path


def edit(path: Path, change: Callable[[dict[str, object]], object]) -> None:
    """Change a manifest and correct its checksum, so that only the content is wrong."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        change(line)
    content = "".join(json.dumps(line) + "\n" for line in lines).encode()
    path.write_bytes(content)
    path.with_suffix(".md5").write_bytes(base64.b64encode(hashlib.md5(content, usedforsecurity=False).digest()))


def rewrite(history: Path, table: str, change: Callable[[str], str]) -> None:
    """Change a data file and its checksum in the manifest, as if it had been exported so."""
    path = data_file(history, table)
    path.write_bytes(gzip.compress(change(gzip.decompress(path.read_bytes()).decode()).encode(), mtime=0))
    checksum = base64.b64encode(hashlib.md5(path.read_bytes(), usedforsecurity=False).digest()).decode()
    edit(manifest(history, table, "manifest-files.json"), lambda line: line.update(md5Checksum=checksum))


def _remove(name: str) -> Callable[[Path], None]:
    return lambda history: manifest(history, "ledger", name).unlink()


def _cut(name: str, end: int) -> Callable[[Path], None]:
    def change(history: Path) -> None:
        path = manifest(history, "ledger", name)
        path.write_text(path.read_text()[:end])

    return change


def _said(name: str, text: str) -> Callable[[Path], None]:
    def change(history: Path) -> None:
        path = manifest(history, "ledger", name)
        path.write_text(text)
        path.with_suffix(".md5").unlink()

    return change


def _edited(name: str, table: str = "ledger", **values: object) -> Callable[[Path], None]:
    return lambda history: edit(manifest(history, table, name), lambda line: line.update(values))


_files = partial(_edited, "manifest-files.json")
_summary = partial(_edited, "manifest-summary.json")


def _other_home(old: str, new: str) -> Callable[[Path], None]:
    return _summary("slots", tableArn=arn("slots").replace(old, new))


def tampered_data(history: Path) -> None:
    path = data_file(history, "ledger")
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes()).replace(b"booked", b"loaned"), mtime=0))


def fewer_lines(history: Path) -> None:
    rewrite(history, "slots", lambda text: text.partition("\n")[2])


def _wrong_table(history: Path) -> None:
    for folder in ("slots", "appointments"):
        shutil.move(history / folder, history / f"{folder}-moved")
    shutil.move(history / "slots-moved", history / "appointments")
    shutil.move(history / "appointments-moved", history / "slots")


def _context(**document: object) -> Callable[[Path], object]:
    return lambda history: (history / "context.json").write_text(json.dumps(document))


def _file_for_log(history: Path) -> None:
    log = history / "deliveries"
    (log / "deliveries.jsonl.gz").rename(history / "moved")
    log.rmdir()
    (history / "moved").rename(log)


def _folder_for_context(history: Path) -> None:
    (history / "context.json").unlink()
    (history / "context.json").mkdir()


def _folder_for_manifest(history: Path) -> None:
    path = manifest(history, "ledger", "manifest-summary.json")
    path.unlink()
    path.mkdir()


def _a_file(history: Path) -> None:
    shutil.rmtree(history)
    history.write_text("history")


def failed(history: Path, table: str) -> None:
    """Add what a failed or unfinished export leaves: a folder without a summary, whose name sorts last."""
    home = history / table / "AWSDynamoDB" / "99999999999999-fa11ed00"
    home.mkdir()
    (home / "_started").touch()
    (home.parent / ".DS_Store").touch()


LOG = "deliveries/deliveries.jsonl.gz"
REFUSED: dict[str, tuple[Callable[[Path], object], str]] = {
    "log is gzip of no bytes": (lambda history: (history / LOG).write_bytes(b""), "deliveries.jsonl.gz was cut short"),
    "folder is missing": (shutil.rmtree, "There is no folder"),
    "no export": (lambda history: shutil.rmtree(history / "slots" / "AWSDynamoDB"), "slots holds no export"),
    "no summary": (_remove("manifest-summary.json"), "has no manifest-summary.json: the export is not finished"),
    "no list of files": (
        _remove("manifest-files.json"),
        "has no manifest-files.json: the export was copied in part",
    ),
    "truncated manifest": (_cut("manifest-summary.json", 50), "does not match its checksum"),
    "manifest of very many levels": (
        _said("manifest-summary.json", "[" * 10**6),
        "is not a JSON object: it was cut short",
    ),
    "list of files truncated": (_cut("manifest-files.json", -1), "manifest-files.json does not match its checksum"),
    "no objects in the list of files": (
        _said("manifest-files.json", "[]\n"),
        "manifest-files.json is not a JSON object",
    ),
    "a file without a name": (_files(dataFileS3Key=5), "manifest-files.json has no valid dataFileS3Key"),
    "a file beside the export": (_files(dataFileS3Key="notAWSDynamoDB/data/a"), "which is not inside AWSDynamoDB"),
    "a file that counts less than nothing": (_files(itemCount=-1), "manifest-files.json has no valid itemCount"),
    "no table": (_summary(tableArn=5), "manifest-summary.json has no valid tableArn"),
    "ION": (_summary(outputFormat="ION"), "Export the table as DYNAMODB_JSON"),
    "count differs": (_summary(itemCount=7), "the summary counts 7 items, and the list of files counts"),
    "count is larger": (_summary(itemCount=7_000), "the summary counts 7000 items, and the list of files counts"),
    "count is a truth": (_summary(itemCount=True), "has no valid itemCount"),
    "count is no number": (_summary(itemCount="many"), "has no valid itemCount"),
    "no time": (_summary(exportTime=None), "has no valid exportTime"),
    "no old images": (
        _summary(exportType="INCREMENTAL_EXPORT", outputView="NEW_IMAGE"),
        "Export with the view NEW_AND_OLD_IMAGES",
    ),
    "mixed times": (_summary("slots", exportTime="2026-11-01T00:00:00.000Z"), "The exports are not of the same time"),
    "one table twice": (_summary("slots", tableArn=arn("ledger")), "are of one table, Oneslot-test-ledger"),
    "another account": (
        _other_home(":000000000000:", ":111111111111:"),
        r"not of one system \(.*slots: Oneslot-test-slots, account 111111111111 in eu-west-2, stage test\)",
    ),
    "another region": (
        _other_home("eu-west-2", "eu-west-1"),
        "slots: Oneslot-test-slots, account 000000000000 in eu-west-1",
    ),
    "another stage": (_other_home("-test-", "-prod-"), "slots: Oneslot-prod-slots, .* stage prod"),
    "wrong table": (_wrong_table, "is of another table: most of its items do not look like slots"),
    "a table of others": (
        lambda history: rewrite(history, "ledger", lambda text: text.replace('"message_id":', '"name":')),
        "is of another table: most of its items do not look like ledger",
    ),
    "path outside": (_files(dataFileS3Key="AWSDynamoDB/../../../etc/passwd"), "which is not inside AWSDynamoDB"),
    "data file missing": (
        lambda history: data_file(history, "ledger").unlink(),
        "which does not exist: the export was copied in part",
    ),
    "data file tampered with": (tampered_data, "does not match the MD5 in its manifest"),
    "fewer lines than counted": (fewer_lines, r"should hold 16 items by its manifest, and 15 were read"),
    "log is gzip and is not called so": (
        lambda history: (history / LOG).rename(history / LOG.removesuffix(".gz")),
        "jsonl is gzipped, but its name does not end in .gz",
    ),
    "a file for a log": (_file_for_log, "deliveries is a file and must be a folder"),
    "a file for a folder": (_a_file, "slots holds no export|ledger holds no export"),
    "a folder for the context": (_folder_for_context, "context.json is a folder and must be a file"),
    "a folder for a manifest": (_folder_for_manifest, "manifest-summary.json is a folder and must be a file"),
    "a retention in words": (_context(ledger_retention_seconds="long"), "must be a whole number from 1 to"),
    "no retention": (_context(ledger_retention_seconds=0), "must be a whole number from 1 to"),
    "a truth for a retention": (_context(ledger_retention_seconds=True), "must be a whole number from 1 to"),
    "a retention without end": (
        _context(ledger_retention_seconds=10**10 + 1),
        "must be a whole number from 1 to",
    ),
    "a misspelt name": (_context(ledger_retention_second=5), "'ledger_retention_second' is not a known name"),
    "for ever and for five seconds": (
        _context(ledger_retention="forever", ledger_retention_seconds=5),
        "contradict each other",
    ),
    "thirty days": (_context(ledger_retention="30 days"), "ledger_retention can only be 'forever'"),
    "no moment": (_context(ledger_forgotten_before="yesterday"), "ledger_forgotten_before must be a time such as 2026"),
    "a moment without a zone": (
        _context(ledger_forgotten_before="2020-01-01T00:00:00"),
        "ledger_forgotten_before must be a time such as 2026",
    ),
    "a moment to come": (_context(ledger_forgotten_before="2100-01-01T00:00:00Z"), "no missing row would be found"),
}

REFUSED_BY_SPARK = {
    "wrong table",
    "a table of others",
    "fewer lines than counted",
    "data file tampered with",
    "log is gzip and is not called so",
}
"""Those that the audit finds only by reading the data, which takes a few seconds each."""
