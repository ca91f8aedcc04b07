"""The report of the benchmarks holds every figure and nothing from outside; and small parts of the benchmarks themselves."""

from __future__ import annotations

import cProfile
import json
import runpy
import sys
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks import __main__ as bench
from benchmarks import bench_kit, billed_time, cold_start, contention, growth
from benchmarks.bench_kit import print_figures, table
from benchmarks.cold_start import package, package_sizes
from benchmarks.contention import STRATEGIES, choosing
from benchmarks.growth import measure
from benchmarks.pages import performance_page
from benchmarks.pages.report import as_html, page
from benchmarks.pages.tables import KILLED, RUSH, all_tables, targets, where
from benchmarks.rush import __main__ as rush
from benchmarks.rush.load import DUPLICATES, demands, requests, slots
from benchmarks.rush.watching import LineCount, shares


def billed(handler: str, batch: str, billed_ms: float) -> billed_time.Figure:
    return billed_time.Figure(handler, batch, 5.0, billed_ms, 4.5, 1.2, 8.0, 1.5, 0, (billed_ms - 1, billed_ms + 1.5))


def rushed(handler: str, lost: int, done: int = 1_000) -> rush.Figures:
    return rush.Figures(
        handler=handler,
        messages=1_000,
        done=done,
        drained=done == 1_000,
        seconds=12.5,
        per_second=321.0,
        p50_ms=40.0,
        p95_ms=50.0,
        p99_ms=60.0,
        killed=3,
        double_booked=0,
        lost=lost,
        dead_letters=0,
        cpu_ms={"consumers": 7.25, "embedded AWS": 2.5},
        memory=[(1.0, 50.0, 60.0), (2.0, 51.0, 70.0)],
        packages={"botocore": 0.75, "exactly_once": 0.25},
        functions=[("botocore: <parse>", 0.375)],
    )


def part(*figures: Any, ended: str = "whole") -> dict[str, Any]:
    return {"ended": ended, "seconds": 9.0, "figures": json.loads(json.dumps([asdict(one) for one in figures]))}


STARTS = {
    cold_start.FLOOR: {"cpu_ms": 300.0, "memory_mb": 46.0},
    cold_start.UNCOLLECTED: {"cpu_ms": 250.0, "memory_mb": 46.0},
    cold_start.HANDLER: {"cpu_ms": 330.0, "memory_mb": 50.0},
}
DOCUMENT: dict[str, Any] = {
    "machine": "a machine",
    "when": "2026-11-21T22:00+00:00",
    "short": False,
    "load_before": 0.1,
    "parts": {
        "billed_time": part(
            billed("floor", "ten new", 20.0),
            billed("(a) Powertools", "ten new", 400.0),
            billed("the group's calls alone", "ten new", 25.0),
            billed("ours, group commit", "ten new", 31.25),
            billed("ours, group commit, one core", "ten new", 25.0),
            billed("ours, group commit, queries together, one core", "ten new", 20.9),
            billed("(a) Powertools, one core", "ten new", 350.0),
            billed("floor, one core", "ten new", 19.0),
            billed("floor", "ten duplicates", 5.0),
            billed("ours, group commit", "ten duplicates", 9.0),
        ),
        "cold_start": part(cold_start.Figures(STARTS, {"boto3": 12.0}, {"handler": 7.5}, {"our own code": 138.0})),
        "contention": part(contention.Figure("default", 10, 16, "random", 10, 0.5, 60.0, 150.0, 4.5, 0.1)),
        "growth": part(growth.Figure(1_000, 100, 0.4, 1.16, 8.0, 1.5)),
        RUSH: part(rushed("ours (default)", lost=0), rushed("(a) Powertools", lost=2)),
        KILLED: part(rushed("ours (default)", lost=0, done=400), ended="stopped: its time was over"),
    },
}


def test_every_figure_is_in_the_report_and_nothing_is_fetched() -> None:
    html, text = page(DOCUMENT), all_tables(DOCUMENT)
    for expected in (
        "31.2",
        "30.2 to 32.8",
        "12.8",
        "1.56",
        "138",
        "0.50",
        "1,000",
        "50 → 50 → 50 → 51 → 51",
        "321",
        "7.25",
        "75%",
    ):
        assert expected in text
        assert expected in html
    assert "botocore: &lt;parse&gt; 38%" in html
    assert "polyline" in html
    assert "http" not in html
    assert "<parse>" not in html


def test_a_part_that_was_stopped_says_so_and_one_that_has_nothing_does_too() -> None:
    text = all_tables(DOCUMENT)
    assert "Not all of it was measured: stopped: its time was over." in text
    assert text.count("Stopped before the queue was empty, at their share of the time: ours (default).") == 1
    document = {**DOCUMENT, "parts": {RUSH: {"ended": "failed: status 1", "seconds": 1.0, "figures": []}}}
    assert "No figures" in all_tables(document)
    assert "No figures" in page(document)


