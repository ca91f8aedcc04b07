"""The manifests of DynamoDB's exports, and the check that the exports of one run belong together."""

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from oneslot.audit.errors import AuditRefused
from oneslot.audit.layout import EXPORT_FOLDER
from oneslot.laws.form import object_of

INCREMENTAL = "INCREMENTAL_EXPORT"


@dataclass(frozen=True)
class DataFile:
    """One data file. `path` begins with `AWSDynamoDB/`. `md5` is Base64, of the compressed file; `size` is in bytes."""

    path: str
    items: int
    md5: str | None
    size: int = 0


@dataclass(frozen=True)
class Export:
    """One export of one table. Times are epoch ms. A full export has `start` None and shows the table at `end`."""

    home: str
    table_arn: str
    start: int | None
    end: int
    items: int
    files: tuple[DataFile, ...]


def parse_summary(home: str, text: str | None, checksum: str | None) -> Mapping[str, Any]:
    """Return the content of `manifest-summary.json`, after checking the checksum beside it if there is one."""
    if text is None:
        raise AuditRefused(
            f"{home} has no manifest-summary.json: the export is not finished, or was copied in part. "
            "Wait until it is COMPLETED, then copy the whole folder."
        )
    check_md5(f"{home}/manifest-summary.json", text, checksum)
    summary = json_object(f"{home}/manifest-summary.json", text)
    if summary.get("outputFormat") != "DYNAMODB_JSON":
        raise AuditRefused(
            f"{home} is an export in the format {summary.get('outputFormat')}. Export the table as DYNAMODB_JSON."
        )
    return summary


def parse_export(home: str, summary: Mapping[str, Any], files_text: str | None, checksum: str | None) -> Export:
    """Return the export of a summary and `manifest-files.json`. Reject counts that disagree and paths outside the export."""
    name = f"{home}/manifest-files.json"
    if files_text is None:
        raise AuditRefused(f"{home} has no manifest-files.json: the export was copied in part.")
    check_md5(name, files_text, checksum)
    files = tuple(_data_file(name, line) for line in files_text.splitlines() if line.strip())
    items = _count(f"{home}/manifest-summary.json", summary.get("itemCount"))
    listed = sum(file.items for file in files)
    if listed != items:
        raise AuditRefused(
            f"{home}: the summary counts {items} items, and the list of files counts {listed}. "
            "A manifest was changed. Export again."
        )
    changes = summary.get("exportType") == INCREMENTAL  # older summaries of full exports do not name their type
    if changes and summary.get("outputView") != "NEW_AND_OLD_IMAGES":
        raise AuditRefused(
            f"{home} is an incremental export without old images. Export with the view NEW_AND_OLD_IMAGES."
        )
    start = _time(home, summary, "exportFromTime") if changes else None
    arn = _named(f"{home}/manifest-summary.json", summary, "tableArn")
    return Export(home, arn, start, _ends(home, summary), items, files)


def check_md5(name: str, text: str, checksum: str | None) -> None:
    """Reject a manifest that does not match its checksum. AWS writes the checksum as Base64 of the MD5."""
    if checksum is None:
        return
    actual = base64.b64encode(hashlib.md5(text.encode(), usedforsecurity=False).digest()).decode()
    if actual != checksum.strip():
        raise AuditRefused(f"{name} does not match its checksum: it was changed or cut short. Copy or export it again.")


