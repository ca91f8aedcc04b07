"""The command line on the embedded AWS: the real template, the real handler, and the real AWS CLI as a producer."""

import contextlib
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.behaviours.conftest import Terminal
from tests.behaviours.privacy import of_the_range, written

pytestmark = pytest.mark.embedded_aws


def test_printed_commands_book_a_message_from_the_aws_cli(terminal: Terminal) -> None:
    terminal.json("seed", "--slots", "200", "--practice-count", "2")
    commands = terminal.json("up")["commands"]
    environment = {
        **os.environ,
        "ONESLOT_HOME": str(terminal.home),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    answers = []
    for _ in range(2):  # a producer that is not sure repeats the message
        sent = subprocess.run(  # noqa: S602 - the line as it is pasted
            f"{commands['credentials']}\n{commands['send']}",
            shell=True,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        answers.append(json.loads(sent.stdout)["MessageId"])
    assert answers[0] != answers[1], "to SQS these are two messages"
    terminal.drain()
    inspected = terminal.json(*shlex.split(commands["inspect"])[1:])
    assert inspected["summary"].startswith("Booked: Z00001, slot 20")
    assert sorted(
        delivery["sqs_message_id"] for delivery in inspected["deliveries"] if delivery["outcome"] != "busy"
    ) == (sorted(answers))
    assert inspected["rows"]["slots"]["status"] == "busy"
    assert terminal.json("check")["counts"]["verdicts"] == {"booked": 1}


def test_smoke_passes_on_a_working_stack(terminal: Terminal) -> None:
    passed = terminal.json("smoke", "--timeout", "120")
    assert passed["passed"]
    assert len(passed["steps"]) == 2
    assert terminal.json("check")["counts"]["duplicates"] == 1


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_run_leaves_nothing_running(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "oneslot", "run", "--requests", "80", "--malformed", "0.1", "--json"],
        env={**os.environ, "ONESLOT_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=1500,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == ""
    document = json.loads(ended.stdout)
    counts = document["counts"]
    assert document["holds"]
    assert (counts["messages"], counts["lost"], counts["double_booked"]) == (96, 0, 0)
    assert counts["requests"] + counts["reused"] == 80
    assert counts["verdicts"]["quarantined"] + counts["reused"] == 8
    assert counts["reused"] == counts["dead_letters"].get("conflict", 0)
    assert sum(counts["dead_letters"].values()) == 8
    assert not (tmp_path / "state.json").exists()
    assert {"accepted.jsonl", "consumer.jsonl", "check.json"} <= {path.name for path in tmp_path.iterdir()}
    assert not of_the_range(ended.stdout), "no patient is in the output"
    assert [name for name, text in written(tmp_path) if of_the_range(text)] == [], "nor in any file"
    assert not [command for command in running_commands() if str(tmp_path) in command]


def running_commands() -> Iterator[str]:
    """Yield the command lines of all processes (where there is a /proc)."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has exited since
            yield path.read_text(errors="replace")
