"""The layout of a DynamoDB export to S3, as `oneslot export` and the benchmarks write it for the audit.

It follows "DynamoDB table export output format" in the DynamoDB developer guide, and real exports:

    AWSDynamoDB/<export id>/manifest-summary.json   the table, the time or window, the number of items
    AWSDynamoDB/<export id>/manifest-files.json     one JSON object a line: key, number of items and MD5 of a data file
    AWSDynamoDB/<export id>/manifest-*.md5          Base64 of the MD5 of the manifest beside it
    AWSDynamoDB/<export id>/_started                empty
    AWSDynamoDB/<export id>/data/*.json.gz          full: {"Item": {...}} a line
    AWSDynamoDB/data/*.json.gz                      incremental: one folder for the data of all incremental exports
"""

import base64
import gzip
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from oneslot.runtime.values import to_attribute

MANIFEST_VERSION = "2020-06-30"
EXPORT_FOLDER = "AWSDynamoDB"
NO_EXPORT = "{folder} holds no export: AWSDynamoDB/<export id> is missing. Export {table}."
CONTEXT = "context.json"
"""The file beside the exports with the ledger's retention."""


@dataclass(frozen=True)
class Full:
    """The whole table at `at` (epoch ms)."""

    at: int


@dataclass(frozen=True)
class Incremental:
    """The items changed from `start` (inclusive) to `end` (exclusive), both epoch ms, each with its last state."""

    start: int
    end: int


@dataclass(frozen=True)
class Part:
    """The content of one data file: lines, and their number."""

    lines: bytes
    items: int


def to_dynamodb_json(item: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return attribute values for plain values, as an export has them. None is left out."""
    return {name: to_attribute(value, 1) for name, value in item.items() if value is not None}


def item_line(item: Mapping[str, Any]) -> bytes:
    """Return a line of a full export."""
    record = {"Item": to_dynamodb_json(item)}
    text = json.dumps(
        record, separators=(",", ":"), ensure_ascii=False, default=lambda binary: base64.b64encode(binary).decode()
    )
    return text.encode() + b"\n"


def write_export(
    folder: Path, table_arn: str, span: Full | Incremental, parts: Iterable[Part], *, level: int = 6
) -> Path:
    """Write one export below `folder`/AWSDynamoDB and return the folder with its manifests.

    The summary is written last: an export without it is unfinished, as on AWS. `level` is gzip's.
    """
    moment = span.at if isinstance(span, Full) else span.end
    export_id = f"{moment:014d}-{hashlib.sha256(f'{table_arn}{span}'.encode()).hexdigest()[:8]}"
    home = folder / EXPORT_FOLDER / export_id
    data = home / "data" if isinstance(span, Full) else folder / EXPORT_FOLDER / "data"
    data.mkdir(parents=True, exist_ok=True)
    home.mkdir(parents=True, exist_ok=True)
    (home / "_started").touch()
    files, total, size = [], 0, 0
    for number, part in enumerate(parts):
        name = f"{hashlib.sha256(f'{export_id}/{number}'.encode()).hexdigest()[:26]}.json.gz"
        packed = gzip.compress(part.lines, compresslevel=level, mtime=0)
        (data / name).write_bytes(packed)
        digest = hashlib.md5(packed, usedforsecurity=False)
        files.append(
            {
                "itemCount": part.items,
                "md5Checksum": base64.b64encode(digest.digest()).decode(),
                "etag": f"{digest.hexdigest()}-1",
                "dataFileS3Key": (data / name).relative_to(folder).as_posix(),
            }
        )
        total += part.items
        size += len(part.lines)
    manifest = home / "manifest-files.json"
    _write_with_checksum(manifest, "".join(json.dumps(file) + "\n" for file in files))
    summary = {
        "version": MANIFEST_VERSION,
        "exportArn": f"{table_arn}/export/{export_id}",
        "startTime": _timestamp(moment),
        "endTime": _timestamp(moment),
        "tableArn": table_arn,
        "tableId": hashlib.sha256(table_arn.encode()).hexdigest()[:32],
        **_when(span),
        "s3Bucket": "local",
        "s3Prefix": None,
        "s3SseAlgorithm": None,
        "s3SseKmsKeyId": None,
        "manifestFilesS3Key": manifest.relative_to(folder).as_posix(),
        "billedSizeBytes": size,
        "itemCount": total,
        "outputFormat": "DYNAMODB_JSON",
    }
    _write_with_checksum(home / "manifest-summary.json", json.dumps(summary))
    return home


def _when(span: Full | Incremental) -> dict[str, str]:
    if isinstance(span, Full):
        return {"exportTime": _timestamp(span.at), "exportType": "FULL_EXPORT"}
    return {
        "exportFromTime": _timestamp(span.start),
        "exportToTime": _timestamp(span.end),
        "exportType": "INCREMENTAL_EXPORT",
        "outputView": "NEW_AND_OLD_IMAGES",
    }


def _timestamp(milliseconds: int) -> str:
    moment = datetime.fromtimestamp(milliseconds / 1000, tz=UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{milliseconds % 1000:03d}Z"


def _write_with_checksum(path: Path, text: str) -> None:
    content = text.encode()
    checksum = base64.b64encode(hashlib.md5(content, usedforsecurity=False).digest())
    path.with_suffix(".md5").write_bytes(checksum)
    path.write_bytes(content)
