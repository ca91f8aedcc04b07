"""Repairs on the embedded AWS: the handler quarantines, and an operator redrives, resumes and unlocks."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from oneslot.local.aws.cloud_assembly import SynthesisedStack
from oneslot.local.aws.connection import Connection
from tests.behaviours.conftest import Terminal, running_stack
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
def test_redrive_moves_messages_once_their_practice_exists(terminal: Terminal, tmp_path: Path) -> None:
    terminal.json("seed", "--slots", "100", "--practice-count", "2")
    early = [booking(f"early-{number}", practice="Z00003", **ALWAYS) for number in range(30)]
    broken = [booking(f"broken-{number}", practice="Z00001", nhs_number="9990000019") for number in range(5)]
    send(terminal, tmp_path, early + broken)
    listed = terminal.json("dlq", "list")
    assert listed["reasons"] == {"invalid_field": 5, "unknown_practice": 30}
    assert listed["outlooks"] == {"fails_again": 35}
    assert terminal.json("dlq", "redrive", "--yes")["moved"] == 0, "it would only come back"
    terminal.json("seed", "--slots", "150", "--practice-count", "3")
    assert terminal.json("dlq", "redrive")["outlooks"] == {"taken_over": 30}
    repair_list = tmp_path / "redrive-list.jsonl"
    repair_list.write_text("".join(f'{{"message_id":"early-{number}","action":"redrive"}}\n' for number in range(3)))
    assert terminal.json("dlq", "redrive", "--file", str(repair_list), "--yes")["moved"] == 3
    assert terminal.json("dlq", "redrive", "--yes")["moved"] == 27
    terminal.drain()
    checked = terminal.json("check")
    assert checked["counts"]["dead_letters"] == {"invalid_field": 5}
    assert ends(checked["counts"]) == {"answered": 30, "quarantined": 5}
    # An operator drops what can never succeed; then it does not count as lost.
    assert terminal.json("dlq", "drop", "--all", "--accept-loss", "--yes")["dropped"] == 5
    counts = terminal.json("check")["counts"]
    assert (counts["dead_letters"], counts["lost"]) == ({}, 0)
    left_behind = "".join(path.read_text() for path in tmp_path.rglob("*.jsonl"))
    assert not re.search(r"\b999[0-9]{7}\b", left_behind)


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


@pytest.mark.slow
def test_paused_consumer_takes_no_messages(account: Connection, synthesised: SynthesisedStack, tmp_path: Path) -> None:
    with running_stack(account, synthesised, tmp_path) as (poller, terminal):
        terminal.json("seed", "--slots", "100", "--practice-count", "1")
        target = terminal.target
        assert terminal.json("pause", "--reason", "a test", "--yes")["paused"]
        poller.follow()  # as `local_stack` does every second

        target.sqs.send_message(
            QueueUrl=target.outputs.queue_url, MessageBody=json.dumps(booking("m-1", practice="Z00001", **ALWAYS))
        )
        time.sleep(1)

        waiting = terminal.json("status")
        assert (waiting["queue"]["waiting"], waiting["queue"]["in_flight"]) == (1, 0)
        assert (waiting["ledger"]["complete"], waiting["mapping"]["reason"]) == (0, "a test")
        assert not terminal.json("resume", "--yes")["paused"]
        poller.follow()
        terminal.drain()
        assert terminal.json("check")["counts"]["verdicts"] == {"booked": 1}


def test_smoke_passes_on_a_working_stack(terminal: Terminal) -> None:
    passed = terminal.json("smoke", "--timeout", "120")
    assert passed["passed"]
    assert len(passed["steps"]) == 4
    assert terminal.json("check")["counts"]["duplicates"] == 1
