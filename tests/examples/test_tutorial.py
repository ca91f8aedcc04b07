"""The tutorial's commands, as a reader types them: in a new folder and a new environment, on the installed package alone."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.kits.local_mapping import descendants

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "learn" / "your-own-consumer.md").read_text(encoding="utf-8")
STARTER = ROOT / "oneslot" / "starter"
LINES = [
    line for block in re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL) for line in block.splitlines()
]
# uv resolves and installs the same packages as pip, in a tenth of its time.
PREAMBLE = f'set -euo pipefail\npip() {{ "{Path(sys.executable).with_name("uv")}" pip "$@"; }}\n'
MOST_ASSET_BYTES = 3_000_000


@dataclass
class Ran:
    """What a shell did. `seconds`: CPU and real, for each line. `java`: the CPU seconds of Spark, apart from its command's."""

    status: int
    shown: str
    errors: str
    seconds: list[tuple[float, float]]
    java: float


def bash(lines: list[str], folder: Path) -> Ran:
    """Run lines in one shell."""
    script = PREAMBLE + "TIMEFORMAT='@ %U %S %R'\n" + "".join(f"time {{ {line}\n}}\n" for line in lines)
    ours = {"PYTHONPATH", "VIRTUAL_ENV", "ONESLOT_HOME", "ONESLOT_CONSUMER"}
    environment = {name: value for name, value in os.environ.items() if name not in ours}
    java: dict[int, float] = {}
    with subprocess.Popen(
        ["/bin/bash", "-c", script],
        cwd=folder,
        env={**environment, "REPOSITORY": str(ROOT), "NO_COLOR": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as shell:
        watcher = threading.Thread(target=watch_java, args=(shell, java))
        watcher.start()
        shown, errors = shell.communicate()
        watcher.join()
    times = [[float(each) for each in line.split()[1:]] for line in errors.splitlines() if line.startswith("@ ")]
    seconds = [(user + system, real) for user, system, real in times]
    return Ran(shell.returncode, shown, errors, seconds, sum(java.values()))


def watch_java(shell: subprocess.Popen[str], java: dict[int, float]) -> None:
    """Note the CPU seconds of each Java process below the shell, until the shell ends."""
    while shell.poll() is None:
        with suppress(OSError):  # a process ended in between
            for pid in descendants(shell.pid):
                if Path(f"/proc/{pid}/comm").read_text() == "java\n":
                    java[pid] = cpu_seconds(pid)
        time.sleep(0.2)


def cpu_seconds(pid: int) -> float:
    """Return the CPU seconds of a process and its ended children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def test_tutorial_shows_the_files_that_new_writes() -> None:
    (decision,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert (STARTER / "consumer" / "decision.py").read_text(encoding="utf-8").endswith(f'id."""\n\n{decision}')
    files = ("consumer/decision.py", "consumer/app.py", "stack.py", "laws.py")
    assert sum(len((STARTER / file).read_text(encoding="utf-8").splitlines()) for file in files) == 84


def test_tutorial_shows_the_shop() -> None:
    (shown,) = re.findall(r'^```python title="(.*?)"\n(.*?)^```', PAGE, re.MULTILINE | re.DOTALL)
    assert (ROOT / shown[0]).read_text(encoding="utf-8") == shown[1]


@pytest.mark.slow
@pytest.mark.embedded_aws
@pytest.mark.timeout(1500)
def test_tutorial_takes_a_message_once_on_the_wheel_alone(tmp_path: Path) -> None:
    """Print the seconds of each command: `pytest -s` shows where the time goes."""
    *lines, down = LINES
    assert down == "oneslot down"
    enter = [line for line in lines if line.startswith(("source ", "cd "))]
    try:
        done = bash(lines, tmp_path)
        assert done.status == 0, done.shown + done.errors
        supervisor = json.loads((tmp_path / "orders" / ".oneslot" / "state.json").read_text())["supervisor_pid"]
        stack = sum(cpu_seconds(pid) for pid in (supervisor, *descendants(supervisor)))
        (asset,) = (tmp_path / "orders" / ".oneslot" / "function").iterdir()
    finally:
        stopped = bash([*enter, down], tmp_path)
    assert "The local stack is stopped." in stopped.shown
    assert "6 passed" in done.shown
    assert re.search("taken, .*duplicate, ", done.shown, re.DOTALL)
    assert "Exactly once: the only request has exactly one answer" in done.shown
    assert re.search(r"Exactly once: .*301 requests", done.shown)
    (verdict,) = re.findall(r"^> (.*)$", PAGE, re.MULTILINE)
    assert verdict in done.shown
    assert {path.name for path in asset.iterdir()} - {"__pycache__"} == {"app.py", "decision.py", "oneslot"}
    assert sum(path.stat().st_size for path in asset.rglob("*.py")) < MOST_ASSET_BYTES
    for line, (cpu, real) in zip([*lines, *enter, down], [*done.seconds, *stopped.seconds], strict=True):
        print(f"{cpu:6.1f} s CPU {real:6.1f} s  {line}")  # noqa: T201 - shown with -s
    print(f"{stack:6.1f} s CPU in the local stack, {done.java:.1f} s CPU in Spark's Java")  # noqa: T201
