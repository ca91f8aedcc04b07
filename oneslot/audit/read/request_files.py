"""A historical file of requests, CSV or Parquet, as the fields of a request in text.

Error sentences quote no line of the file, not even the first: without a header that line is a patient's.
"""

from __future__ import annotations

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

from oneslot.audit.errors import AuditRefused, explain_spark_error
from oneslot.audit.storage import literal

BOOKING = ("practice", "nhs_number", "not_before", "not_after", "delivery_channel", "service_type")
CANCELLATION = ("appointment_id",)
FIELDS = ("message_id", "type", *BOOKING, *CANCELLATION)
NEEDED = (
    f"A request needs `type` and, for bookings, {', '.join(BOOKING)}; for cancellations, appointment_id. "
    "The first line of a CSV file names the columns, separated by commas."
)
# The largest body that SQS takes. A longer field has an opening quote without a closing one.
LONGEST_FIELD = 1_048_576
CSV_OPTIONS = {
    "header": "true",
    # Spreadsheets double a quote inside quotes (RFC 4180). Spark's default is a backslash.
    "escape": '"',
    "multiLine": "true",
    "maxCharsPerColumn": str(LONGEST_FIELD),
    "mode": "FAILFAST",
    # Spark checks the number of fields of a line only if it reads all columns.
    "columnPruning": "false",
}
NO_TEXT, NOT_UTF8 = "\ufffd", "NOT_UTF8"
"""The character that Spark substitutes for bytes that are not UTF-8, and the text of the error raised for it."""
FOLDERS_ARE_TEXT = ("spark.sql.sources.partitionColumnTypeInference.enabled", "false")


@dataclass(frozen=True)
class Opened:
    """The requests of a file. `requests` has the columns of `FIELDS`, text or null; `ignored` names the other columns."""

    requests: DataFrame
    ignored: list[str]


def open_file(spark: SparkSession, path: str) -> Opened:
    """Return the requests of a CSV file with a header (also gzipped), of a Parquet file, or of a folder of either.

    Columns are matched by name, in any order and case. Raises AuditRefused.
    """
    read = _read(spark, path)
    names = [name.strip().lower() for name in read.columns]
    if twice := [field for field in FIELDS if _is_repeated(field, names)]:
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
    """Return the sentence for a file that cannot be read to its end. Spark's message may quote a line about a patient."""
    text = str(error)
    if "Length of parsed input" in text:
        return (
            f"A field of the file has more than {LONGEST_FIELD:,} characters: a quote is never closed. "
            "Nothing was handed over; correct the file."
        )
    if NOT_UTF8 in text:
        return (
            "A field of the file is not UTF-8, so different letters would become the same. Nothing was handed over; save the "
            "file as UTF-8 (in a spreadsheet: `CSV UTF-8`)."
        )
    if "CSV header does not conform" in text:
        return (
            "The folder's files have different headers. Put only files with the same columns in the same order into it."
        )
    if "MALFORMED_RECORD" in text or "MALFORMED_CSV" in text:
        return "A line of the file has more or fewer fields than its header. Nothing was handed over; correct the file."
    return f"The file cannot be read to its end: {explain_spark_error(error)}"


def _read(spark: SparkSession, path: str) -> DataFrame:
    name = PurePosixPath(path).name
    lowered = name.lower()
    if name.startswith((".", "_")) or ":" in name:
        raise AuditRefused(f"Spark skips names that begin with . or _ or contain a colon. Rename {path}.")
    suffix = PurePosixPath(lowered.removesuffix(".gz")).suffix
    if suffix not in (".csv", ".parquet", ""):
        raise AuditRefused(f"{path} is neither .csv (or .csv.gz) nor .parquet. Convert it to one of them.")
    _refuse_skipped_folders(Path(path))
    # The folder `practice=00123` names the practice 00123, not the number 123.
    usual = str(spark.conf.get(FOLDERS_ARE_TEXT[0]))
    spark.conf.set(*FOLDERS_ARE_TEXT)
    try:
        if suffix == ".csv":
            # Only a folder needs the check of headers. In a single file it would reject duplicate names, which Spark numbers.
            enforced = "true" if Path(path).is_file() else "false"
            return spark.read.options(**CSV_OPTIONS, enforceSchema=enforced).csv(literal(path))
        return spark.read.option("mergeSchema", "true").parquet(literal(path))
    except (CapturedException, Py4JJavaError) as error:
        if "Length of parsed input" in str(error):
            raise AuditRefused(unreadable(error)) from error
        kind = "CSV" if suffix == ".csv" else "Parquet"
        raise AuditRefused(
            f"{path} cannot be read as {kind}: it is damaged, its name has the wrong ending, or Spark cannot read or merge "
            "the types of its columns."
        ) from error
    finally:
        spark.conf.set(FOLDERS_ARE_TEXT[0], usual)


def _refuse_skipped_folders(folder: Path) -> None:
    """Reject a folder inside a folder. Spark reads one only if it is named for a column, and skips others silently."""
    for inside in sorted(folder.rglob("*")):
        if any(name.startswith((".", "_")) for name in inside.relative_to(folder).parts):
            continue
        if inside.is_dir() and "=" not in inside.name:
            raise AuditRefused(
                f"{inside} is a folder within a folder, which Spark does not read. Move its files beside the others."
            )


def _is_repeated(field: str, names: list[str]) -> bool:
    """Return whether a column's name appears twice. Spark appends the position to each such name of a CSV file."""
    numbered = Counter(name == f"{field}{place}" for place, name in enumerate(names))
    return names.count(field) > 1 or numbered[True] > 1


def _text(column: str, name: str, kind: DataType, path: str) -> Column:
    """Return a column as trimmed text, null where it is empty. Raises AuditRefused for a type without one obvious text."""
    if isinstance(kind, TimestampNTZType | DateType):
        raise AuditRefused(
            f"{path}: the column {name} has no time zone. Write it as text with its offset, e.g. 2026-11-23T08:00:00Z."
        )
    value = F.col(column)
    whole = isinstance(kind, DecimalType) and kind.scale == 0
    if isinstance(kind, TimestampType):
        seconds = F.date_format(value, "yyyy-MM-dd'T'HH:mm:ssXXX")
        # Fractions are kept, and the consumer rejects them. Cutting them off would change the request.
        finer = F.date_format(value, "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX")
        value = F.when(F.date_trunc("second", value) == value, seconds).otherwise(finer)
    elif not (isinstance(kind, StringType | BinaryType | IntegralType) or whole):
        raise AuditRefused(f"{path}: the column {name} is {kind.simpleString()}. Write it as text.")
    text = F.trim(value.cast("string"))
    return F.when(F.contains(text, F.lit(NO_TEXT)), F.raise_error(F.lit(NOT_UTF8))).when(text != "", text)
