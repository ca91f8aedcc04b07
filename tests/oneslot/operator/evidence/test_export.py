"""`oneslot export`: a folder with the name of a history is complete, even after an interrupt."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from botocore.exceptions import NoRegionError

from oneslot.explanations import explain
from oneslot.operator.evidence.export import export_history, whole_histories
from tests.kits.consumer import booking, record, service_error
from tests.kits.moto_stack import MotoStack, document, invoke


def stopped(*_: object) -> None:
    raise KeyboardInterrupt


def consumed(stack: MotoStack) -> MotoStack:
    stack.bench.deliver(record(booking("m-1")))
    stack.write_log()
    return stack


def test_export_leaves_nothing_when_interrupted(
    moto_stack: MotoStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tables are written by then; alone they would show that nothing was accepted or delivered."""
    consumed(moto_stack)
    folder = tmp_path / "exports" / "mine"
    monkeypatch.setattr("oneslot.operator.evidence.export.read_deliveries", stopped)
    assert invoke("export", "--output", str(folder)).exit_code == 130
    assert list(folder.parent.iterdir()) == []


@pytest.mark.parametrize("place", ["a file/answer", "there"])
def test_audit_is_not_begun_when_its_output_has_no_place(
    moto_stack: MotoStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """It may take hours, and 1 would say that something does not hold."""
    (tmp_path / "a file").touch()
    (tmp_path / "there").mkdir()
    monkeypatch.setattr("oneslot.operator.commands.export.export_history", stopped)
    monkeypatch.setattr("oneslot.operator.commands.audit.audit_history", stopped)
    for history in ([], ["--history", str(tmp_path)]):
        reported = document(invoke("audit", "--output", str(tmp_path / place), *history, "--json"), 2)["error"]
        assert str(tmp_path / place).startswith(reported.split(" cannot be used")[0].split(" exists already")[0])


@pytest.mark.slow
def test_audit_names_a_memory_that_spark_rejects(moto_stack: MotoStack, tmp_path: Path) -> None:
    """In a process of its own: a session that could not be opened would stay with the tests after this one."""
    folder = tmp_path / "history"
    export_history(consumed(moto_stack).target, folder)
    command = [sys.executable, "-m", "oneslot", "audit", "--history", str(folder), "--memory", "100m", "--json"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 2, ended.stdout
    assert "must be at least" in json.loads(ended.stdout)["error"]


def test_audit_is_offered_no_history_of_a_killed_export(
    moto_stack: MotoStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    histories = tmp_path / "history"
    export_history(consumed(moto_stack).target, histories / "20260101T000000")
    seen: list[Path] = []

    def look(*_: object) -> None:
        seen.extend(histories.iterdir())
        stopped()

    with monkeypatch.context() as patched:
        patched.setattr("oneslot.operator.evidence.export.read_deliveries", look)
        with pytest.raises(KeyboardInterrupt):
            export_history(moto_stack.target, histories / "20260102T000000")
    (unfinished,) = [path for path in seen if path.name != "20260101T000000"]
    unfinished.mkdir()  # as after SIGKILL
    assert whole_histories(histories) == [histories / "20260101T000000"]
    (tmp_path / "state.json").unlink()
    reported = document(invoke("audit", "--json"), 2)["error"]
    assert str(histories / "20260101T000000") in reported


@pytest.mark.parametrize(
    "error", [NoRegionError(), service_error("AccessDenied", "Scan"), OSError(28, "No space left on device")]
)
def test_audit_exits_with_2_when_it_reaches_no_verdict(
    moto_stack: MotoStack, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Exit status 1 means a broken invariant, for which an operator would stop the consumer."""

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("oneslot.operator.commands.export.export_history", fail)
    assert document(invoke("audit", "--json"), 2)["error"] == str(explain(error))
