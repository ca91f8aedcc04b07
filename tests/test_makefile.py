"""The environment that `make` works in is of this checkout, wherever that was moved or copied."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

MAKEFILE = Path(__file__).parents[1] / "Makefile"


@pytest.mark.parametrize(
    ("made_in", "python", "kept"),
    [
        ("here", sys.executable, True),
        ("", sys.executable, True),  # by a version that did not write it down
        ("/elsewhere", sys.executable, False),  # it would run the code that is there
        ("here", "/usr/bin/python-that-is-gone", False),
    ],
)
def test_an_environment_of_another_folder_or_without_python_is_made_anew(
    made_in: str, python: str, kept: bool, tmp_path: Path
) -> None:
    checkout = tmp_path / "Jörg's copy"
    scripts = checkout / ".venv" / "bin"
    scripts.mkdir(parents=True)
    (scripts / "python").symlink_to(python)
    _make_checkout(checkout)
    (checkout / ".venv" / ".installed").write_text(str(checkout.resolve()) if made_in == "here" else made_in)

    def make(target: str) -> subprocess.CompletedProcess[str]:
        command = ["/usr/bin/env", "make", "PYTHON=no-such-python", target]
        return subprocess.run(command, cwd=checkout, check=False, capture_output=True, text=True)

    make("help")
    assert scripts.exists()  # who only looks loses nothing
    said = make(".venv/.installed")
    assert scripts.exists() is kept
    assert ("made anew" in said.stdout) is not kept
    assert (said.returncode == 0) is kept
    assert ("there is no no-such-python. Try: make PYTHON=python3.11" in said.stderr) is not kept


@pytest.mark.parametrize("has_pip", [True, False])
def test_an_environment_that_is_somebodys_own_or_half_made_is_kept_if_it_has_pip(has_pip: bool, tmp_path: Path) -> None:
    _make_checkout(tmp_path)
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\necho "$@" >> asked.txt; exit {int(not has_pip)}\n')
    python.chmod(0o755)
    command = ["/usr/bin/env", "make", "PYTHON=no-such-python", ".venv/.installed"]
    said = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True)
    assert python.exists() is has_pip
    assert ("made anew" in said.stdout) is not has_pip
    assert (tmp_path / "asked.txt").read_text() == "-m pip --version\n"


PYTHON = """#!/bin/sh
[ "$2" = venv ] || exit 0
echo made >> made.txt
mkdir -p .venv/bin
sleep 1
for name in python uv; do printf '#!/bin/sh\n' > .venv/bin/$name; chmod +x .venv/bin/$name; done
"""


def test_of_two_makes_at_once_one_makes_the_environment_and_the_other_waits(tmp_path: Path) -> None:
    _make_checkout(tmp_path)
    (tmp_path / "python").write_text(PYTHON)
    (tmp_path / "python").chmod(0o755)
    command = ["/usr/bin/env", "make", "PYTHON=./python", ".venv/.installed"]
    both = [subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = [one.communicate()[0] for one in both]
    assert [one.returncode for one in both] == [0, 0]
    assert (tmp_path / "made.txt").read_text() == "made\n"
    assert sum("Another make is at work on .venv: waiting for it." in each for each in said) == 1


def _make_checkout(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    shutil.copy(MAKEFILE, folder)
    for needed in ("requirements.txt", "pyproject.toml"):
        (folder / needed).touch()
