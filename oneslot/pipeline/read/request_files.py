"""A historical file of requests, CSV or Parquet → the fields of a request, as text; or a sentence that says why not.

A sentence quotes no line of the file, and no first line either: where there is no header, that is a patient's.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import (
    BinaryType,
    DataType,
    DateType,
    DecimalType,
    IntegralType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from oneslot.pipeline.errors import AuditRefused
from oneslot.pipeline.storage import literal, refuse_half_copied
from oneslot.pipeline.write.outputs import sentence_of

BOOKING = ("practice", "nhs_number", "not_before", "not_after", "delivery_channel", "service_type")
CANCELLATION = ("appointment_id",)
FIELDS = ("message_id", "type", *BOOKING, *CANCELLATION)
NEEDED = (
    f"A request needs `type` and, for bookings, {', '.join(BOOKING)}; for cancellations, appointment_id. "
    "CSV names its columns in the first line, with commas between them."
)
# SQS takes no longer body. A field that is longer is a quote that nobody closed.
LONGEST_FIELD = 1_048_576
CSV_OPTIONS = {
    "header": "true",
    # A quote inside quotes is doubled (RFC 4180), as every spreadsheet writes it; Spark's default is a backslash.
    "escape": '"',
    "multiLine": "true",
    "maxCharsPerColumn": str(LONGEST_FIELD),
    "mode": "FAILFAST",
    # Without the columns that nobody asks for, Spark does not see that a line has too few or too many.
    "columnPruning": "false",
}
NO_TEXT, NOT_UTF8 = "\ufffd", "NOT_UTF8"
"""The sign that Spark reads in place of bytes that are no UTF-8, of each the same; and what is said of it on the way."""
FOLDERS_ARE_TEXT = ("spark.sql.sources.partitionColumnTypeInference.enabled", "false")


@dataclass(frozen=True)
class Opened:
    """`requests` has the columns of `FIELDS`, text or null. `ignored` names the file's other columns."""

    requests: DataFrame
    ignored: list[str]


def open_file(spark: SparkSession, path: str) -> Opened:
    """The requests of a CSV file with a header (also gzipped), of a Parquet file, or of a folder of either.

    Columns are known by their names, in any order, in capitals or not. Raises AuditRefused with a sentence.
    """
    read = _read(spark, path)
    names = [name.strip().lower() for name in read.columns]
    if twice := [field for field in FIELDS if _stands_twice(field, names)]:
        raise AuditRefused(f"{path} has the column `{twice[0]}` more than once. Rename or remove one of them.")
    if "type" not in names:
        raise AuditRefused(f"{path} has no column `type`. {NEEDED}")
    missing = [name for name in BOOKING if name not in names]
    if missing and (len(missing) < len(BOOKING) or CANCELLATION[0] not in names):
        raise AuditRefused(f"{path} has no column {', '.join(f'`{name}`' for name in missing)}. {NEEDED}")
    kinds = {name: field.dataType for name, field in zip(names, read.schema.fields, strict=True)}
    # By position: the other columns may be called anything.
    numbered = read.toDF(*(f"c{position}" for position in range(len(names))))
    columns = {name: _text(f"c{names.index(name)}", name, kinds[name], path) for name in FIELDS if name in kinds}
    nothing = F.lit(None).cast("string")
    requests = numbered.select(*(columns.get(name, nothing).alias(name) for name in FIELDS))
    return Opened(requests, [name for name in read.columns if name.strip().lower() not in FIELDS])


def unreadable(error: Exception) -> str:
    """What went wrong on the way through a file. Spark's own words quote the line, which may name a patient."""
    text = str(error)
    if "Length of parsed input" in text:
        return (
            f"A field of the file has more than {LONGEST_FIELD:,} characters: there is a quote that is never closed. "
            "Mend the file; nothing was handed over."
        )
    if NOT_UTF8 in text:
        return (
            "A field of the file is no UTF-8, so letters of it cannot be told from others. Save it as UTF-8 (in a "
            "spreadsheet `CSV UTF-8`); nothing was handed over."
        )
    if "CSV header does not conform" in text:
        return "The folder's files have different headers. Put files with the same columns in the same order together."
    if "MALFORMED_RECORD" in text or "MALFORMED_CSV" in text:
        return "A line of the file has more or fewer fields than its header. Mend the file; nothing was handed over."
    return f"The file cannot be read to its end: {sentence_of(error)}"


