"""The rush: its load, its run with a fake account and fake consumers, and its arguments."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from lab.benchmarks.rush import __main__ as rush
from lab.benchmarks.rush.load import DUPLICATES, demands, requests, slots
from lab.benchmarks.rush.rush import CONSUMERS, HANDLERS, LineCount, Load, Measured, Rush
from tests.lab.benchmarks.conftest import Refuse

BODIES = requests(demands(None, 5), 50)
SOON = 1e9
"""A time of the monotonic clock after the end of every test."""


class Account:
    """A fake `EmbeddedAws`: its queue is empty after `looks` counts, and each message sent is done at once."""

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
    """A fake process, which runs until it is killed unless it has a return code."""

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


def watch(account: Account, folder: Path, consumers: list[Any], kill_every: float = 0) -> Measured:
    one: Any = Rush(account, folder, Load(BODIES, kill_every))  # type: ignore[arg-type]  # a fake
    one._queue, one._consumer = "queue", lambda *_: Consumer()
    measured: Measured = one._watch("ours (default)", consumers, [folder / f"log-{n}" for n in range(CONSUMERS)], SOON)
    return measured


def test_rush_kills_one_consumer_when_the_handler_is_quick(account: Account, tmp_path: Path) -> None:
    victims: list[Any] = [Consumer() for _ in range(CONSUMERS)]
    measured = watch(account, tmp_path, list(victims), kill_every=3_600)
    assert (measured.killed, measured.drained) == (1, True)
    assert [victim.returncode is not None for victim in victims] == [True, False, False, False]
    assert len(account.sent) == len(BODIES)


def test_rush_kills_no_consumer_by_default(tmp_path: Path) -> None:
    assert watch(Account(tmp_path, looks=1), tmp_path, [Consumer() for _ in range(CONSUMERS)]).killed == 0


def test_rush_raises_when_sending_fails(account: Account, tmp_path: Path) -> None:
    def refuse(entries: Sequence[Any]) -> None:
        if account.sent:
            raise ConnectionError("the account has gone")

    account.send = refuse
    with pytest.raises(ConnectionError, match="has gone"):
        watch(account, tmp_path, [Consumer() for _ in range(CONSUMERS)])


def test_rush_stops_sending_when_a_consumer_has_ended(account: Account, tmp_path: Path) -> None:
    endless = [BODIES[0]] * 1_000_000
    one: Any = Rush(account, tmp_path, Load(endless, 0))  # type: ignore[arg-type]  # a fake
    one._queue = "queue"
    (tmp_path / "log-1.out").write_text("no such table")
    consumers: list[Any] = [Consumer(), Consumer(1), Consumer(), Consumer()]
    logs = [tmp_path / f"log-{number}" for number in range(CONSUMERS)]
    before = set(threading.enumerate())
    with pytest.raises(RuntimeError, match="a consumer ended with status 1: no such table"):
        one._watch("ours (default)", consumers, logs, SOON)
    assert set(threading.enumerate()) == before
    assert len(account.sent) < len(endless)


def test_each_handler_gets_a_new_embedded_aws(monkeypatch: pytest.MonkeyPatch) -> None:
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
    done: list[Any] = list(rush.run(Load(BODIES, 0), list(HANDLERS), 60.0))
    assert done == list(HANDLERS)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--requests", "0"], "--requests must be above 0"),
        (["--practices", "-1"], "--practices must be above 0"),
        (["--kill-every", "-1"], "--kill-every must be 0 or more"),
        (["--demand", "nowhere.csv"], "--demand: nowhere.csv cannot be read"),
        (["--handlers", "unknown"], "matches none of ours (default)"),
    ],
)
def test_rush_rejects_bad_arguments(arguments: list[str], said: str, refuse: Refuse) -> None:
    assert said in refuse(rush.main, arguments)


def test_load_has_thirty_percent_of_the_requests_twice() -> None:
    copies = Counter(body["message_id"] for body in requests(demands(None, 20), 1_000))
    assert Counter(copies.values()) == {1: round(1_000 * (1 - DUPLICATES)), 2: round(1_000 * DUPLICATES)}


def test_load_has_a_slot_for_each_request() -> None:
    bodies = requests(demands(None, 20), 1_000)
    different = {body["message_id"]: body for body in bodies}.values()
    made = list(slots(bodies))
    assert Counter((slot["practice"], slot["delivery_channel"]) for slot in made) == Counter(
        (body["practice"], body["delivery_channel"]) for body in different
    )
    assert len({(slot["practice"], slot["slot_id"]) for slot in made}) == len(made)
    assert all(bodies[0]["not_before"] <= slot["start"] < bodies[0]["not_after"] for slot in made)


def test_line_count_reads_a_growing_file(tmp_path: Path) -> None:
    count = LineCount(tmp_path / "log")
    assert count.read() == 0
    (tmp_path / "log").write_text("a\nb\nhalf")
    assert count.read() == 2
    with (tmp_path / "log").open("a") as file:
        file.write(" a line\nc\n")
    assert count.read() == 4
