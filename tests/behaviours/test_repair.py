"""Repairs on the embedded AWS: the handler quarantines, and an operator redrives, resumes and unlocks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.behaviours.conftest import Terminal
from tests.kits.consumer import booking
from tests.kits.local_mapping import wait_for

pytestmark = pytest.mark.embedded_aws

HIDDEN_SECONDS = 4
# The command line with a short visibility timeout, so that messages it holds when killed return soon.
DYING = f"""
from oneslot import cli
from oneslot.runtime.sqs import dead_letters
dead_letters.HIDDEN_SECONDS = {HIDDEN_SECONDS}
cli.main()
"""
ALWAYS = {"not_before": "2020-01-01T08:00:00Z", "not_after": "2100-01-01T08:00:00Z"}


def send(terminal: Terminal, folder: Path, bodies: list[dict[str, Any]]) -> None:
    """Send with `oneslot send`, which archives them, and wait until the queue is drained."""
    path = folder / "requests.ndjson"
    path.write_text("".join(json.dumps(body) + "\n" for body in bodies))
    terminal.json("send", "--file", str(path))
    terminal.drain()


def ends(counts: dict[str, Any]) -> Counter[str]:
    """Return the number of requests by their end, where `answered` is booked or on the waiting list."""
    found: Counter[str] = Counter()
    for verdict, count in counts["verdicts"].items():
        found["answered" if verdict in ("booked", "waitlist") else verdict] += count
    return found


@pytest.mark.slow
def test_redrive_resumes_after_a_kill(terminal: Terminal, tmp_path: Path) -> None:
    terminal.json("seed", "--slots", "100", "--practice-count", "2")
    send(terminal, tmp_path, [booking(f"m-{number}", practice="Z00003", **ALWAYS) for number in range(60)])
    terminal.json("seed", "--slots", "300", "--practice-count", "3")
    process = subprocess.Popen(
        [sys.executable, "-c", DYING, "dlq", "redrive", "--rate", "5", "--yes"],
        env={**os.environ, "ONESLOT_HOME": str(terminal.home)},
        stdout=subprocess.DEVNULL,
    )
    journal = terminal.home / "redrive.jsonl"
    try:
        wait_for(
            lambda: journal.exists() and journal.read_text().count('"deleted"') >= 2,
            seconds=180,
            what="it is on its way",
        )
    finally:
        process.kill()
        process.wait()
    assert "is unfinished" in terminal.run("dlq", "redrive", "--yes").output
    # Messages of the killed redrive are hidden for a while, and until they return there is more to resume.
    wait_for(
        lambda: terminal.run("dlq", "redrive", "--resume", "--yes").exit_code == 0, seconds=180, what="all is moved"
    )
    assert not journal.exists()
    terminal.drain()
    checked = terminal.json("check")
    assert checked["counts"]["dead_letters"] == {}
    assert ends(checked["counts"]) == {"answered": 60}
    assert (checked["holds"], checked["counts"]["double_booked"], checked["counts"]["lost"]) == (True, 0, 0)


def test_smoke_passes_on_a_working_stack(terminal: Terminal) -> None:
    passed = terminal.json("smoke", "--timeout", "120")
    assert passed["passed"]
    assert len(passed["steps"]) == 4
    assert terminal.json("check")["counts"]["duplicates"] == 1
