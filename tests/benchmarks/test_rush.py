"""The rush's own watching, with an account and consumers that are made up: who is killed when, and what ends it."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks.rush import __main__ as rush
from benchmarks.rush.__main__ import CONSUMERS, Load, Rush
from benchmarks.rush.load import demands, requests

BODIES = requests(demands(None, 5), 50)
SOON = 1e9
"""Of the monotonic clock: later than any test ends."""


class Account:
    """As `EmbeddedAws` with one account: a queue that is empty after some looks, and consumers that do everything at once."""

    pid = os.getpid()

    def __init__(self, folder: Path, looks: int = 3) -> None:
        self.sent: list[str] = []
        self.send: Callable[[Sequence[Any]], None] = lambda entries: None
        self._folder, self._looks = folder, looks

    def connection(self, account: str) -> Any:
        return self

    def dynamodb(self) -> Any:
        return self

    def sqs(self) -> Any:
        return self

    def send_message_batch(self, *, QueueUrl: str, Entries: Sequence[dict[str, str]]) -> None:  # noqa: N803 - boto3's
        self.send(Entries)
        self.sent += [entry["MessageBody"] for entry in Entries]
        with (self._folder / "log-0").open("a") as log:
            log.writelines("m 1 2\n" for _ in Entries)

    def get_queue_attributes(self, **_: Any) -> dict[str, Any]:
        self._looks -= 1
        left = str(max(0, self._looks))
        return {"Attributes": {"ApproximateNumberOfMessages": left, "ApproximateNumberOfMessagesNotVisible": "0"}}


class Consumer:
    """As a process that runs until it is killed, or that has ended."""

    pid = os.getpid()

    def __init__(self, returncode: int | None = None) -> None:
        self.returncode = returncode

    def poll(self) -> int | None:
        return self.returncode

    def send_signal(self, number: int) -> None:
        self.returncode = -number

    def wait(self) -> int | None:
        return self.returncode


@pytest.fixture
def account(tmp_path: Path) -> Account:
    return Account(tmp_path)


def watch(account: Account, folder: Path, consumers: list[Any], kill_every: float = 0) -> rush.Measured:
    one: Any = Rush(account, folder, Load(BODIES, [], kill_every))  # type: ignore[arg-type]  # made up
    one._queue, one._consumer = "queue", lambda *_: Consumer()
    measured: rush.Measured = one._watch(
        "ours (default)", consumers, [folder / f"log-{n}" for n in range(CONSUMERS)], SOON
    )
    return measured


def test_with_kills_the_first_consumer_dies_however_quick_the_handler_is(account: Account, tmp_path: Path) -> None:
    victims: list[Any] = [Consumer() for _ in range(CONSUMERS)]
    measured = watch(account, tmp_path, list(victims), kill_every=3_600)
    assert (measured.killed, measured.drained) == (1, True)
    assert [victim.returncode is not None for victim in victims] == [True, False, False, False]
    assert len(account.sent) == len(BODIES)


def test_without_kills_nobody_dies(account: Account, tmp_path: Path) -> None:
    assert watch(account, tmp_path, [Consumer() for _ in range(CONSUMERS)]).killed == 0


def test_what_could_not_be_sent_is_an_error_and_not_a_rush_that_is_over(account: Account, tmp_path: Path) -> None:
    def refuse(entries: Sequence[Any]) -> None:
        if account.sent:
            raise ConnectionError("the account has gone")

    account.send = refuse
    with pytest.raises(ConnectionError, match="has gone"):
        watch(account, tmp_path, [Consumer() for _ in range(CONSUMERS)])


def test_nothing_is_sent_any_more_when_a_consumer_has_ended(account: Account, tmp_path: Path) -> None:
    endless = [BODIES[0]] * 1_000_000
    one: Any = Rush(account, tmp_path, Load(endless, [], 0))  # type: ignore[arg-type]  # made up
    one._queue = "queue"
    (tmp_path / "log-1.out").write_text("no such table")
    consumers: list[Any] = [Consumer(), Consumer(1), Consumer(), Consumer()]
    logs = [tmp_path / f"log-{number}" for number in range(CONSUMERS)]
    before = set(threading.enumerate())
    with pytest.raises(RuntimeError, match="a consumer ended with status 1: no such table"):
        one._watch("ours (default)", consumers, logs, SOON)
    assert set(threading.enumerate()) == before, "nobody sends any more"
    assert len(account.sent) < len(endless)


def test_each_handler_has_an_embedded_aws_that_nobody_used(monkeypatch: pytest.MonkeyPatch) -> None:
    class Fresh(Account):
        used = False

        def __enter__(self) -> Fresh:
            return self

        def __exit__(self, *_: object) -> None:
            pass

    def use(self: Any, *_: Any) -> Any:
        assert not self._aws.used
        self._aws.used = True

    monkeypatch.setattr(rush, "EmbeddedAws", Fresh)
    monkeypatch.setattr(Rush, "prepare", use)
    monkeypatch.setattr(Rush, "run", lambda self, handler, end: handler)
    done: list[Any] = list(rush.run(Load(BODIES, [], 0), list(rush.HANDLERS), 60.0))
    assert done == list(rush.HANDLERS)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--requests", "0"], "--requests must be more than 0"),
        (["--practices", "-1"], "--practices must be more than 0"),
        (["--kill-every", "-1"], "--kill-every must be"),
        (["--demand", "nowhere.csv"], "--demand: nowhere.csv cannot be read"),
        (["--handlers", "nobody"], "none of ours (default)"),
    ],
)
def test_bad_arguments_are_told_in_a_sentence(
    arguments: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["rush", *arguments])
    with pytest.raises(SystemExit) as ended:
        rush.main()
    assert ended.value.code == 2
    assert said in capsys.readouterr().err
