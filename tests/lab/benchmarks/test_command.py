"""The command line that the benchmarks share: an interrupt keeps what was measured."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from lab.benchmarks.harness import command
from lab.benchmarks.harness.command import print_figures, run_main


def interrupted(*figures: str) -> Iterator[str]:
    yield from figures
    raise KeyboardInterrupt


def test_command_ends_with_a_sentence_when_interrupted(capsys: pytest.CaptureFixture[str]) -> None:
    def main() -> None:
        raise KeyboardInterrupt

    assert run_main(main) == 130
    assert capsys.readouterr().err == "Interrupted.\n"


def test_figures_are_printed_when_interrupted(capsys: pytest.CaptureFixture[str]) -> None:
    assert print_figures(interrupted("1.16"), " ".join) == 130
    assert capsys.readouterr().out == "1.16\n"


# The module is loaded a second time, as `python -m` does.
@pytest.mark.filterwarnings("ignore:.*found in sys.modules:RuntimeWarning")
@pytest.mark.parametrize("part", ["billed_time", "cold_start", "rush"])
def test_part_returns_130_when_interrupted(
    part: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def measure_nothing(_: Any, tables: Any) -> int:
        return print_figures(interrupted(), tables)

    monkeypatch.setattr(command, "print_figures", measure_nothing)
    monkeypatch.setattr(sys, "argv", [part])
    with pytest.raises(SystemExit) as end:
        runpy.run_module(f"lab.benchmarks.{part}", run_name="__main__")
    assert end.value.code == 130
    assert capsys.readouterr().out == "Nothing was measured.\n"
