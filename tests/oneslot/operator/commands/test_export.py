"""`oneslot export` and `oneslot audit`: complete folders, refusals before the work, and notes while the consumer works."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import NoRegionError
from click.testing import CliRunner

from oneslot.errors import HistoryRefused
from oneslot.operator.commands import audit
from oneslot.operator.commands.export import export_history, whole_histories
from oneslot.operator.explanations import explain
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
    monkeypatch.setattr("oneslot.operator.commands.export.read_deliveries", stopped)
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
        patched.setattr("oneslot.operator.commands.export.read_deliveries", look)
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


TOLD = "The queue held 1 message during the export"


@pytest.fixture
def at_work(moto_stack: MotoStack) -> MotoStack:
    """A stack whose queue holds a message."""
    queue_url = moto_stack.bench.queue_url
    moto_stack.bench.sqs.send_message(QueueUrl=queue_url, MessageBody=json.dumps(booking("m-1")))
    moto_stack.write_log()
    return moto_stack


def test_audit_notes_that_the_queue_held_messages(at_work: MotoStack, monkeypatch: pytest.MonkeyPatch) -> None:
    def audited(_history: Path, answer: Path, *_: Any, **_named: Any) -> Any:
        for name in ("redrive", "look-at"):
            path = answer / "repair" / f"{name}.jsonl"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        said = {"verdicts": {}, "violations": {}, "notes": ["The audit's own."]}
        return SimpleNamespace(sound=False, sentence="Invariants that do not hold: I4 (3).", document=said)

    monkeypatch.setattr("oneslot.operator.commands.audit.refuse_without_exports", lambda _: None)
    monkeypatch.setattr("oneslot.operator.commands.audit.audit_history", audited)
    first, second = document(invoke("audit", "--json"), exit_code=1)["notes"]
    assert (first.startswith(TOLD), second) == (True, "The audit's own.")
    shown = invoke("audit", "--output", str(at_work.home / "second"), "--history", str(at_work.home)).stdout
    assert ("Note: The audit's own." in shown, TOLD in shown) == (True, False)


def test_audit_refuses_a_folder_without_exports_before_spark_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def started(*_: object) -> None:
        raise AssertionError("Spark started")

    monkeypatch.setattr(audit, "open_spark", started)
    (tmp_path / "ledger" / "AWSDynamoDB").mkdir(parents=True)
    answer = CliRunner().invoke(audit.audit, ["--history", str(tmp_path), "--output", str(tmp_path / "answer")])
    assert isinstance(answer.exception, HistoryRefused)
    assert str(answer.exception) == (
        f"{tmp_path}/slots holds no export: AWSDynamoDB/<export id> is missing. Export slots."
    )
