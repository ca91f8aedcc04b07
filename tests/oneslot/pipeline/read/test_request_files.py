"""What a hospital's exports look like: read as they are meant, or refused by a sentence that quotes nobody's line."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from oneslot.commands.backfill import backfill_file
from oneslot.errors import BadInput

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


class Collector:
    """Writes the bodies that it is given; stands for a service."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, rows: Any) -> dict[str, int]:
        """Write the bodies of one partition."""
        bodies = [row.body for row in rows]
        if bodies:
            name = json.loads(bodies[0])["message_id"].encode().hex()[:60]
            (Path(self.folder) / name).write_text("\n".join(bodies))
        return {"handed_over": len(bodies)}


@pytest.fixture
def handed_over(spark: SparkSession, tmp_path: Path) -> Callable[..., tuple[list[dict[str, Any]], dict[str, Any]]]:
    """A file → the bodies that are handed over, and the counts."""

    def run(path: Path, text: str | bytes | None = None) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        if text is not None:
            path.write_bytes(text if isinstance(text, bytes) else text.encode())
        folder = tmp_path / "collected"
        folder.mkdir()
        counts = backfill_file(path, lambda _: Collector(str(folder)), 1e6)
        lines = [json.loads(line) for file in folder.iterdir() for line in file.read_text().splitlines()]
        return sorted(lines, key=lambda body: str(body["message_id"])), counts

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
def test_spreadsheets_spell_it_in_many_ways(handed_over: Any, tmp_path: Path, text: str) -> None:
    """Each of these says the same one request."""
    bodies, counts = handed_over(tmp_path / "old.csv", text)
    assert bodies == [BOOKING]
    assert (counts["read"], counts["empty"]) == (1, 0)


@pytest.mark.parametrize("name", ["old [1] {a,b} *.csv", "old.CSV.GZ", "per%20cent.csv"])
def test_a_name_is_a_name_and_no_pattern(handed_over: Any, tmp_path: Path, name: str) -> None:
    """Browsers and people name files as they like; none of the signs means other files, too."""
    (tmp_path / "old 1 a x.csv").write_text(f"{HEADER}\n{LINE.replace('a,', 'other,', 1)}\n")
    text = f"{HEADER}\n{LINE}\n".encode()
    bodies, _ = handed_over(tmp_path / name, gzip.compress(text) if name.endswith("GZ") else text)
    assert bodies == [BOOKING]


@pytest.mark.parametrize(
    ("line", "beside"),
    [(f"b,book,A81001,{PATIENT}", ""), (f"b,book,A81001,{PATIENT}", ",remark"), (f"{LINE},one,two,three", ",remark")],
    ids=["too few", "too few where a column is not looked at", "too many"],
)
def test_a_line_that_does_not_fit_is_refused(handed_over: Any, tmp_path: Path, line: str, beside: str) -> None:
    """Whichever columns are looked at: half a request must not be handed over as a whole one."""
    with pytest.raises(BadInput, match="has more or fewer fields than its header"):
        handed_over(tmp_path / "old.csv", f"{HEADER}{beside}\n{line}\n")


def test_a_quote_that_nobody_closes_does_not_swallow_the_file(handed_over: Any, tmp_path: Path) -> None:
    """It would be one field of as many lines as follow."""
    text = f"{HEADER}\n{LINE.replace('Planned', chr(34) + 'Planned')}\n" + f"{LINE}\n" * 20_000
    with pytest.raises(BadInput, match="a quote that is never closed") as refusal:
        handed_over(tmp_path / "old.csv", text)
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
def test_a_header_that_is_wrong_is_refused_and_not_quoted(
    handed_over: Any, tmp_path: Path, header: str, said: str
) -> None:
    """Nothing is handed over with a field missing from each request; and a first line may be a patient's."""
    with pytest.raises(BadInput, match=said) as refusal:
        handed_over(tmp_path / "old.csv", f"{header}\n{LINE}\n")
    assert PATIENT not in str(refusal.value)


def test_cancellations_alone_need_no_columns_of_bookings(handed_over: Any, tmp_path: Path) -> None:
    """And bookings need none of cancellations."""
    bodies, _ = handed_over(tmp_path / "old.csv", "message_id,type,appointment_id\nc,cancel,a\n")
    assert bodies == [{"message_id": "c", "type": "cancel", "appointment_id": "a"}]


@pytest.mark.parametrize("name", ["_old.csv", ".old.csv", "old:1.csv"])
def test_a_name_that_spark_passes_over_is_refused_by_that(handed_over: Any, tmp_path: Path, name: str) -> None:
    """The file is whole: it is not said to be damaged."""
    with pytest.raises(BadInput, match="Rename"):
        handed_over(tmp_path / name, f"{HEADER}\n{LINE}\n")


