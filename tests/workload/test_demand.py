"""Demand: the file with its header row, its errors with line and column, and the synthetic year."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest

from oneslot.errors import BadInput
from workload.practices import (
    LARGEST_A_YEAR,
    MEDIAN_A_YEAR,
    NATIONAL_CHANNELS,
    Demand,
    read_demand,
    synthetic_demand,
    synthetic_practices,
)

HEADER = "gp_code,list_size,total_appointments,face_to_face,telephone,video_online,home_visit\n"


def written(folder: Path, text: str) -> Path:
    """A demand file of this text."""
    path = folder / "demand.csv"
    path.write_text(text)
    return path


def test_a_year_is_read_with_its_channels(tmp_path: Path) -> None:
    path = written(tmp_path, HEADER + "A81001,3821,16650,12100,609,3657,9\n")
    assert list(read_demand(path)) == [Demand("A81001", 16650, (12109.0, 609.0, 3657.0))]


def test_columns_are_found_by_name_wherever_they_stand(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "home_visit,video_online,telephone,face_to_face,total_appointments,extra,gp_code\n1,2,3,4,10,x,A81001\n",
    )
    assert list(read_demand(path)) == [Demand("A81001", 10, (5.0, 3.0, 2.0))]


def test_a_practice_without_appointments_is_left_out_and_one_without_channels_gets_the_national_mix(
    tmp_path: Path,
) -> None:
    path = written(tmp_path, HEADER + "A81001,1,0,0,0,0,0\nA81002,1,7,0,0,0,0\n")
    assert list(read_demand(path)) == [Demand("A81002", 7, NATIONAL_CHANNELS)]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "line 1: the header row lacks the column(s) gp_code, total_appointments"),
        ("gp_code,total_appointments\n", "lacks the column(s) face_to_face, home_visit, telephone, video_online"),
        (HEADER, "has no practice below its header row"),
        (HEADER + "A81001,1,2\n", "line 2: 3 columns, but the header row has 7"),
        (HEADER + "A81001,1,many,1,1,1,1\n", "line 2, column total_appointments: 'many' is not a whole number"),
        (HEADER + "A81001,1,5,1,-1,1,1\n", "line 2, column telephone: '-1' is not a whole number"),
        (HEADER + "A81001,1,5,1,1,1,1\nA81001,1,5,1,1,1,1\n", "line 3, column gp_code: 'A81001' is empty, or repeats"),
        (HEADER + ",1,5,1,1,1,1\n", "line 2, column gp_code: '' is empty"),
    ],
)
def test_another_file_is_refused_with_its_place_named(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(BadInput) as refused:
        list(read_demand(written(tmp_path, text)))
    assert sentence in str(refused.value)


def test_synthetic_demand_is_repeatable_and_of_the_national_size() -> None:
    practices = synthetic_practices(500)
    years = [demand.appointments for demand in synthetic_demand(practices, seed=1)]
    assert years == [demand.appointments for demand in synthetic_demand(practices, seed=1)]
    assert years != [demand.appointments for demand in synthetic_demand(practices, seed=2)]
    assert 0.85 < statistics.median(years) / MEDIAN_A_YEAR < 1.15
    assert max(years) <= LARGEST_A_YEAR
