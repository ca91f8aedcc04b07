"""quickstart.py fails if it cannot show what it says. `test_readme.py` compares its output with the README."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

QUICKSTART = Path(__file__).resolve().parents[2] / "quickstart.py"


def test_quickstart_fails_when_the_usual_handler_charges_once(tmp_path: Path) -> None:
    text = QUICKSTART.read_text(encoding="utf-8").replace("        if killed:\n            raise Killed\n", "")
    changed = tmp_path / "quickstart.py"
    changed.write_text(text, encoding="utf-8")

    done = subprocess.run([sys.executable, changed], capture_output=True, text=True, check=False)

    assert "usual handler   charged 1 times" in done.stdout
    assert done.returncode == 1


def run_in_a_clone(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run this Python in the repository without any third party's package."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    command = [sys.executable, "-S", *arguments]
    return subprocess.run(command, cwd=QUICKSTART.parent, env=variables, capture_output=True, text=True, check=False)


def test_quickstart_runs_when_nothing_is_installed() -> None:
    done = run_in_a_clone("quickstart.py")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Oneslot         charged 1 time " in done.stdout


@pytest.mark.parametrize("version", ["3.8.18", "3.10.13"])
def test_quickstart_names_the_python_it_needs_when_run_on_an_older_one(version: str) -> None:
    older = f"""
        import runpy, sys
        sys.version_info, sys.version = {tuple(map(int, version.split(".")))}, "{version} (main)"
        runpy.run_path("quickstart.py", run_name="__main__")
    """
    done = run_in_a_clone("-c", textwrap.dedent(older))
    expected = f"Oneslot needs Python 3.11 or newer, and this is {version}. Try: python3.11 quickstart.py\n"
    assert (done.returncode, done.stderr) == (1, expected)
