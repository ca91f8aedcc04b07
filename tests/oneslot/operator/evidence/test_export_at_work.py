"""`oneslot export` and `oneslot audit` while the consumer is at work note that the verdict may be wrong."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.kits.consumer import booking
from tests.kits.moto_stack import MotoStack, document, invoke

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
