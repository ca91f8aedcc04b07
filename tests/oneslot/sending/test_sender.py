"""Sending: every entry's answer is read, what was not accepted goes again, and the archive knows what was accepted."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from oneslot.errors import OneslotError
from oneslot.runtime.sqs.producer import THROTTLED
from oneslot.sending.archive import Archive, read_archive
from oneslot.sending.messages import Archived, Message
from oneslot.sending.pacing import MONDAY, Pacing
from oneslot.sending.sender import ATTEMPTS, BATCH_BYTES, BatchSender, Sent, batches, send_all

Fate = Callable[[int], str]
"""The number of an entry, counted over all calls → `ok`, `failed`, `sender fault`, `vanished`, or a code of THROTTLED."""


class Queue:
    """A queue that accepts entries as it is told to."""

    def __init__(self, fate: Fate = lambda _: "ok") -> None:
        self.accepted: list[dict[str, Any]] = []
        self.calls: list[int] = []
        self._fate = fate
        self._entries = 0

    def send_message_batch(self, *, QueueUrl: str, Entries: list[dict[str, Any]]) -> dict[str, Any]:  # noqa: N803
        assert QueueUrl == "the queue"
        self.calls.append(len(Entries))
        answer: dict[str, Any] = {}
        for entry in Entries:
            self._entries += 1
            fate = self._fate(self._entries)
            if fate == "ok":
                self.accepted.append(entry)
                successful = {"Id": entry["Id"], "MessageId": f"sqs-{len(self.accepted)}"}
                answer.setdefault("Successful", []).append(successful)
            elif fate != "vanished":
                blamed = fate == "sender fault" or fate in THROTTLED
                failed = {"Id": entry["Id"], "Code": fate.replace(" ", "-"), "SenderFault": blamed}
                answer.setdefault("Failed", []).append(failed)
        return answer


def messages(count: int, copies: int = 1) -> Iterator[Message]:
    """So many requests, each with all its copies."""
    for number in range(count):
        request = Archived(f"m-{number}", payload_hash="hash", copies=copies)
        for _ in range(copies):
            yield Message(f'{{"n": {number}}}', request, number, group="Z00001", attributes={"Name": "value"})


def sent(queue: Queue, folder: Path, stream: Iterator[Message], sleeps: list[float] | None = None) -> Sent:
    """Send a stream as fast as possible, one batch at a time."""
    pauses: list[float] = [] if sleeps is None else sleeps
    sender = BatchSender(queue, "the queue", sleep=pauses.append, jitter=lambda: 1.0)  # type: ignore[arg-type]
    with Archive(folder / "accepted.jsonl") as archive:
        return send_all(stream, sender, archive, Pacing(None, 1), progress=lambda _: None, workers=1)


def test_messages_go_in_batches_of_ten_with_group_and_attributes(tmp_path: Path) -> None:
    queue = Queue()
    assert sent(queue, tmp_path, messages(25)) == Sent(accepted=25)
    assert queue.calls == [10, 10, 5]
    assert queue.accepted[0] == {
        "Id": "0",
        "MessageBody": '{"n": 0}',
        "MessageAttributes": {"Name": {"DataType": "String", "StringValue": "value"}},
        "MessageGroupId": "Z00001",
    }


@pytest.mark.parametrize("trouble", ["failed", "vanished", *sorted(THROTTLED)])
def test_an_entry_that_was_not_accepted_is_sent_again(tmp_path: Path, trouble: str) -> None:
    queue, sleeps = Queue(lambda number: trouble if number in (3, 4, 11) else "ok"), list[float]()
    assert sent(queue, tmp_path, messages(10), sleeps) == Sent(accepted=10, sent_again=3)
    assert queue.calls == [10, 2, 1]
    assert sleeps == [0.05, 0.1]
    assert {entry["MessageBody"] for entry in queue.accepted} == {f'{{"n": {number}}}' for number in range(10)}


def test_a_message_that_the_queue_never_takes_ends_in_a_sentence(tmp_path: Path) -> None:
    sleeps = list[float]()
    with pytest.raises(OneslotError, match=f"did not accept 1 message.* in {ATTEMPTS} attempts"):
        sent(Queue(lambda number: "ok" if number < 10 else "failed"), tmp_path, messages(10), sleeps)
    assert sleeps == pytest.approx([0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2]), "none after the last attempt"
    with pytest.raises(OneslotError, match="refuses a message for good: sender-fault"):
        sent(Queue(lambda _: "sender fault"), tmp_path, messages(10))


def test_what_was_accepted_before_a_failure_is_in_the_archive(tmp_path: Path) -> None:
    with pytest.raises(OneslotError):
        sent(Queue(lambda number: "ok" if number <= 10 else "failed"), tmp_path, messages(20))
    assert [line.request.message_id for line in read_archive(tmp_path / "accepted.jsonl", "this stack")] == [
        f"m-{number}" for number in range(10)
    ]


class Together(Queue):
    """Answers no call before all of `count` are there. It refuses for good what goes with an even number of a batch."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self._all = threading.Barrier(count, timeout=60)
        self._lock = threading.Lock()

    def send_message_batch(self, *, QueueUrl: str, Entries: list[dict[str, Any]]) -> dict[str, Any]:  # noqa: N803
        self._all.wait()
        if json.loads(Entries[0]["MessageBody"])["n"] // 10 % 2 == 0:
            return {"Failed": [{"Id": entry["Id"], "Code": "refused", "SenderFault": True} for entry in Entries]}
        with self._lock:
            return super().send_message_batch(QueueUrl=QueueUrl, Entries=Entries)


