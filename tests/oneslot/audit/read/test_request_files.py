"""Historical files as spreadsheets and databases write them: read correctly, or refused without quoting a line."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from oneslot.audit.errors import AuditRefused
from oneslot.audit.read.backfill import Deduplicated, deduplicate
from oneslot.audit.read.request_files import open_file

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PATIENT = "9990000018"
BOOKING = {
    "message_id": "a",
    "type": "book",
    "practice": "A81001",
    "nhs_number": PATIENT,
    "not_before": "2026-11-23T08:00:00Z",
    "not_after": "2026-11-24T08:00:00Z",
    "delivery_channel": "Telephone",
    "service_type": "Planned Clinics",
}
HEADER = ",".join(BOOKING)
LINE = ",".join(BOOKING.values())


@pytest.fixture
def read(spark: SparkSession) -> Callable[..., tuple[list[dict[str, Any]], Deduplicated]]:
    """Read a file, after writing `text` to it if given. Return the bodies, sorted by id, and the counts."""

    def run(path: Path, text: str | bytes | None = None) -> tuple[list[dict[str, Any]], Deduplicated]:
        if text is not None:
            path.write_bytes(text if isinstance(text, bytes) else text.encode())
        found = deduplicate(open_file(spark, str(path)).requests)
        bodies = [json.loads(row.body) for row in found.rows.collect()]
        return sorted(bodies, key=lambda body: str(body["message_id"])), found

    return run


@pytest.mark.parametrize(
    "text",
    [
        f"\ufeff{HEADER}\n{LINE}\n",
        f"{HEADER}\r\n{LINE}\r\n",
        f"{HEADER}\r{LINE}\r",
        f"{HEADER.upper()}\n{LINE}\n",
        f"{HEADER.replace('message_id', 'Message_Id')}\n{LINE}\n",
        f"{HEADER.replace(',', ', ')}\n{LINE}\n",
        f"{HEADER},a.b,c`d,remark,remark,,\n{LINE},1,2,3,4,,\n",
        f'{HEADER},remark\n{LINE},"She said ""later"",\nand rang off; again"\n',
    ],
    ids=["byte order mark", "CRLF", "CR", "capitals", "mixed", "spaces", "names beside", "line break in a field"],
)
def test_csv_is_read_in_every_spelling_of_spreadsheets(read: Any, tmp_path: Path, text: str) -> None:
    """Read each of these texts as the same single request."""
    bodies, found = read(tmp_path / "old.csv", text)
    assert bodies == [BOOKING]
    assert (found.read, found.empty) == (1, 0)


@pytest.mark.parametrize("name", ["old [1] {a,b} *.csv", "old.CSV.GZ", "per%20cent.csv"])
def test_path_is_never_a_pattern(read: Any, tmp_path: Path, name: str) -> None:
    """Browsers and users name files freely; no character of a name may match other files."""
    (tmp_path / "old 1 a x.csv").write_text(f"{HEADER}\n{LINE.replace('a,', 'other,', 1)}\n")
    text = f"{HEADER}\n{LINE}\n".encode()
    bodies, _ = read(tmp_path / name, gzip.compress(text) if name.endswith("GZ") else text)
    assert bodies == [BOOKING]


@pytest.mark.parametrize(
    ("line", "beside"),
    [(f"b,book,A81001,{PATIENT}", ""), (f"b,book,A81001,{PATIENT}", ",remark"), (f"{LINE},one,two,three", ",remark")],
    ids=["too few", "too few where a column is not looked at", "too many"],
)
def test_csv_is_refused_when_a_line_has_wrong_fields(read: Any, tmp_path: Path, line: str, beside: str) -> None:
    """Half a request must not be handed over as a whole one, whichever columns are read."""
    with pytest.raises(AuditRefused, match="has more or fewer fields than its header") as refusal:
        read(tmp_path / "old.csv", f"{HEADER}{beside}\n{line}\n")
    assert PATIENT not in str(refusal.value)


def test_csv_is_refused_when_a_quote_is_never_closed(read: Any, tmp_path: Path) -> None:
    """The quote would make one field of all following lines."""
    text = f"{HEADER}\n{LINE.replace('Planned', chr(34) + 'Planned')}\n" + f"{LINE}\n" * 20_000
    with pytest.raises(AuditRefused, match="a quote is never closed") as refusal:
        read(tmp_path / "old.csv", text)
    assert PATIENT not in str(refusal.value)


@pytest.mark.parametrize(
    ("header", "said"),
    [
        (LINE, "has no column `type`"),
        (HEADER.replace(",", ";"), "has no column `type`.*separated by commas"),
        (HEADER.replace("nhs_number", "nhsnumber"), "no column `nhs_number`"),
        (f"{HEADER},Practice", "the column `practice` more than once"),
        (f"{HEADER},type", "the column `type` more than once"),
    ],
    ids=["no header", "semicolons", "misspelt", "twice, capital", "twice"],
)
def test_csv_is_refused_unquoted_when_its_header_is_wrong(read: Any, tmp_path: Path, header: str, said: str) -> None:
    """The first line may be a patient's, so the sentence must not quote it."""
    with pytest.raises(AuditRefused, match=said) as refusal:
        read(tmp_path / "old.csv", f"{header}\n{LINE}\n")
    assert PATIENT not in str(refusal.value)


