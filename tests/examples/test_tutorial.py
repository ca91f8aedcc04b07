"""The tutorial's commands, as a reader types them: in a new folder and a new environment, on the installed package alone."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "learn" / "your-own-consumer.md").read_text(encoding="utf-8")
STARTER = ROOT / "oneslot" / "starter"
LINES = [
    line for block in re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL) for line in block.splitlines()
]
# uv resolves and installs the same packages as pip, in a tenth of its time.
PREAMBLE = f'set -euo pipefail\npip() {{ "{Path(sys.executable).with_name("uv")}" pip "$@"; }}\n'
MOST_ASSET_BYTES = 3_000_000


def bash(lines: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run lines in one shell."""
    ours = {"PYTHONPATH", "VIRTUAL_ENV", "ONESLOT_HOME", "ONESLOT_CONSUMER"}
    environment = {name: value for name, value in os.environ.items() if name not in ours}
    return subprocess.run(
        ["/bin/bash", "-c", PREAMBLE + "\n".join(lines)],
        cwd=folder,
        env={**environment, "REPOSITORY": str(ROOT), "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_tutorial_shows_the_files_that_new_writes() -> None:
    (decision,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert (STARTER / "consumer" / "decision.py").read_text(encoding="utf-8").endswith(f'id."""\n\n{decision}')
    files = ("consumer/decision.py", "consumer/app.py", "stack.py", "laws.py")
    assert sum(len((STARTER / file).read_text(encoding="utf-8").splitlines()) for file in files) == 84


@pytest.mark.slow
@pytest.mark.embedded_aws
@pytest.mark.timeout(1500)
def test_tutorial_takes_a_message_once_on_the_wheel_alone(tmp_path: Path) -> None:
    *lines, down = LINES
    assert down == "oneslot down"
    enter = [line for line in lines if line.startswith(("source ", "cd "))]
    try:
        done = bash(lines, tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
        (asset,) = (tmp_path / "orders" / ".oneslot" / "function").iterdir()
    finally:
        stopped = bash([*enter, down], tmp_path)
    assert "The local stack is stopped." in stopped.stdout
    assert "6 passed" in done.stdout
    assert re.search("taken, .*duplicate, ", done.stdout, re.DOTALL)
    assert "Exactly once: the only request has exactly one answer" in done.stdout
    assert re.search(r"PAUSED; .*, [1-9]\d* in flight", done.stdout + done.stderr), "a worker was killed at work"
    assert re.search(r"Exactly once: .*301 requests", done.stdout)
    (verdict,) = re.findall(r"^> (.*)$", PAGE, re.MULTILINE)
    assert verdict in done.stdout
    assert {path.name for path in asset.iterdir()} - {"__pycache__"} == {"app.py", "decision.py", "oneslot"}
    assert sum(path.stat().st_size for path in asset.rglob("*.py")) < MOST_ASSET_BYTES