def test_what_other_workers_got_accepted_beside_a_failure_is_in_the_archive(tmp_path: Path) -> None:
    """Four batches of eight are refused at the same time as the others are taken."""
    path = tmp_path / "accepted.jsonl"
    sender = BatchSender(Together(8), "the queue")  # type: ignore[arg-type]
    with Archive(path) as archive, pytest.raises(OneslotError, match="for good: refused"):
        send_all(messages(80), sender, archive, Pacing(None, 80), progress=lambda _: None, workers=8)
    archived = {line.request.message_id for line in read_archive(path, "this stack")}
    assert archived == {f"m-{number}" for number in range(80) if number // 10 % 2}


def test_what_was_accepted_is_in_the_archive_while_sending_goes_on(tmp_path: Path) -> None:
    """A sender that is killed then has told its archive of all that it said it sent."""
    path, said, seen = tmp_path / "accepted.jsonl", list[int](), list[int]()

    def progress(count: int) -> None:
        said.append(count)
        seen.append(len(path.read_text().splitlines()))

    before = time.time_ns() // 1_000_000
    with Archive(path) as archive:
        sender = BatchSender(Queue(), "the queue")  # type: ignore[arg-type]
        send_all(messages(25), sender, archive, Pacing(None, 25), progress=progress, workers=1)
    assert sum(said) == 25
    assert all(lines >= sum(said[: at + 1]) for at, lines in enumerate(seen))
    assert all(before <= line.sent <= time.time_ns() // 1_000_000 for line in read_archive(path, "this stack"))


def test_a_queue_that_does_not_answer_stops_the_reading(tmp_path: Path) -> None:
    """Of a million messages few are in memory, however slow the queue is."""
    read, exhausted = list[Message](), threading.Event()

    def stream() -> Iterator[Message]:
        for message in messages(200):
            read.append(message)
            yield message
        exhausted.set()

    class Slow(Queue):
        def send_message_batch(self, **request: Any) -> dict[str, Any]:
            if not self.calls:
                assert not exhausted.wait(0.3)
                assert len(read) <= 10 * 2 + 1, "two batches for one worker, and the message that ends the second"
            return super().send_message_batch(**request)

    with Archive(tmp_path / "accepted.jsonl") as archive:
        sender = BatchSender(Slow(), "the queue")  # type: ignore[arg-type]
        sent = send_all(stream(), sender, archive, Pacing(None, 200), progress=lambda _: None, workers=1)
    assert sent.accepted == 200


def test_the_archive_has_one_line_for_each_request(tmp_path: Path) -> None:
    sent(Queue(), tmp_path, messages(3, copies=2))
    lines = list(read_archive(tmp_path / "accepted.jsonl", "this stack"))
    assert [(line.request.message_id, len(line.sqs_message_ids)) for line in lines] == [
        ("m-0", 2),
        ("m-1", 2),
        ("m-2", 2),
    ]
    document = json.loads((tmp_path / "accepted.jsonl").read_text().splitlines()[0])
    assert document.keys() == {
        "message_id", "kind", "malformation", "payload_hash", "copies", "sent", "sqs_message_ids",
    }  # fmt: skip


def test_a_request_of_which_a_copy_is_missing_is_archived_at_the_end(tmp_path: Path) -> None:
    only_first_copies = (message for at, message in enumerate(messages(2, copies=2)) if at % 2 == 0)
    sent(Queue(), tmp_path, only_first_copies)
    assert [len(line.sqs_message_ids) for line in read_archive(tmp_path / "accepted.jsonl", "this stack")] == [1, 1]


def test_the_archive_of_an_earlier_version_which_kept_the_type_is_read(tmp_path: Path) -> None:
    path = tmp_path / "accepted.jsonl"
    line = {"message_id": "m-1", "type": "cancel", "sent": 1, "sqs_message_ids": ["s-1"], "stack": "this stack"}
    path.write_text(json.dumps(line) + "\n")
    (read,) = read_archive(path, "this stack")
    assert (read.request, read.sent, read.sqs_message_ids) == (Archived("m-1"), 1, ["s-1"])


def test_a_line_cut_off_by_a_crash_is_left_out_and_a_broken_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "accepted.jsonl"
    sent(Queue(), tmp_path, messages(2))
    whole = path.read_text()
    path.write_text(whole + whole[:30])
    assert len(list(read_archive(path, "this stack"))) == 2
    for broken in (whole[:30], "5", "[]", '{"message_id": "m"}', '{"message_id": "m", "sent": "today"}'):
        path.write_text(broken + "\n" + whole)
        with pytest.raises(OneslotError, match="line 1, is not a line of an archive"):
            list(read_archive(path, "this stack"))


def test_a_batch_holds_no_more_bytes_than_sqs_takes() -> None:
    large = Message("x" * (BATCH_BYTES // 2), Archived("m"), 0)
    assert [len(batch) for _, batch in batches([large] * 5, Pacing(None, 5))] == [2, 2, 1]
    wide = Message("é" * (BATCH_BYTES // 4), Archived("m"), 0)
    assert [len(batch) for _, batch in batches([wide] * 5, Pacing(None, 5))] == [2, 2, 1]
    # "String", as the type of a value is named, counts as well.
    text = BATCH_BYTES // 2 - len("name") - len("String") - len("é".encode())
    for length, expected in ((text, [2, 2, 1]), (text + 1, [1, 1, 1, 1, 1])):
        named = Message("x" * length, Archived("m"), 0, attributes={"name": "é"})
        assert [len(batch) for _, batch in batches([named] * 5, Pacing(None, 5))] == expected


def test_no_batch_is_empty() -> None:
    """SQS refuses one that is."""
    assert list(batches([], Pacing(None, 0))) == []
    too_large = Message("x" * (BATCH_BYTES + 1), Archived("m"), 0)
    assert list(batches([too_large], Pacing(None, 1))) == [(0.0, [too_large])]


def test_what_is_due_within_a_tenth_of_a_second_shares_a_batch() -> None:
    assert [len(batch) for _, batch in batches(messages(100), Pacing(1_000, 100))] == [10] * 10


def test_a_message_without_group_and_attributes_is_sent_without() -> None:
    queue = Queue()
    BatchSender(queue, "the queue").send([Message("{}", Archived("m"), 0)])  # type: ignore[arg-type]
    assert queue.accepted == [{"Id": "0", "MessageBody": "{}"}]


def test_each_message_leaves_at_its_time(tmp_path: Path) -> None:
    queue, now = Queue(), [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    with Archive(tmp_path / "accepted.jsonl") as archive:
        sender = BatchSender(queue, "the queue")  # type: ignore[arg-type]
        stream = messages(50)
        send_all(stream, sender, archive, Pacing(10, 50), progress=lambda _: None, clock=lambda: now[0], sleep=sleep)
    assert sum(queue.calls) == 50
    assert max(queue.calls) <= 3, "at ten a second no batch waits for ten messages"
    assert 4.7 < now[0] < 5.0


def test_what_a_stall_cost_is_not_made_up_for_in_a_flood(tmp_path: Path) -> None:
    queue, now = Queue(), [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    def asleep_for_a_minute() -> Iterator[Message]:
        for number, message in enumerate(messages(50)):
            if number == 20:
                now[0] += 60.0
            yield message

    with Archive(tmp_path / "accepted.jsonl") as archive:
        sender = BatchSender(queue, "the queue")  # type: ignore[arg-type]
        stream = asleep_for_a_minute()
        send_all(stream, sender, archive, Pacing(10, 50), progress=lambda _: None, clock=lambda: now[0], sleep=sleep)
    assert sum(queue.calls) == 50
    assert now[0] == pytest.approx(60 + 5 - 1, abs=0.3), "one second is made up for"


def test_monday_morning_starts_at_six_times_the_rate_and_lasts_as_long() -> None:
    pacing = Pacing(100, 6_000, MONDAY)
    due = [pacing.due(number) for number in range(6_000)]
    assert due == sorted(due)
    assert due[0] == 0
    first_second = sum(at < 1 for at in due)
    assert 530 < first_second < 620
    assert 45 < due[-1] < 60 + 1e-6
    assert pacing.due(9_999) == pytest.approx(60), "more than was announced comes at the end"