def test_cancellations_need_no_columns_of_bookings(read: Any, tmp_path: Path) -> None:
    bodies, _ = read(tmp_path / "old.csv", "message_id,type,appointment_id\nc,cancel,a\n")
    assert bodies == [{"message_id": "c", "type": "cancel", "appointment_id": "a"}]


@pytest.mark.parametrize("name", ["_old.csv", ".old.csv", "old:1.csv"])
def test_name_is_refused_when_spark_would_skip_it(read: Any, tmp_path: Path, name: str) -> None:
    """The sentence names the reason, and does not call the file damaged."""
    with pytest.raises(AuditRefused, match="Rename"):
        read(tmp_path / name, f"{HEADER}\n{LINE}\n")


def parquet(spark: SparkSession, path: Path, **columns: Column) -> DataFrame:
    """Write the booking as Parquet, with some columns of another type."""
    rows = spark.createDataFrame([BOOKING]).withColumns(columns)
    rows.write.parquet(str(path))
    return rows


def test_parquet_types_become_the_text_of_a_request(spark: SparkSession, read: Any, tmp_path: Path) -> None:
    """Whole numbers become digits; times become UTC in the consumer's format."""
    from pyspark.sql import functions as F  # noqa: N812

    parquet(
        spark,
        tmp_path / "old.parquet",
        message_id=F.lit(17).cast("decimal(20,0)"),
        nhs_number=F.col("nhs_number").cast("bigint"),
        practice=F.col("practice").cast("binary"),
        not_before=F.to_timestamp("not_before"),
        not_after=F.to_timestamp(F.lit("2026-11-24T09:00:00.25+01:00")),
    )
    bodies, _ = read(tmp_path / "old.parquet")
    assert bodies == [{**BOOKING, "message_id": "17", "not_after": "2026-11-24T08:00:00.250000Z"}]


@pytest.mark.parametrize(
    ("name", "kind", "said"),
    [
        ("not_before", "timestamp_ntz", "has no time zone"),
        ("not_before", "date", "has no time zone"),
        ("message_id", "double", "is double"),
        ("practice", "array<string>", "is array<string>"),
    ],
)
def test_parquet_is_refused_when_a_type_is_ambiguous(
    request: pytest.FixtureRequest, tmp_path: Path, name: str, kind: str, said: str
) -> None:
    """A guess would be repeated for a million rows."""
    from pyspark.sql import functions as F  # noqa: N812

    values = {"double": F.lit(1.0), "array<string>": F.array(F.lit("A81001"))}
    spark, read = (request.getfixturevalue(fixture) for fixture in ("spark", "read"))
    parquet(spark, tmp_path / "old.parquet", **{name: values.get(kind, F.to_timestamp("not_before")).cast(kind)})
    with pytest.raises(AuditRefused, match=f"the column {name} {said}"):
        read(tmp_path / "old.parquet")


