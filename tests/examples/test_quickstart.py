"""quickstart.py fails if it cannot show what it says. `test_readme.py` compares its output with the README."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

QUICKSTART = Path(__file__).resolve().parents[2] / "quickstart.py"


def test_quickstart_fails_when_the_usual_handler_charges_once(tmp_path: Path) -> None:
    text = QUICKSTART.read_text(encoding="utf-8").replace("        if killed:\n            raise Killed\n", "")
    changed = tmp_path / "quickstart.py"
    changed.write_text(text, encoding="utf-8")

    done = subprocess.run([sys.executable, changed], capture_output=True, text=True, timeout=10, check=False)

    assert "usual handler   charged 1 times" in done.stdout
    assert done.returncode == 1