def check_together(exports: Mapping[str, Export], after: int | None, stack: str) -> None:
    """Reject exports that do not show one system at one time.

    All exports must be of one account, region and stage of `stack`, with one type, one moment or window, and different
    tables. Incremental exports must begin where the audit
    that they continue ends (`after`, epoch ms).
    """
    arns: dict[str, str] = {}
    for table, export in exports.items():
        if export.table_arn in arns:
            raise AuditRefused(
                f"The exports of {arns[export.table_arn]} and {table} are of one table, {_name(export.table_arn)}. "
                "Put each table's export into its own folder."
            )
        arns[export.table_arn] = table
    homes = {table: _home_of(export.table_arn, stack) for table, export in exports.items()}
    if len(set(homes.values())) > 1:
        named = "; ".join(
            f"{table}: {_name(exports[table].table_arn)}, {home}" for table, home in sorted(homes.items())
        )
        raise AuditRefused(
            f"The exports are not of one system ({named}), so no request's rows belong together. "
            "Export all tables of one account, region and stage."
        )
    spans = {(export.start, export.end) for export in exports.values()}
    if len(spans) > 1:
        since = {table: f"{_text(each.start)} to " if each.start is not None else "" for table, each in exports.items()}
        times = "; ".join(f"{table}: {since[table]}{_text(each.end)}" for table, each in sorted(exports.items()))
        raise AuditRefused(
            f"The exports are not of the same time ({times}), so a request that changed in between would look half done. "
            "Export all tables with the same time."
        )
    (start, _), *_ = spans
    if after is None and start is not None:
        raise AuditRefused(
            "These are incremental exports, and there is no earlier audit to add them to. "
            "Audit full exports first, or name the earlier audit with --previous."
        )
    if after is not None and start is None:
        raise AuditRefused("These are full exports. Audit them without an earlier audit.")
    if after is not None and start != after:
        raise AuditRefused(
            f"The earlier audit ends at {_text(after)} and these exports begin at {_text(start or 0)}. "
            "Add the exports in between first, or audit full exports."
        )


def newest(homes: Sequence[tuple[str, Mapping[str, Any]]]) -> tuple[str, Mapping[str, Any]]:
    """Return the newest export of a table by its time, or by the end of its window."""
    if len(homes) == 1:  # parse_export reports invalid times
        return homes[0]
    return max(homes, key=lambda pair: (_ends(*pair), pair[0]))


def _ends(home: str, summary: Mapping[str, Any]) -> int:
    return _time(home, summary, "exportToTime" if summary.get("exportType") == INCREMENTAL else "exportTime")


def _data_file(name: str, line: str) -> DataFile:
    entry = json_object(name, line)
    key = _named(name, entry, "dataFileS3Key")
    # The key begins with the bucket's prefix, which a copy on disk may lack.
    inside = re.search(rf"(?:^|/)({EXPORT_FOLDER}/(?!.*\.\.).+)$", key)
    if inside is None:
        raise AuditRefused(f"{name} lists the file {key}, which is not inside {EXPORT_FOLDER}. Export again.")
    return DataFile(inside.group(1), _count(name, entry.get("itemCount")), entry.get("md5Checksum"))


def json_object(name: str, text: str) -> Mapping[str, Any]:
    """Return the JSON object in a file's text, or in a line of it."""
    content = object_of(text)
    if content is None:
        raise AuditRefused(f"{name} is not a JSON object: it was cut short or changed. Copy or export it again.")
    return content


def _count(name: str, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise AuditRefused(f"{name} has no valid itemCount. Export again.")
    return value


def _time(home: str, summary: Mapping[str, Any], name: str) -> int:
    try:
        return round(datetime.fromisoformat(str(summary[name]).replace("Z", "+00:00")).timestamp() * 1000)
    except (KeyError, ValueError) as error:
        raise AuditRefused(f"{home}/manifest-summary.json has no valid {name}. Export again.") from error


def _named(place: str, document: Mapping[str, Any], name: str) -> str:
    if not isinstance(text := document.get(name), str):
        raise AuditRefused(f"{place} has no valid {name}. Export again.")
    return text


def _home_of(arn: str, stack: str) -> str:
    """Return account and region of a table, and the stage if CloudFormation named the table after the declared stack."""
    region, account = [*arn.split(":"), *[""] * 5][3:5]
    named = re.match(rf"{re.escape(stack.removesuffix('-dev'))}-(\w+)-", _name(arn)) if stack.endswith("-dev") else None
    return f"account {account} in {region}" + (f", stage {named[1]}" if named else "")


def _name(arn: str) -> str:
    return arn.rpartition("/")[2]


def _text(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000).astimezone().isoformat(timespec="milliseconds")
