"""`run` judges by the evidence, and stops what it started."""

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from demo.commands import run as run_module
from demo.plan import Plan
from oneslot.local.aws.connection import Connection
from oneslot.operator.target import Target
from tests.kits.moto_stack import ENVIRONMENT, Functions, MotoStack, invoke


@pytest.fixture
def stages(moto_stack: MotoStack, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Replace the embedded AWS by moto, and Spark by a stub. Return the events of the run."""
    happened: list[str] = []

    @contextmanager
    def local_stack(home: Path, **_: Any) -> Iterator[Any]:
        happened.append("started")
        try:
            yield SimpleNamespace(state=moto_stack.target.local)
        finally:
            happened.append("stopped")

    def start_and_seed(_stack: Any, _target: Target, plan: Plan, _terminal: Any) -> None:
        moto_stack.seed(plan)

    def audit_history(history: Path, _answer: Path) -> Any:
        happened.append("audited")
        assert any(history.iterdir())
        return SimpleNamespace(sound=True, sentence="None is lost.", document={"sound": True})

    monkeypatch.setattr(run_module, "local_stack", local_stack)
    monkeypatch.setattr(run_module, "audit_history", audit_history)
    monkeypatch.setattr(run_module, "start_and_seed", start_and_seed)
    monkeypatch.setattr(run_module, "follow", lambda *_, **__: moto_stack.consume())
    return happened


ARGUMENTS = ("run", "--requests", "20", "--malformed", "0.1")
FEW = ("run", "--requests", "3")


def test_run_succeeds_and_keeps_its_report_when_sound(moto_stack: MotoStack, stages: list[str]) -> None:
    before = signal.getsignal(signal.SIGTERM)
    result = invoke(*ARGUMENTS, "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["holds"] is True
    assert (document["messages_accepted"], document["counts"]["messages"]) == (24, 24)
    assert sum(document["counts"]["dead_letters"].values()) == 2
    assert list(document["seconds"]) == ["deploy", "seed", "send", "drain", "check", "export", "stop", "audit"]
    assert result.stderr == ""
    assert document["audit"]["sound"] is True
    assert stages == ["started", "stopped", "audited"]
    assert json.loads(moto_stack.target.report.read_text())["holds"] is True
    assert signal.getsignal(signal.SIGTERM) == before


def test_run_fails_when_a_request_is_lost(
    moto_stack: MotoStack, stages: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose_one(*_: Any, **__: Any) -> None:
        moto_stack.consume()
        row = next(row for row in moto_stack.bench.rows("ledger") if row["status"] == "COMPLETE")
        moto_stack.bench.dynamodb.delete_item(TableName="ledger", Key={"message_id": {"S": row["message_id"]}})

    # The bench's clock stands still: by the real one, the row may have been due to expire.
    forever = Functions({**ENVIRONMENT, "ONESLOT_LEDGER_RETENTION_SECONDS": "forever"})
    monkeypatch.setattr(Connection, "functions", lambda _: forever)
    monkeypatch.setattr(run_module, "follow", lose_one)
    result = invoke(*FEW)
    assert result.exit_code == 1
    assert "Broken: " in result.stdout
    assert "I2" in result.stdout
    assert stages == ["started", "stopped", "audited"]


def test_run_continues_when_its_report_is_unwritable(moto_stack: MotoStack, stages: list[str]) -> None:
    moto_stack.target.report.mkdir()
    result = invoke(*FEW)
    assert (result.exit_code, "check.json cannot be written" in result.stdout) == (1, True)
    assert "Audit: None is lost." in result.stdout


def test_run_ends_with_what_was_lost_and_booked_twice(stages: list[str]) -> None:
    *_, last, report = invoke(*FEW, "--no-audit").stdout.splitlines()
    assert last.startswith("0 lost · 0 booked twice · 3 requests in ")
    assert report.startswith("Report: ")
    assert report.endswith("check.json")
    assert stages == ["started", "stopped"]


def test_run_fails_when_the_audit_alone_is_unsound_and_names_the_difference(
    stages: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    document = {"verdicts": {"lost": 0, "stuck": 3}}
    audited = SimpleNamespace(sound=False, sentence="Three requests are stuck.", document=document)
    monkeypatch.setattr(run_module, "audit_history", lambda *_: audited)
    result = invoke(*FEW)
    assert result.exit_code == 1
    assert "Audit: Three requests are stuck." in result.stdout
    assert "Check and audit differ: stuck 0 and 3." in result.stdout
    assert "lost 0 and 0" not in result.stdout


def test_run_stops_the_stack_when_it_fails(
    moto_stack: MotoStack, stages: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(run_module, "follow", fail)
    result = invoke(*FEW)
    assert result.exit_code == 130
    assert stages == ["started", "stopped"]