def parquet(spark: SparkSession, path: Path, **columns: Column) -> DataFrame:
    """Write the booking with some columns of another type."""
    rows = spark.createDataFrame([BOOKING]).withColumns(columns)
    rows.write.parquet(str(path))
    return rows


def test_what_means_the_same_as_text_becomes_that_text(spark: SparkSession, handed_over: Any, tmp_path: Path) -> None:
    """Numbers as digits; moments as UTC, in the form that the consumer takes."""
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
    bodies, _ = handed_over(tmp_path / "old.parquet")
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
def test_what_has_no_one_text_is_refused(
    request: pytest.FixtureRequest, tmp_path: Path, name: str, kind: str, said: str
) -> None:
    """A guess would be handed over a million times."""
    from pyspark.sql import functions as F  # noqa: N812

    values = {"double": F.lit(1.0), "array<string>": F.array(F.lit("A81001"))}
    spark, handed_over = (request.getfixturevalue(fixture) for fixture in ("spark", "handed_over"))
    parquet(spark, tmp_path / "old.parquet", **{name: values.get(kind, F.to_timestamp("not_before")).cast(kind)})
    with pytest.raises(BadInput, match=f"the column {name} {said}"):
        handed_over(tmp_path / "old.parquet")


def test_a_folder_is_read_with_all_columns_of_all_files(spark: SparkSession, handed_over: Any, tmp_path: Path) -> None:
    """A column that only the newer files have is theirs all the same; a folder's name is the text that it is."""
    from pyspark.sql import functions as F  # noqa: N812

    rows = spark.createDataFrame([{**BOOKING, "practice": "001230"}])
    rows.write.partitionBy("practice").parquet(str(tmp_path / "old.parquet"))
    newer = rows.withColumns({"message_id": F.lit("b"), "appointment_id": F.lit("x")})
    newer.write.mode("append").partitionBy("practice").parquet(str(tmp_path / "old.parquet"))
    bodies, _ = handed_over(tmp_path / "old.parquet")
    first = {**BOOKING, "practice": "001230"}
    assert bodies == [first, {**first, "message_id": "b", "appointment_id": "x"}]


def test_files_of_one_folder_with_different_headers_are_refused(handed_over: Any, tmp_path: Path) -> None:
    """One file's columns would be read under another's names."""
    folder = tmp_path / "old.csv"
    folder.mkdir()
    (folder / "1.csv").write_text(f"{HEADER}\n{LINE}\n")
    swapped = ",".join(["type", "message_id", *list(BOOKING)[2:]])
    (folder / "2.csv").write_text(f"{swapped}\nbook,b,{LINE.split(',', 2)[2]}\n")
    with pytest.raises(BadInput, match="different headers"):
        handed_over(folder)


@pytest.mark.parametrize(
    ("name", "said"),
    [("2024/old.csv", "2024 is a folder within a folder")],
)
def test_what_spark_would_pass_over_in_a_folder_is_refused(
    handed_over: Any, tmp_path: Path, name: str, said: str
) -> None:
    """A part of the requests would be handed over, and counted as the whole."""
    folder = tmp_path / "old.csv"
    for inside in ("1.csv", "_temporary/0/2.csv", name):
        (folder / inside).parent.mkdir(parents=True, exist_ok=True)
        (folder / inside).write_text(f"{HEADER}\n{LINE}\n")
    with pytest.raises(BadInput, match=said):
        handed_over(folder)


def test_what_is_not_utf8_is_refused(handed_over: Any, tmp_path: Path) -> None:
    """As spreadsheets write it where nobody asks for UTF-8: two ids that differ in such a letter would be one request."""
    lines = [LINE.replace("a,", f"{name},", 1) for name in ("Zürich", "Zörich")]
    with pytest.raises(BadInput, match="not UTF-8") as refusal:
        handed_over(tmp_path / "old.csv", "\n".join([HEADER, *lines]).encode("cp1252"))
    assert "rich" not in str(refusal.value)


QUIETLY = """
import sys
from pathlib import Path
from oneslot.commands.backfill import backfill_file
from oneslot.errors import BadInput
try:
    backfill_file(Path(sys.argv[1]), lambda _: dict, 1.0)
except BadInput as refusal:
    print(refusal)
"""


def test_nothing_of_a_line_that_does_not_fit_reaches_the_terminal(tmp_path: Path) -> None:
    """Spark quotes the line in its own log, too, which stands on standard error."""
    (tmp_path / "old.csv").write_text(f"{HEADER}\nb,book,A81001,{PATIENT}\n")
    command = [sys.executable, "-c", QUIETLY, str(tmp_path / "old.csv")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "has more or fewer fields" in done.stdout
    assert PATIENT not in done.stderr
    assert "Exception" not in done.stderr