def _read(spark: SparkSession, path: str) -> DataFrame:
    name = PurePosixPath(path).name
    lowered = name.lower()
    if name.startswith((".", "_")) or ":" in name:
        raise AuditRefused(f"Spark passes over names that begin with . or _ or have a colon: rename it. ({path})")
    suffix = PurePosixPath(lowered.removesuffix(".gz")).suffix
    if suffix not in (".csv", ".parquet", ""):
        raise AuditRefused(f"{path} is neither .csv (or .csv.gz) nor .parquet; convert it to one of them.")
    _refuse_what_is_passed_over(Path(path))
    # A folder `practice=00123` is of a practice of that name, and not of number 123.
    usual = str(spark.conf.get(FOLDERS_ARE_TEXT[0]))
    spark.conf.set(*FOLDERS_ARE_TEXT)
    try:
        if suffix == ".csv":
            # Of one file the schema is its own header; Spark would not know names again that it had to number.
            enforced = "true" if Path(path).is_file() else "false"
            return spark.read.options(**CSV_OPTIONS, enforceSchema=enforced).csv(literal(path))
        return spark.read.option("mergeSchema", "true").parquet(literal(path))
    except (CapturedException, Py4JJavaError) as error:
        if "Length of parsed input" in str(error):
            raise AuditRefused(unreadable(error)) from error
        kind = "CSV" if suffix == ".csv" else "Parquet"
        raise AuditRefused(_no_file(path, kind, str(error))) from error
    finally:
        spark.conf.set(FOLDERS_ARE_TEXT[0], usual)


def _refuse_what_is_passed_over(folder: Path) -> None:
    """Of a folder Spark reads the files, and those in folders that are named for a column; of the rest it says nothing."""
    for inside in sorted(folder.rglob("*")):
        if any(name.startswith((".", "_")) for name in inside.relative_to(folder).parts):
            continue
        refuse_half_copied(str(inside))
        if inside.is_dir() and "=" not in inside.name:
            raise AuditRefused(
                f"{inside} is a folder within a folder, which is not read: put its files beside the others."
            )


def _no_file(path: str, kind: str, text: str) -> str:
    if found := re.search(r"Illegal Parquet type: ([A-Z0-9_]+ \([A-Z0-9_,a-z ()]+\))", text):
        return f"{path} has a column of the type {found[1]}, which Spark does not read. Write it as text."
    if "CANNOT_MERGE" in text:
        return f"{path} holds files in which one column has different types. Write it as text in all of them."
    return f"{path} cannot be read as {kind}: it is none, is damaged, or its name ends wrongly."


def _stands_twice(field: str, names: list[str]) -> bool:
    """Whether a column's name is there twice. Spark numbers such columns of a CSV file, all of them, by their places."""
    numbered = Counter(name == f"{field}{place}" for place, name in enumerate(names))
    return names.count(field) > 1 or numbered[True] > 1


def _text(column: str, name: str, kind: DataType, path: str) -> Column:
    """A column as text, without spaces around it, null where there is none. Raises AuditRefused where that is a guess."""
    if isinstance(kind, TimestampNTZType | DateType):
        raise AuditRefused(
            f"{path}: the column {name} has no time zone. Write it as text with its offset, e.g. 2026-11-23T08:00:00Z."
        )
    value = F.col(column)
    whole = isinstance(kind, DecimalType) and kind.scale == 0
    if isinstance(kind, TimestampType):
        seconds = F.date_format(value, "yyyy-MM-dd'T'HH:mm:ssXXX")
        # What is no whole second is for the consumer to refuse; cut off, it would be another request.
        finer = F.date_format(value, "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX")
        value = F.when(F.date_trunc("second", value) == value, seconds).otherwise(finer)
    elif not (isinstance(kind, StringType | BinaryType | IntegralType) or whole):
        raise AuditRefused(f"{path}: the column {name} is {kind.simpleString()}. Write it as text.")
    text = F.trim(value.cast("string"))
    return F.when(F.contains(text, F.lit(NO_TEXT)), F.raise_error(F.lit(NOT_UTF8))).when(text != "", text)