def test_billed_time_is_judged_by_the_quicker_peer_and_floor_and_duplicates_alone_have_no_target() -> None:
    billed_targets, _ = targets(DOCUMENT).split("\n\n")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in billed_targets.splitlines()[2:]]
    assert rows == [["ten new", "5 ms", "11.20", "1.65, missed", "14", "1.32", "16.74", "1.10"]]


def test_what_was_not_measured_is_left_out() -> None:
    measured = part(billed("floor", "ten new", 20.0), billed("ours, group commit", "ten new", 31.25))
    (row,) = targets({**DOCUMENT, "parts": {"billed_time": measured}}).split("\n\n")[0].splitlines()[2:]
    assert [cell.strip() for cell in row.strip("|").split("|")] == [
        "ten new",
        "5 ms",
        "",
        "1.57, missed",
        "",
        "",
        "",
        "",
    ]
    assert targets({**DOCUMENT, "parts": {}}) == ""


def test_the_other_targets_are_judged_by_the_figures() -> None:
    _, others = targets(DOCUMENT).split("\n\n")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in others.splitlines()[2:]]
    judged = {row[0]: row[2:] for row in rows}
    assert judged["CPU of a cold start / Python, boto3, one client"] == ["1.10", "yes"]
    assert judged["CPU of a cold start / the floor without garbage collection"] == ["1.32", "no"]
    assert judged["The 8 a.m. rush, ours (default): lost or booked twice"] == ["0", "yes"]
    assert (
        judged["The rush, with consumers killed every five seconds, ours (default): lost or booked twice, 3 killed"][1]
        == "yes"
    )
    assert not any("Powertools" in name and "lost" in name for name in judged)


def test_a_busy_machine_is_mentioned() -> None:
    assert "**Other work" not in where(DOCUMENT)
    assert "**Other work" in where({**DOCUMENT, "load_before": 3.0})
    assert "<b>Other work" in as_html(where({**DOCUMENT, "load_before": 3.0}))


def test_a_rush_in_which_nobody_was_killed_says_nothing_about_kills() -> None:
    unharmed = part(replace(rushed("ours (default)", lost=0), killed=0))
    assert targets({**DOCUMENT, "parts": {KILLED: unharmed}}) == ""


def test_the_rushs_demand_is_named() -> None:
    assert "demand" not in where(DOCUMENT)
    assert "; the rush by the demand of practices.csv." in where({**DOCUMENT, "demand": "practices.csv"})


def test_an_interrupted_measurement_prints_what_it_has(capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted() -> Any:
        yield growth.Figure(1_000, 100, 0.4, 1.16, 8.0, 1.5)
        raise KeyboardInterrupt

    assert print_figures(interrupted(), growth.tables, as_lines=False) == 130
    assert "1.16" in capsys.readouterr().out
    assert print_figures(interrupted(), growth.tables, as_lines=True) == 130
    assert json.loads(capsys.readouterr().out)["calls"] == 1.16
    assert print_figures([growth.Figure(1_000, 100, 0.4, 1.16, 8.0, 1.5)], growth.tables, as_lines=True) == 0


@pytest.mark.filterwarnings("ignore:.*found in sys.modules:RuntimeWarning")
@pytest.mark.parametrize("part", ["billed_time", "cold_start", "contention", "growth", "rush"])
def test_a_part_that_is_run_by_itself_and_interrupted_says_so_in_its_status(
    part: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted() -> Any:
        yield from ()
        raise KeyboardInterrupt

    monkeypatch.setattr(
        bench_kit,
        "print_figures",
        lambda _, tables, *, as_lines: print_figures(interrupted(), tables, as_lines=as_lines),
    )
    monkeypatch.setattr(sys, "argv", [part])
    with pytest.raises(SystemExit) as end:
        runpy.run_module(f"benchmarks.{part}", run_name="__main__")
    assert end.value.code == 130
    assert capsys.readouterr().out == "Nothing was measured.\n"


def test_a_part_that_fails_or_takes_too_long_keeps_its_figures_and_the_others(tmp_path: Path) -> None:
    run = bench.Bench(tmp_path, short=True)
    run.run(bench.Part("growth", "there_is_no_such_module", (), 60.0), 1, 2)
    assert run.document["parts"]["growth"]["ended"] == "failed: status 1"
    run.document["parts"]["contention"] = DOCUMENT["parts"]["contention"]
    run.run(bench.Part("billed_time", "billed_time", ("--short",), 0.0), 2, 2)
    assert run.document["parts"]["billed_time"]["ended"].startswith("stopped")
    kept = json.loads((tmp_path / "benchmarks.json").read_text())
    assert kept["parts"]["contention"]["figures"] == DOCUMENT["parts"]["contention"]["figures"]
    run.report()
    assert "random" in (tmp_path / "benchmarks.md").read_text()
    assert "random" in (tmp_path / "benchmarks.html").read_text()


def test_a_profiles_time_is_divided_among_packages_and_what_is_built_in_counts_to_its_caller(tmp_path: Path) -> None:
    ticks = iter(range(1_000))
    profiler = cProfile.Profile(lambda: next(ticks))
    profiler.runcall(table, ["name"], [["a"], ["b"]])
    profiler.dump_stats(str(tmp_path / "profile"))
    packages, functions = shares(tmp_path / "profile")
    assert set(packages) == {"benchmarks"}
    assert packages["benchmarks"] == pytest.approx(1.0, abs=0.1)
    assert sum(share for _, share in functions) == pytest.approx(1.0, abs=0.1)
    assert "benchmarks: bench_kit.table" in dict(functions)


def test_the_lines_of_a_growing_file_are_counted(tmp_path: Path) -> None:
    count = LineCount(tmp_path / "log")
    assert count.read() == 0
    (tmp_path / "log").write_text("a\nb\nhalf")
    assert count.read() == 2
    with (tmp_path / "log").open("a") as file:
        file.write(" a line\nc\n")
    assert count.read() == 4


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        ("json.decoder", "standard library"),
        ("botocore.endpoint", "botocore"),
        ("aws_lambda_powertools.utilities.batch.base", "aws_lambda_powertools.utilities.batch"),
        ("aws_lambda_powertools.logging", "aws_lambda_powertools"),
    ],
)
def test_imports_are_summed_by_package(module: str, expected: str) -> None:
    assert package(module) == expected


