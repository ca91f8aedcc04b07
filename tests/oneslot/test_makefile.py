"""The environment that `make` works in is of this checkout, wherever that was moved or copied."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

MAKEFILE = Path(__file__).parents[2] / "Makefile"


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
    shutil.copy(MAKEFILE, checkout)
    for needed in ("requirements.txt", "pyproject.toml"):
        (checkout / needed).touch()
    stamp = str(checkout.resolve()) if made_in == "here" else made_in
    (checkout / ".venv" / ".installed").write_text(stamp)

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
