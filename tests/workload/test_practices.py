"""The official list of practices, read; and every file that is not it, refused with a sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from oneslot.errors import BadInput
from workload.practices import COLUMNS, Practice, read_practices, synthetic_practices


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


def test_a_name_in_another_encoding_is_no_obstacle(tmp_path: Path) -> None:
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
    ],
)
def test_another_file_is_refused_with_its_place_named(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(BadInput) as refused:
        list(read_practices(written(tmp_path, text)))
    assert sentence in str(refused.value)
    assert "epraccur.csv" in str(refused.value)


def test_a_field_without_end_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="is not a CSV text file"):
        list(read_practices(written(tmp_path, '"' + "x" * 70_000)))


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be read"):
        list(read_practices(tmp_path))


def test_synthetic_practices_are_the_same_each_time() -> None:
    assert [practice.code for practice in synthetic_practices(3)] == ["Z00001", "Z00002", "Z00003"]