def test_the_package_is_what_the_function_needs() -> None:
    sizes = package_sizes()
    assert {"aws-lambda-powertools", "our own code"} <= set(sizes)
    assert all(size > 0 for size in sizes.values())


def test_the_choice_is_ours_again_afterwards() -> None:
    from appointments import allocation

    before = vars(allocation)["choose"]
    with choosing(STRATEGIES["first free"]):
        assert vars(allocation)["choose"] is STRATEGIES["first free"]
    assert vars(allocation)["choose"] is before


def test_the_rush_has_thirty_percent_twice_and_a_slot_for_everybody() -> None:
    bodies = requests(demands(None, 20), 1_000)
    copies = Counter(body["message_id"] for body in bodies)
    assert len(copies) == 1_000
    assert Counter(copies.values()) == {1: round(1_000 * (1 - DUPLICATES)), 2: round(1_000 * DUPLICATES)}
    wanted = Counter(
        (body["practice"], body["delivery_channel"]) for body in {b["message_id"]: b for b in bodies}.values()
    )
    made = list(slots(bodies))
    assert Counter((slot["practice"], slot["delivery_channel"]) for slot in made) == wanted
    assert len({(slot["practice"], slot["slot_id"]) for slot in made}) == len(made)
    assert all(bodies[0]["not_before"] <= slot["start"] < bodies[0]["not_after"] for slot in made)


def test_a_messages_cost_does_not_grow_with_what_is_there() -> None:
    few, many = measure(100, 10, batches=5), measure(2_000, 10, batches=5)
    assert (few.calls, few.write_units, few.read_units) == (many.calls, many.write_units, many.read_units)


def test_an_interrupted_run_keeps_its_figures_and_reports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = bench.Bench(tmp_path, short=True)
    run.document["parts"]["contention"] = DOCUMENT["parts"]["contention"]

    def interrupted(line: str) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as while_it_runs:
        while_it_runs.setattr(json, "loads", interrupted)
        every = [bench.Part(name, name, ("--short",), 60.0) for name in ("growth", "cold_start")]
        assert bench.run_all(run, every, 60.0) == 130
    run.report()
    kept = json.loads((tmp_path / "benchmarks.json").read_text())
    assert kept["parts"]["growth"]["ended"] == "interrupted"
    assert "cold_start" not in kept["parts"]
    assert "random" in capsys.readouterr().out


def test_what_cannot_be_is_told_before_anything_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench, "run_all", lambda *_: pytest.fail("measured"))
    (tmp_path / "no-demand.csv").write_text("a,b\n1,2\n")
    for arguments, said in (
        (["--write", "--short"], "--write"),
        (["--minutes", "0"], "--minutes must be more than 0"),
        (["--demand", str(tmp_path / "none.csv")], "--demand: "),
        (["--demand", str(tmp_path / "no-demand.csv")], "--demand: "),
    ):
        monkeypatch.setattr(sys, "argv", ["benchmarks", "--to", str(tmp_path), *arguments])
        with pytest.raises(SystemExit) as ended:
            bench.main()
        assert ended.value.code == 2
        assert said in capsys.readouterr().err


@pytest.mark.parametrize(("status", "written"), [(0, 1), (1, 0), (130, 0)])
def test_a_page_is_written_of_a_whole_run_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, written: int
) -> None:
    pages: list[Any] = []
    monkeypatch.setattr(bench, "run_all", lambda *_: status)
    monkeypatch.setattr(performance_page, "write", pages.append)
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--to", str(tmp_path), "--write"])
    assert bench.main() == status
    assert len(pages) == written
