"""Runs that broke a law once: none does today, and each does without its mend."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.simulation import counterexample
from lab.simulation.run import run
from lab.simulation.world.points import Instrumented
from oneslot.local.mapping.poller import Poller
from oneslot.operator.repair import redrive
from oneslot.operator.sending.sender import BatchSender
from oneslot.runtime.sqs import deletion
from oneslot.runtime.sqs.producer import Accepted, Outgoing, Producer, Refused
from oneslot.worker import pool, visibility, worker
from oneslot.worker.job import Job
from oneslot.worker.visibility import Visibility
from oneslot.worker.worker import Worker

FOLDER = Path(counterexample.__file__).with_name("regressions")
Patch = Callable[[pytest.MonkeyPatch], None]


def read_sender_fault_as_final(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give up an entry that SQS throttles, if SQS calls it the sender's fault."""
    for module in (deletion, visibility):
        monkeypatch.setattr(module, "is_final", lambda failed: bool(failed["SenderFault"]))


def count_from_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count the visibility of a received message from after the receive's answer."""

    def ensure_hidden(self: Any, jobs: Sequence[Job]) -> list[Job]:
        for job in jobs:
            job.visible_at = self._surroundings.steady() + self._settings.hidden_seconds
        return list(jobs)

    monkeypatch.setattr(Visibility, "ensure_hidden", ensure_hidden)


def ignore_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave a busy message to its visibility."""
    monkeypatch.setattr(pool, "RETRY_AFTER", "not an attribute")


def keep_claims(monkeypatch: pytest.MonkeyPatch) -> None:
    """Release a message and keep its claim."""
    monkeypatch.setattr(Worker, "_release_claims", lambda self, jobs: None)


def leave_the_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    """End without the answer to a poll that is under way."""
    monkeypatch.setattr(worker, "ANSWER_SECONDS", 0.0)


def count_from_the_offer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count the visibility of a batch from its offer."""
    offer = Poller._offer
    monkeypatch.setattr(
        Poller, "_offer", lambda self, batch: offer(self, replace(batch, since=self._surroundings.steady()))
    )


def wait_for_gone_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take each unseen letter of a redrive for hidden."""
    monkeypatch.setattr(redrive, "count_in_flight", lambda target: 1)


def share_the_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let two processes of one machine run one redrive."""
    monkeypatch.setattr(fcntl, "flock", lambda *_: None)


def extend_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drop a message that was received late if SQS throttles its first extension."""
    monkeypatch.setattr(visibility, "EXTENSIONS_BEFORE_WORK", 1)


def forget_first_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Report what a batch got accepted at its end alone, and not after an error."""
    send = BatchSender.send
    monkeypatch.setattr(BatchSender, "send", lambda self, messages: iter(list(send(self, messages))))


def merge_the_same_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give one result for a message that is in a call twice."""
    send = Producer.send

    def merged(self: Producer, messages: Iterable[Outgoing], **rest: Any) -> list[Accepted | Refused]:
        return send(self, list({id(message): message for message in messages}.values()), **rest)

    monkeypatch.setattr(Producer, "send", merged)


MENDS: dict[str, Patch] = {
    "killed-holder": ignore_the_wait,
    "killed-redrive": wait_for_gone_letters,
    "late-offer": count_from_the_offer,
    "own-poll": leave_the_poll,
    "same-message-twice": merge_the_same_message,
    "slow-receive": count_from_the_answer,
    "throttled-deletion": read_sender_fault_as_final,
    "throttled-extension": extend_once,
    "throttled-heartbeat": read_sender_fault_as_final,
    "two-resumes": share_the_journal,
    "unarchived": forget_first_answers,
    "unfinished-stop": keep_claims,
}


def laws_broken(name: str, modules: Instrumented) -> set[str]:
    scenario, plan = counterexample.from_json((FOLDER / f"{name}.json").read_text())
    return {breach.law for breach in run(scenario, plan, modules).breaches}


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.json")))
def test_regression_breaks_no_law(name: str, modules: Instrumented) -> None:
    assert laws_broken(name, modules) == set()


@pytest.mark.parametrize("name", MENDS)
def test_regression_breaks_its_law_without_its_mend(
    name: str, modules: Instrumented, monkeypatch: pytest.MonkeyPatch
) -> None:
    MENDS[name](monkeypatch)

    assert laws_broken(name, modules)