def test_folder_is_read_with_the_columns_of_all_files(spark: SparkSession, read: Any, tmp_path: Path) -> None:
    """A column that only newer files have is read, and a folder's name is text."""
    from pyspark.sql import functions as F  # noqa: N812

    rows = spark.createDataFrame([{**BOOKING, "practice": "001230"}])
    rows.write.partitionBy("practice").parquet(str(tmp_path / "old.parquet"))
    newer = rows.withColumns({"message_id": F.lit("b"), "appointment_id": F.lit("x")})
    newer.write.mode("append").partitionBy("practice").parquet(str(tmp_path / "old.parquet"))
    bodies, _ = read(tmp_path / "old.parquet")
    first = {**BOOKING, "practice": "001230"}
    assert bodies == [first, {**first, "message_id": "b", "appointment_id": "x"}]


def test_folder_is_refused_when_headers_differ(read: Any, tmp_path: Path) -> None:
    """One file's columns would be read under another's names."""
    folder = tmp_path / "old.csv"
    folder.mkdir()
    (folder / "1.csv").write_text(f"{HEADER}\n{LINE}\n")
    swapped = ",".join(["type", "message_id", *list(BOOKING)[2:]])
    (folder / "2.csv").write_text(f"{swapped}\nbook,b,{LINE.split(',', 2)[2]}\n")
    with pytest.raises(AuditRefused, match="different headers"):
        read(folder)


def test_folder_is_refused_when_it_contains_a_folder(read: Any, tmp_path: Path) -> None:
    """Part of the requests would be handed over as if it were all of them."""
    folder = tmp_path / "old.csv"
    for inside in ("1.csv", "_temporary/0/2.csv", "2024/old.csv"):
        (folder / inside).parent.mkdir(parents=True, exist_ok=True)
        (folder / inside).write_text(f"{HEADER}\n{LINE}\n")
    with pytest.raises(AuditRefused, match="2024 is a folder within a folder"):
        read(folder)


def test_csv_is_refused_when_it_is_not_utf8(read: Any, tmp_path: Path) -> None:
    """Two ids that differ in such a letter would be one request."""
    lines = [LINE.replace("a,", f"{name},", 1) for name in ("Zürich", "Zörich")]
    with pytest.raises(AuditRefused, match="not UTF-8") as refusal:
        read(tmp_path / "old.csv", "\n".join([HEADER, *lines]).encode("cp1252"))
    assert "rich" not in str(refusal.value)


QUIETLY = """
import atexit
import sys
from pathlib import Path
from oneslot.commands.backfill import backfill_file
from oneslot.errors import BadInput
atexit.register(lambda: say("late"))  # runs after what the session registers
try:
    backfill_file(Path(sys.argv[1]), lambda _: dict, 1.0)
except BadInput as refusal:
    print(refusal)
from pyspark.sql import SparkSession
say = SparkSession.getActiveSession()._jvm.java.lang.System.err.println
say("early")
"""


def test_terminal_shows_neither_an_invalid_line_nor_an_end(tmp_path: Path) -> None:
    """Spark quotes the line in its own log on standard error, and its shutdown showed stack traces there."""
    (tmp_path / "old.csv").write_text(f"{HEADER}\nb,book,A81001,{PATIENT}\n")
    command = [sys.executable, "-c", QUIETLY, str(tmp_path / "old.csv")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "has more or fewer fields" in done.stdout
    assert PATIENT not in done.stderr
    assert "Exception" not in done.stderr
    assert "early" in done.stderr
    assert "late" not in done.stderr
