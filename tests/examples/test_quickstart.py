"""quickstart.py shows what it says, quickly, and fails if it cannot."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

QUICKSTART = Path(__file__).resolve().parents[2] / "quickstart.py"


def run(path: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", str(path)]
    return subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)


def test_quickstart_shows_two_charges_and_one() -> None:
    done = run(QUICKSTART)
    assert (done.returncode, done.stderr) == (0, "")
    assert "usual handler   charged 2 times" in done.stdout
    assert "Oneslot         charged 1 time " in done.stdout


def test_quickstart_fails_when_the_usual_handler_charges_once(tmp_path: Path) -> None:
    text = QUICKSTART.read_text(encoding="utf-8").replace("        if killed:\n            raise Killed\n", "")
    changed = tmp_path / "quickstart.py"
    changed.write_text(text, encoding="utf-8")

    done = run(changed)

    assert "usual handler   charged 1 times" in done.stdout
    assert done.returncode == 1
