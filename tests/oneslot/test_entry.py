"""What a command says before it has begun, when nobody hears it, and of numbers that are none."""

from __future__ import annotations

import errno
import json
import os
import runpy
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import boto3
import pytest
from botocore.exceptions import NoRegionError
from click.testing import Result

from oneslot.sentences import sentence


class Interrupting:
    """An import that somebody interrupts."""

    def find_spec(self, name: str, *_: object) -> None:
        if name == "oneslot.cli":
            raise KeyboardInterrupt


@pytest.mark.parametrize("as_json", [False, True])
def test_an_interrupt_before_everything_is_loaded_is_a_sentence(
    as_json: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "oneslot.cli", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Interrupting(), *sys.meta_path])
    monkeypatch.setattr(sys, "argv", ["oneslot", "status", *(["--json"] if as_json else [])])
    with pytest.raises(SystemExit) as end:
        runpy.run_module("oneslot", run_name="__main__")
    said = capsys.readouterr()
    assert (end.value.code, said.err) == (130, "Error: Interrupted.\n")
    assert said.out == ('{\n  "error": "Interrupted."\n}\n' if as_json else "")


class Missing:
    """An installation without what the command line needs."""

    def find_spec(self, name: str, *_: object) -> None:
        if name == "click":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


@pytest.mark.parametrize("as_json", [False, True])
def test_a_command_without_what_it_needs_says_where_it_is(
    as_json: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in sys.modules if name in ("oneslot.cli", "click")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [Missing(), *sys.meta_path])
    monkeypatch.setattr(sys, "argv", ["oneslot", "status", *(["--json"] if as_json else [])])
    with pytest.raises(SystemExit) as end:
        runpy.run_module("oneslot", run_name="__main__")
    said = capsys.readouterr()
    told = (
        "The command needs click, which is not installed here. In the repository: make, then source .venv/bin/activate."
    )
    assert (end.value.code, said.err) == (1, f"Error: {told}\n")
    assert (json.loads(said.out) if as_json else said.out) == ({"error": told} if as_json else "")


def run(*arguments: str, to: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A command whose standard output goes to this file."""
    with Path(to).open("w") as out:
        return subprocess.run(
            [sys.executable, "-m", "oneslot", *arguments],
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env={**os.environ, "ONESLOT_HOME": str(folder)},
        )


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--help"], "cannot be written: No space left on device."),
        (["down", "--json"], "cannot be written: No space left on device."),
        (["status", "--json"], "No local stack is running."),
    ],
)
def test_an_output_that_takes_no_more_is_a_sentence(arguments: list[str], told: str, tmp_path: Path) -> None:
    ended = run(*arguments, to="/dev/full", folder=tmp_path)
    assert ended.returncode == 1
    assert told in ended.stderr
    assert "Traceback" not in ended.stderr
    assert "Unexpected" not in ended.stderr


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError(errno.EMFILE, "Too many open files"), "Too many open files. See what this machine has and allows"),
        (BlockingIOError(errno.EAGAIN, "Try again"), "Try again. See what this machine has and allows"),
        (RuntimeError("can't start new thread"), "no more threads. See what this machine has and allows"),
        (MemoryError(), "no memory left. See what this machine has and allows"),
        (socket.gaierror(-2, "Name or service not known"), "no address for a name that is needed here, localhost"),
    ],
)
def test_what_the_machine_lacks_is_told_and_is_no_fault_of_the_output(error: Exception, told: str) -> None:
    assert told in sentence(error)
    assert "cannot be written" not in sentence(error)
    assert "fault in Oneslot" not in sentence(error)


def test_a_reader_that_has_gone_gets_the_status_that_shells_give() -> None:
    """And not 1, which is the verdict of a check that found something."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as out:
        ended = subprocess.run(
            [sys.executable, "-m", "oneslot", "--help"], stdout=out, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (ended.returncode, ended.stderr) == (141, "")


@pytest.mark.parametrize("number", ["nan", "inf"])
@pytest.mark.parametrize(
    "arguments",
    [
        ["watch", "--interval"],
        ["watch", "--timeout"],
        ["send", "--rate"],
        ["send", "--duplicates"],
        ["dlq", "redrive", "--rate"],
        ["smoke", "--timeout"],
        ["backfill", __file__, "--rate"],
    ],
)
def test_a_number_that_is_none_is_a_usage_error(
    nothing_runs: Callable[..., Result], arguments: list[str], number: str
) -> None:
    result = nothing_runs(*arguments, number, "--json")
    assert (result.exit_code, "Unexpected" in result.output) == (2, False), result.output
    assert number in json.loads(result.stdout)["error"]


def test_the_region_that_is_missing_is_asked_for_by_the_name_that_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    (name,) = (word.strip(",.") for word in sentence(NoRegionError()).split() if word.startswith("AWS_"))
    for known in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(known, raising=False)
    monkeypatch.setenv(name, "eu-north-1")
    assert boto3.session.Session().region_name == "eu-north-1"


@pytest.mark.parametrize(("closed", "told"), [(">&-", ""), ("2>&-", "No local stack was running.\n"), (">&- 2>&-", "")])
def test_a_stream_that_is_closed_is_nobodys(closed: str, told: str, tmp_path: Path) -> None:
    """As a daemon's are: Python then has None in its place."""
    command = subprocess.run(
        ["/bin/sh", "-c", f'"$0" -m oneslot down {closed}', sys.executable],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "ONESLOT_HOME": str(tmp_path)},
    )
    assert (command.returncode, command.stdout, command.stderr) == (0, told, "")
