"""`oneslot seed` and `oneslot send`."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError
from click.testing import CliRunner, Result

from demo.plan import Plan
from oneslot.errors import OneslotError
from oneslot.operator.cli import main
from tests.kits.consumer import booking
from tests.kits.moto_stack import PLAN, MotoStack, document, invoke

Invoke = Callable[..., Result]


@pytest.mark.parametrize(
    ("end", "told", "exit_code"),
    [
        (KeyboardInterrupt(), "Interrupted.", 130),
        (OneslotError("The queue is full."), "The queue is full.", 1),
        (EndpointConnectionError(endpoint_url="there"), "Cannot reach there.", 1),
    ],
)
@pytest.mark.parametrize("as_json", [False, True])
def test_send_counts_accepted_messages_when_it_ends_early(
    moto_stack: MotoStack,
    monkeypatch: pytest.MonkeyPatch,
    *,
    end: BaseException,
    told: str,
    exit_code: int,
    as_json: bool,
) -> None:
    """The count includes a batch in flight; the seed sends the same requests again."""
    moto_stack.seed(PLAN)
    batches = iter((None, None, end))

    def wait_until(*_: Any) -> None:
        if (error := next(batches)) is not None:
            raise error

    monkeypatch.setattr("oneslot.operator.sending.sender.Timetable.wait_until", wait_until)
    ended = invoke("send", "--count", "40", "--seed", "7", *(["--json"] if as_json else []))
    said = document(ended, exit_code)["error"] if as_json else ended.stderr
    assert ended.exit_code == exit_code
    assert told in said
    assert "The queue accepted 20 of 48 messages (--seed 7 sends the same again)." in said
    assert document(invoke("status", "--json"))["queue"]["waiting"] == 20


def test_seed_opens_slots_at_the_practices_that_are_named(
    moto_stack: MotoStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeded: list[Plan] = []

    def seed_plan(_: Any, plan: Plan, __: Any) -> int:
        seeded.append(plan)
        return plan.slots

    monkeypatch.setattr("demo.commands.seed.seed_plan", seed_plan)
    result = invoke("seed", "--practice", "A81002", "--practice", "A81001", "--slots", "6")
    assert "6 slots at 2 practices" in result.stdout
    assert list(seeded[0].practices) == ["A81001", "A81002"]


@pytest.mark.parametrize("dash", [True, False])
def test_send_reads_a_pipe_once(moto_stack: MotoStack, tmp_path: Path, dash: bool) -> None:
    line = json.dumps(booking("piped-1")) + "\n"
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    if not dash:
        Thread(target=pipe.write_text, args=(line,), daemon=True).start()
    result = CliRunner().invoke(main, ["send", "--file", "-" if dash else str(pipe)], input=line)
    assert "1 request in 1 message accepted" in result.stdout
    assert "piped-1" in moto_stack.target.archive.read_text()
