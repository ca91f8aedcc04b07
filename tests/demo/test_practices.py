"""The NHS's files of practices and demand: read as they are, and rejected with line and column."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest

from demo.practices import (
    COLUMNS,
    LARGEST_A_YEAR,
    MEDIAN_A_YEAR,
    NATIONAL_CHANNELS,
    Demand,
    Practice,
    read_demand,
    read_practices,
    synthetic_demand,
    synthetic_practices,
)
from oneslot.errors import BadInput


def line(code: str = "A81001", name: str = "THE SURGERY", status: str = "A", setting: str = "4") -> str:
    """One row as the Organisation Data Service writes it."""
    fields = [""] * COLUMNS
    fields[0], fields[1], fields[12], fields[25] = code, name, status, setting
    return ",".join(f'"{field}"' for field in fields) + "\r\n"


def written(folder: Path, *lines: str) -> Path:
    """A file of these rows."""
    path = folder / "epraccur.csv"
    path.write_text("".join(lines), newline="")
    return path


def test_only_active_gp_practices_are_read(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        line("A81001", "FIRST"),
        line("A81002", status="C"),
        line("A81003", setting="1"),
        line("A81004", "WITH, COMMA"),
    )
    assert list(read_practices(path)) == [Practice("A81001", "FIRST"), Practice("A81004", "WITH, COMMA")]


def test_practice_name_may_have_another_encoding(tmp_path: Path) -> None:
    path = tmp_path / "epraccur.csv"
    path.write_bytes(line(name="CAFÉ").encode("latin-1"))
    assert [practice.code for practice in read_practices(path)] == ["A81001"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("gp_code,name\n", "line 1: 2 columns, not 27"),
        (line() + "A81002,SHORT\n", "line 2: 2 columns, not 27"),
        (line() + line(code="not a code"), "line 2, column 1: 'not a code' is not an ODS code"),
        (line(status="X"), "line 1, column 13: 'X' is not a status: A, C, D or P"),
        (line() + line(), "line 2, column 1: 'A81001' is not a code of its own; an earlier line has it."),
        (line(status="C"), "no active GP practice (column 13 = A and column 26 = 4)"),
        ("", "no active GP practice"),
        ("PK\x03\x04\x00\x00,x\n", "is not a CSV text file. Unpack a zip file first"),
        ('"' + "x" * 70_000, "is not a CSV text file"),
    ],
)
def test_practices_file_is_rejected_with_line_and_column(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(BadInput) as refused:
        list(read_practices(written(tmp_path, text)))
    assert sentence in str(refused.value)
    assert "epraccur.csv" in str(refused.value)


def test_practices_file_is_rejected_when_it_is_a_folder(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be read"):
        list(read_practices(tmp_path))


# Demand

HEADER = "gp_code,list_size,total_appointments,face_to_face,telephone,video_online,home_visit\n"


def demand_file(folder: Path, text: str) -> Path:
    """A demand file of this text."""
    path = folder / "demand.csv"
    path.write_text(text)
    return path


def test_a_year_is_read_with_its_channels(tmp_path: Path) -> None:
    path = demand_file(tmp_path, HEADER + "A81001,3821,16650,12100,609,3657,9\n")
    assert list(read_demand(path)) == [Demand("A81001", 16650, (12109.0, 609.0, 3657.0))]


def test_demand_without_channels_gets_the_national_mix(
    tmp_path: Path,
) -> None:
    path = demand_file(tmp_path, HEADER + "A81001,1,0,0,0,0,0\nA81002,1,7,0,0,0,0\n")
    assert list(read_demand(path)) == [Demand("A81002", 7, NATIONAL_CHANNELS)]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "line 1: the header row lacks the columns gp_code, total_appointments"),
        ("gp_code,total_appointments\n", "lacks the columns face_to_face, home_visit, telephone, video_online"),
        (HEADER, "has no practice below its header row"),
        (HEADER + "A81001,1,2\n", "line 2: 3 columns, but the header row has 7"),
        (HEADER + "A81001,1,many,1,1,1,1\n", "line 2, column total_appointments: 'many' is not a whole number"),
        (HEADER + "A81001,1,5,1,-1,1,1\n", "line 2, column telephone: '-1' is not a whole number"),
        (HEADER + "A81001,1,5,1,1,1,1\nA81001,1,5,1,1,1,1\n", "line 3, column gp_code: 'A81001' is empty, or repeats"),
        (HEADER + ",1,5,1,1,1,1\n", "line 2, column gp_code: '' is empty"),
    ],
)
def test_demand_file_is_rejected_with_line_and_column(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(BadInput) as refused:
        list(read_demand(demand_file(tmp_path, text)))
    assert sentence in str(refused.value)


def test_synthetic_demand_is_repeatable_and_of_the_national_size() -> None:
    practices = synthetic_practices(500)
    years = [demand.appointments for demand in synthetic_demand(practices, seed=1)]
    assert years == [demand.appointments for demand in synthetic_demand(practices, seed=1)]
    assert years != [demand.appointments for demand in synthetic_demand(practices, seed=2)]
    assert 0.85 < statistics.median(years) / MEDIAN_A_YEAR < 1.15
    assert max(years) <= LARGEST_A_YEAR
