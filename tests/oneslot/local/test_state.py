"""The state folder: what it holds, and whose process it names."""

import fcntl
import json
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from oneslot.errors import AlreadyRunning, StaleState
from oneslot.local.launcher import down
from oneslot.local.mapping.poller import Statistics, StatisticsCounter
from oneslot.local.state import load_state, prepare_home, read_state, read_statistics, start_ticks
from oneslot.runtime.surroundings import Surroundings
from tests.kits.moto_stack import STATE


def test_state_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    STATE.write(tmp_path)
    assert read_state(tmp_path) == STATE
    assert (tmp_path / "state.json").stat().st_mode & 0o077 == 0
    assert [path.name for path in tmp_path.iterdir()] == ["state.json"]
    assert STATE.connection.endpoint_url == STATE.endpoint_url


def test_read_state_returns_none_without_a_file(tmp_path: Path) -> None:
    assert read_state(tmp_path) is None
    assert read_state(tmp_path / "missing") is None
    assert read_statistics(tmp_path) is None


def test_read_state_rejects_the_state_of_a_dead_process(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        gone.wait()
    for stale in (replace(STATE, supervisor_pid=gone.pid), replace(STATE, supervisor_start=STATE.supervisor_start + 1)):
        stale.write(tmp_path)
        assert load_state(tmp_path) == stale
        with pytest.raises(StaleState):
            read_state(tmp_path)
        assert down(tmp_path) is False
        assert read_state(tmp_path) is None


def test_state_of_an_earlier_version_is_read_so_that_its_stack_can_be_stopped(tmp_path: Path) -> None:
    earlier = {name: value for name, value in asdict(STATE).items() if name not in ("stage", "context")}
    (tmp_path / "state.json").write_text(json.dumps(earlier))
    assert load_state(tmp_path) == STATE


def test_down_spares_a_process_without_the_folders_lock(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as bystander:
        ticks = start_ticks(bystander.pid)
        assert ticks is not None
        replace(STATE, supervisor_pid=bystander.pid, supervisor_start=ticks).write(tmp_path)
        assert down(tmp_path) is False
        assert bystander.poll() is None
        bystander.communicate(b"\n")


def test_down_is_refused_during_a_start(tmp_path: Path) -> None:
    """A start owns the folder before it writes a state."""
    with (tmp_path / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(AlreadyRunning):
            down(tmp_path)
    assert down(tmp_path) is False


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"endpoint_url": 1', "null"])
def test_down_removes_an_invalid_state_file(tmp_path: Path, text: str) -> None:
    (tmp_path / "state.json").write_text(text)
    with pytest.raises(StaleState):
        read_state(tmp_path)
    assert down(tmp_path) is False
    assert read_state(tmp_path) is None


def test_prepare_home_moves_the_last_stacks_files(tmp_path: Path) -> None:
    home = tmp_path / "home"
    for run in ("first", "second", "third"):
        prepare_home(home)
        assert not (home / "consumer.jsonl").exists()
        assert not (home / "accepted.jsonl").exists()
        (home / "consumer.jsonl").write_text(run)
        (home / "accepted.jsonl").write_text(run)
        (home / "state.json").write_text(run)
    assert home.stat().st_mode & 0o077 == 0
    assert (home / "previous" / "consumer.jsonl").read_text() == "second"
    assert (home / "previous" / "accepted.jsonl").read_text() == "second"


def test_statistics_ignore_unknown_keys() -> None:
    counter = StatisticsCounter(Surroundings())
    counter.add(records=3, in_flight=3)
    counter.add(deleted=2, in_flight=-3, last_error="KeyError")
    counter.add(deleted=1)
    now = counter.snapshot()
    assert now == Statistics(records=3, deleted=3, last_error="KeyError")
    assert Statistics.from_json({**json.loads(json.dumps(asdict(now))), "newer": 1}) == now
