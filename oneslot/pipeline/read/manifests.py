"""The manifests of DynamoDB's exports: what an export says of itself, and whether the exports of a run fit together."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from oneslot.pipeline.errors import AuditRefused
from oneslot.pipeline.layout import EXPORT_FOLDER

FULL = "FULL_EXPORT"
INCREMENTAL = "INCREMENTAL_EXPORT"


@dataclass(frozen=True)
class DataFile:
    """One data file. `path` begins with `AWSDynamoDB/`; `md5` is Base64, of the compressed file."""

    path: str
    items: int
    md5: str | None


@dataclass(frozen=True)
class Export:
    """One export of one table. Times are epoch ms; a full export has `start` None and is the table as it was at `end`."""

    home: str
    table_arn: str
    start: int | None
    end: int
    items: int
    files: tuple[DataFile, ...]

    @property
    def full(self) -> bool:
        """Whether it holds the whole table."""
        return self.start is None


def parse_summary(home: str, text: str | None, checksum: str | None) -> dict[str, Any]:
    """`manifest-summary.json` → its content, checked against the checksum beside it where there is one."""
    if text is None:
        raise AuditRefused(
            f"{home} has no manifest-summary.json: the export is not finished, or not all of it was copied. "
            "Wait until it is COMPLETED and copy the whole folder."
        )
    check_md5(f"{home}/manifest-summary.json", text, checksum)
    summary = _json_object(f"{home}/manifest-summary.json", text)
    if summary.get("outputFormat") != "DYNAMODB_JSON":
        raise AuditRefused(
            f"{home} is an export in the format {summary.get('outputFormat')}; export the table as DYNAMODB_JSON."
        )
    return summary


def parse_export(home: str, summary: Mapping[str, Any], files_text: str | None, checksum: str | None) -> Export:
    """A summary and `manifest-files.json` → the export. Counts must agree, and every path must be inside the export."""
    name = f"{home}/manifest-files.json"
    if files_text is None:
        raise AuditRefused(f"{home} has no manifest-files.json: not all of the export was copied.")
    check_md5(name, files_text, checksum)
    files = tuple(_data_file(name, line) for line in files_text.splitlines() if line.strip())
    items = _count(f"{home}/manifest-summary.json", summary.get("itemCount"))
    listed = sum(file.items for file in files)
    if listed != items:
        raise AuditRefused(
            f"{home}: the summary counts {items} items and the list of files {listed}. "
            "One of the manifests was changed; export again."
        )
    kind = summary.get("exportType", FULL)  # older summaries of full exports do not name their type
    if kind == INCREMENTAL:
        if summary.get("outputView") != "NEW_AND_OLD_IMAGES":
            raise AuditRefused(
                f"{home} is an incremental export without old images; export with the view NEW_AND_OLD_IMAGES."
            )
        start, end = _time(home, summary, "exportFromTime"), _time(home, summary, "exportToTime")
        return Export(home, _arn(home, summary), start, end, items, files)
    return Export(home, _arn(home, summary), None, _time(home, summary, "exportTime"), items, files)


def check_md5(name: str, text: str, checksum: str | None) -> None:
    """Refuse a manifest that is not what its checksum says. AWS writes the checksum as Base64 of the MD5."""
    if checksum is None:
        return
    actual = base64.b64encode(hashlib.md5(text.encode(), usedforsecurity=False).digest()).decode()
    if actual != checksum.strip():
        raise AuditRefused(f"{name} does not match its checksum: it was changed or cut short. Copy or export it again.")


def check_together(exports: Mapping[str, Export], after: int | None) -> None:
    """Refuse exports that are no one picture of the system.

    All must be of one kind, of one moment or window, and of different tables; incremental ones must begin where the
    evidence that they are added to ends (`after`, epoch ms).
    """
    arns: dict[str, str] = {}
    for table, export in exports.items():
        if export.table_arn in arns:
            raise AuditRefused(
                f"The exports of {arns[export.table_arn]} and {table} are of one table, {_name(export.table_arn)}. "
                "Put each table's export into its own folder."
            )
        arns[export.table_arn] = table
    spans = {(export.start, export.end) for export in exports.values()}
    if len(spans) > 1:
        times = "; ".join(f"{table}: {_span(export)}" for table, export in sorted(exports.items()))
        raise AuditRefused(
            f"The exports are not of the same time ({times}). A request changed in between would look half done. "
            "Export the tables with one and the same time."
        )
    (start, _), *_ = spans
    if after is None and start is not None:
        raise AuditRefused(
            "These are incremental exports, and there is no earlier audit to add them to. "
            "Audit full exports first, or name the earlier audit."
        )
    if after is not None and start is None:
        raise AuditRefused("These are full exports; audit them on their own, without an earlier audit.")
    if after is not None and start != after:
        raise AuditRefused(
            f"The earlier audit ends at {_text(after)} and these exports begin at {_text(start or 0)}. "
            "Add the exports in between first, or audit full exports."
        )


def newest(homes: Sequence[tuple[str, Mapping[str, Any]]]) -> tuple[str, Mapping[str, Any]]:
    """Of several exports of one table, the newest by its time (or by the end of its window)."""
    if len(homes) == 1:  # what is wrong with its times is told later, with what else is wrong with it
        return homes[0]
    return max(homes, key=lambda pair: (_ends(*pair), pair[0]))


def _ends(home: str, summary: Mapping[str, Any]) -> int:
    return _time(home, summary, "exportToTime" if summary.get("exportType") == INCREMENTAL else "exportTime")


def _data_file(name: str, line: str) -> DataFile:
    entry = _json_object(name, line)
    key = entry.get("dataFileS3Key")
    if not isinstance(key, str):
        raise AuditRefused(f"{name} has a line without dataFileS3Key; export again.")
    # The key begins with the bucket's prefix, which a copy on disk need not have.
    inside = re.search(rf"(?:^|/)({EXPORT_FOLDER}/(?!.*\.\.).+)$", key)
    if inside is None:
        raise AuditRefused(f"{name} lists the file {key}, which is not inside {EXPORT_FOLDER}.")
    return DataFile(inside.group(1), _count(name, entry.get("itemCount")), entry.get("md5Checksum"))


def _json_object(name: str, text: str) -> dict[str, Any]:
    try:
        content = json.loads(text)
    except ValueError as error:
        raise AuditRefused(f"{name} is not JSON: it was cut short or changed. Copy or export it again.") from error
    if not isinstance(content, dict):
        raise AuditRefused(f"{name} is not a JSON object; copy or export it again.")
    return content


def _count(name: str, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise AuditRefused(f"{name} has no usable itemCount; export again.")
    return value


def _time(home: str, summary: Mapping[str, Any], name: str) -> int:
    try:
        return round(datetime.fromisoformat(str(summary[name]).replace("Z", "+00:00")).timestamp() * 1000)
    except (KeyError, ValueError) as error:
        raise AuditRefused(f"{home}/manifest-summary.json has no usable {name}; export again.") from error


def _arn(home: str, summary: Mapping[str, Any]) -> str:
    arn = summary.get("tableArn")
    if not isinstance(arn, str):
        raise AuditRefused(f"{home}/manifest-summary.json does not name its table (tableArn); export again.")
    return arn


def _name(arn: str) -> str:
    return arn.rpartition("/")[2]


def _span(export: Export) -> str:
    return _text(export.end) if export.start is None else f"{_text(export.start)} to {_text(export.end)}"


def _text(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000).astimezone().isoformat(timespec="milliseconds")
