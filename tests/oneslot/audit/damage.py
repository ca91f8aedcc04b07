"""Ways to damage a history, each with the sentence that the audit must give."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import shutil
from collections.abc import Callable
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


def _truncate_manifest(history: Path) -> None:
    path = manifest(history, "ledger", "manifest-summary.json")
    path.write_text(path.read_text()[:50])


def _truncate_list(history: Path) -> None:
    path = manifest(history, "ledger", "manifest-files.json")
    path.write_text(path.read_text()[:-1])


def _no_format(history: Path) -> None:
    edit(manifest(history, "ledger", "manifest-summary.json"), lambda summary: summary.pop("outputFormat"))


def _files(**values: object) -> Callable[[Path], None]:
    def change(history: Path) -> None:
        edit(manifest(history, "ledger", "manifest-files.json"), lambda line: line.update(values))

    return change


def _list_is_no_objects(history: Path) -> None:
    path = manifest(history, "ledger", "manifest-files.json")
    path.write_text("[]\n")
    path.with_suffix(".md5").unlink()


def _not_json(history: Path) -> None:
    path = manifest(history, "ledger", "manifest-summary.json")
    path.write_text("{")
    path.with_suffix(".md5").unlink()


def _other_time(history: Path) -> None:
    edit(
        manifest(history, "slots", "manifest-summary.json"),
        lambda summary: summary.update(exportTime="2026-11-01T00:00:00.000Z"),
    )


def _summary(**values: object) -> Callable[[Path], None]:
    def change(history: Path) -> None:
        edit(manifest(history, "ledger", "manifest-summary.json"), lambda summary: summary.update(values))

    return change


def _same_table(history: Path) -> None:
    edit(manifest(history, "slots", "manifest-summary.json"), lambda summary: summary.update(tableArn=arn("ledger")))


def _other_home(old: str, new: str) -> Callable[[Path], None]:
    def change(history: Path) -> None:
        other = arn("slots").replace(old, new)
        edit(manifest(history, "slots", "manifest-summary.json"), lambda summary: summary.update(tableArn=other))

    return change


def _escape(history: Path) -> None:
    key = "AWSDynamoDB/../../../etc/passwd"
    edit(manifest(history, "ledger", "manifest-files.json"), lambda line: line.update(dataFileS3Key=key))


def _missing_data(history: Path) -> None:
    data_file(history, "ledger").unlink()


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


def _foreign_table(history: Path) -> None:
    rewrite(history, "ledger", lambda text: text.replace('"message_id":', '"name":'))


def _no_history(history: Path) -> None:
    shutil.rmtree(history)


def _no_export(history: Path) -> None:
    shutil.rmtree(history / "slots" / "AWSDynamoDB")


def _context(**document: object) -> Callable[[Path], None]:
    def change(history: Path) -> None:
        (history / "context.json").write_text(json.dumps(document))

    return change


def _forgotten(before: object) -> Callable[[Path], None]:
    return _context(ledger_forgotten_before=before)


def log_is_no_gzip(history: Path) -> None:
    path = history / "deliveries" / "deliveries.jsonl.gz"
    path.write_bytes(gzip.decompress(path.read_bytes()))


def _log_is_gzipped(history: Path) -> None:
    path = history / "deliveries" / "deliveries.jsonl.gz"
    path.rename(path.with_suffix(""))


def _log_is_gzipped_twice(history: Path) -> None:
    path = history / "deliveries" / "deliveries.jsonl.gz"
    path.write_bytes(gzip.compress(path.read_bytes()))


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


def _failed_only(history: Path) -> None:
    shutil.rmtree(manifest(history, "slots", "manifest-summary.json").parent)
    failed(history, "slots")


def _log_is_empty_gzip(history: Path) -> None:
    (history / "deliveries" / "deliveries.jsonl.gz").write_bytes(b"")


REFUSED = {
    "log is gzip of no bytes": (_log_is_empty_gzip, "deliveries.jsonl.gz was cut short"),
    "log is called gzip": (log_is_no_gzip, "is not gzip, or is damaged"),
    "no folder": (_no_history, "There is no folder"),
    "no export": (_no_export, "slots holds no export"),
    "no summary": (_remove("manifest-summary.json"), "has no manifest-summary.json: the export is not finished"),
    "no whole export": (_failed_only, "has no manifest-summary.json: the export is not finished"),
    "no list of files": (
        _remove("manifest-files.json"),
        "has no manifest-files.json: the export was copied in part",
    ),
    "truncated manifest": (_truncate_manifest, "does not match its checksum"),
    "manifest is no JSON": (_not_json, "is not JSON: it was cut short or changed"),
    "list of files truncated": (_truncate_list, "manifest-files.json does not match its checksum"),
    "no objects in the list of files": (_list_is_no_objects, "manifest-files.json is not a JSON object"),
    "a file without a name": (_files(dataFileS3Key=5), "has a line without dataFileS3Key"),
    "a file beside the export": (_files(dataFileS3Key="notAWSDynamoDB/data/a"), "which is not inside AWSDynamoDB"),
    "a file that counts less than nothing": (_files(itemCount=-1), "manifest-files.json has no valid itemCount"),
    "no format": (_no_format, "is an export in the format None"),
    "no table": (_summary(tableArn=5), "does not name its table"),
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
    "mixed times": (_other_time, "The exports are not of the same time"),
    "one table twice": (_same_table, "are of one table, Oneslot-test-ledger"),
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
    "a table of others": (_foreign_table, "is of another table: most of its items do not look like ledger"),
    "path outside": (_escape, "which is not inside AWSDynamoDB"),
    "data file missing": (_missing_data, "which does not exist: the export was copied in part"),
    "data file tampered with": (tampered_data, "does not match the MD5 in its manifest"),
    "fewer lines than counted": (fewer_lines, r"should hold 16 items by its manifest, and 15 were read"),
    "log is gzip and is not called so": (
        _log_is_gzipped,
        "jsonl is gzipped, but its name does not end in .gz",
    ),
    "log is gzipped twice": (_log_is_gzipped_twice, r"jsonl.gz is gzipped twice. Unpack it once"),
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
    "no moment": (_forgotten("yesterday"), "ledger_forgotten_before must be a time such as 2026"),
    "a moment without a zone": (
        _forgotten("2020-01-01T00:00:00"),
        "ledger_forgotten_before must be a time such as 2026",
    ),
    "a number for a moment": (_forgotten(1_700_000_000), "ledger_forgotten_before must be a time such as 2026"),
    "a moment to come": (_forgotten("2100-01-01T00:00:00Z"), "no missing row would be found"),
}

REFUSED_BY_SPARK = {
    "wrong table",
    "a table of others",
    "fewer lines than counted",
    "data file tampered with",
    "log is gzip and is not called so",
    "log is gzipped twice",
    "log is called gzip",
}
"""Those that the audit finds only by reading the data, which takes a few seconds each."""
