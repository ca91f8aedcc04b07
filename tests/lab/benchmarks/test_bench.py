"""The run of all benchmarks: its parts, its time limits, its arguments, and the command line that they share."""

from __future__ import annotations

import json
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.benchmarks import __main__ as bench
from lab.benchmarks import growth
from lab.benchmarks.harness import command
from lab.benchmarks.harness.command import print_figures, run_main
from lab.benchmarks.pages import performance_page
from tests.lab.benchmarks.conftest import Refuse
from tests.lab.benchmarks.test_report import DOCUMENT

FIGURE = growth.Figure(1_000, 100, 0.4, 1.16, 8.0, 1.5)


def interrupted(*figures: growth.Figure) -> Iterator[growth.Figure]:
    yield from figures
    raise KeyboardInterrupt


@pytest.fixture
def run(tmp_path: Path) -> bench.Bench:
    run = bench.Bench(tmp_path, short=True)
    run.document["parts"]["contention"] = DOCUMENT["parts"]["contention"]
    return run


def kept(folder: Path) -> Any:
    return json.loads((folder / "benchmarks.json").read_text())["parts"]


def test_command_ends_with_a_sentence_when_interrupted(capsys: pytest.CaptureFixture[str]) -> None:
    def main() -> None:
        raise KeyboardInterrupt

    assert run_main(main) == 130
    assert capsys.readouterr().err == "Interrupted.\n"


@pytest.mark.parametrize("as_lines", [False, True])
def test_figures_are_printed_when_interrupted(as_lines: bool, capsys: pytest.CaptureFixture[str]) -> None:
    status = print_figures(interrupted(FIGURE), growth.tables, as_lines=as_lines)
    assert status == 130
    assert "1.16" in capsys.readouterr().out


def test_figures_are_lines_of_json() -> None:
    assert print_figures([FIGURE], growth.tables, as_lines=True) == 0


# The module is loaded a second time, as `python -m` does.
@pytest.mark.filterwarnings("ignore:.*found in sys.modules:RuntimeWarning")
@pytest.mark.parametrize("part", ["billed_time", "cold_start", "contention", "growth", "rush"])
def test_part_returns_130_when_interrupted(
    part: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        command,
        "print_figures",
        lambda _, tables, *, as_lines: print_figures(interrupted(), tables, as_lines=as_lines),
    )
    monkeypatch.setattr(sys, "argv", [part])
    with pytest.raises(SystemExit) as end:
        runpy.run_module(f"lab.benchmarks.{part}", run_name="__main__")
    assert end.value.code == 130
    assert capsys.readouterr().out == "Nothing was measured.\n"


def test_bench_keeps_the_other_figures_when_a_part_fails(run: bench.Bench, tmp_path: Path) -> None:
    run.run(bench.Part("growth", "there_is_no_such_module", (), 60.0), 1, 2)
    run.report()
    assert kept(tmp_path)["growth"]["ended"] == "failed: status 1"
    assert kept(tmp_path)["contention"]["figures"] == DOCUMENT["parts"]["contention"]["figures"]
    assert "random" in (tmp_path / "benchmarks.md").read_text()
    assert "random" in (tmp_path / "benchmarks.html").read_text()


def test_bench_stops_a_part_when_its_time_is_over(
    run: bench.Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "GRACE_SECONDS", 1)
    run.run(bench.Part("billed_time", "billed_time", ("--short",), 0.0), 1, 1)
    assert kept(tmp_path)["billed_time"]["ended"].startswith("stopped")


def test_bench_reports_its_figures_when_interrupted(
    run: bench.Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(line: str) -> Any:
        raise KeyboardInterrupt

    every = [bench.Part("growth", "capacity", (), 60.0), bench.Part("cold_start", "cold_start", (), 60.0)]
    with monkeypatch.context() as while_it_runs:
        while_it_runs.setattr(json, "loads", interrupt)
        assert bench.run_all(run, every, 60.0) == 130
    run.report()
    assert kept(tmp_path)["growth"]["ended"] == "interrupted"
    assert "cold_start" not in kept(tmp_path)
    assert "random" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--write", "--short"], "--write"),
        (["--minutes", "0"], "--minutes must be above 0"),
        (["--demand", "none.csv"], "--demand: "),
        (["--demand", "no-demand.csv"], "--demand: "),
    ],
)
def test_bench_rejects_bad_arguments_before_it_measures(
    arguments: list[str], said: str, refuse: Refuse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "run_all", lambda *_: pytest.fail("measured"))
    monkeypatch.chdir(tmp_path)
    Path("no-demand.csv").write_text("a,b\n1,2\n")
    assert said in refuse(bench.main, arguments)


@pytest.mark.parametrize(("status", "written"), [(0, 1), (1, 0), (130, 0)])
def test_bench_writes_the_page_of_a_whole_run_only(
    status: int, written: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages: list[Any] = []
    monkeypatch.setattr(bench, "run_all", lambda *_: status)
    monkeypatch.setattr(performance_page, "write", pages.append)
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--to", str(tmp_path), "--write"])
    assert bench.main() == status
    assert len(pages) == written
