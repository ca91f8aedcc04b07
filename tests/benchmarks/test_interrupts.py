"""Every benchmark that can be started ends an interrupt with a sentence and status 130, wherever it comes."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import benchmarks

FOLDER = Path(str(benchmarks.__file__)).parent
STARTED = sorted(
    path.stem for path in FOLDER.glob("*.py") if '__name__ == "__main__"' in path.read_text(encoding="utf-8")
)


class Interrupting(list[str]):
    """Arguments at which somebody presses Ctrl-C."""

    def __getitem__(self, _: object) -> str:  # type: ignore[override]
        raise KeyboardInterrupt


def interrupt(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_the_benchmarks_are_found() -> None:
    assert {"__main__", "audit", "capacity", "cost", "growth", "rush", "performance_page"} <= set(STARTED)


# It is loaded a second time here, beside the module that other tests use: that is meant.
@pytest.mark.filterwarnings("ignore:.*found in sys.modules:RuntimeWarning")
@pytest.mark.parametrize("name", STARTED)
def test_an_interrupt_is_a_sentence(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", Interrupting())
    monkeypatch.setattr(Path, "write_text", interrupt)
    try:
        with pytest.raises(SystemExit) as ended:
            runpy.run_module(f"benchmarks.{name}", run_name="__main__")
    except KeyboardInterrupt:
        pytest.fail("it ended with a trace")
    assert (ended.value.code, capsys.readouterr().err) == (130, "Interrupted.\n")


@pytest.mark.parametrize("name", STARTED)
def test_an_interrupt_while_it_is_loaded_is_a_sentence(name: str, tmp_path: Path) -> None:
    """Importing what a benchmark needs takes a second or more."""
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'benchmarks.ending':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupting())\n"
    )
    started = subprocess.run(
        [sys.executable, "-m", "benchmarks" if name == "__main__" else f"benchmarks.{name}"],
        cwd=FOLDER.parent,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (started.returncode, started.stdout, started.stderr) == (130, "", "Interrupted.\n")
