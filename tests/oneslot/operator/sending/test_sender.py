"""The sender: batches by size and time, and an archive of everything that the queue accepted."""

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError

from oneslot.errors import InvalidArchive, MessageRefused, QueueTimeout
from oneslot.operator.sending.archive import Archive, read_archive
from oneslot.operator.sending.messages import Archived, RequestCopy
from oneslot.operator.sending.request_file import check_file, read_requests
from oneslot.operator.sending.sender import BatchSender, Sent, batches, send_all
from oneslot.runtime.sqs.batches import BATCH_BYTES
from oneslot.runtime.surroundings import Surroundings, Threads
from tests.kits.consumer import NHS_NUMBER, booking, cancellation, service_error
from tests.kits.sqs import ACCEPTED, ScriptedSqs, Step, all_but, fail

REFUSED = ("InvalidMessageContents", True)
LOST = ReadTimeoutError(endpoint_url="https://sqs")


def messages(count: int, copies: int = 1) -> Iterator[RequestCopy]:
    """Yield this many requests, each with all its copies."""
    for number in range(count):
        request = Archived(f"m-{number}", payload_hash="hash")
        for _ in range(copies):
            yield RequestCopy(f'{{"n": {number}}}', request, number, group="Z00001", attributes={"Name": "value"})


def message(body: str, group: str | None = None) -> RequestCopy:
    return RequestCopy(body, Archived(body), 0, group=group)


def sender_to(queue: ScriptedSqs) -> BatchSender:
    return BatchSender(queue, queue.url, queue.surroundings)  # type: ignore[arg-type]


def send_to(
    queue: ScriptedSqs,
    folder: Path,
    stream: Iterator[RequestCopy],
    progress: Callable[[int], None] = lambda _: None,
    workers: int = 1,
) -> Sent:
    """Send a stream as fast as possible, with an archive."""
    archive = Archive(folder / "accepted.jsonl")
    return send_all(stream, sender_to(queue), archive, progress=progress, workers=workers)


def archived(folder: Path) -> list[str | None]:
    return [line.request.message_id for line in read_archive(folder / "accepted.jsonl", "this stack")]


def test_sender_sends_batches_of_ten_with_group_and_attributes(tmp_path: Path) -> None:
    queue = ScriptedSqs()

    assert send_to(queue, tmp_path, messages(25)) == Sent(accepted=25)

    assert [len(call) for call in queue.batches] == [10, 10, 5]
    assert queue.accepted[0] == {
        "Id": "0",
        "MessageBody": '{"n": 0}',
        "MessageAttributes": {"Name": {"DataType": "String", "StringValue": "value"}},
        "MessageGroupId": "Z00001",
    }


def test_sender_counts_the_entries_that_it_sent_again(tmp_path: Path) -> None:
    queue = ScriptedSqs(fate=lambda number: None if number in {3, 4, 11} else ACCEPTED)

    assert send_to(queue, tmp_path, messages(10)) == Sent(accepted=10, sent_again=3)

    assert [len(call) for call in queue.batches] == [10, 2, 1]
    assert sorted(queue.bodies()) == [f'{{"n": {number}}}' for number in range(10)]


def test_sender_gives_up_after_thirty_seconds(tmp_path: Path) -> None:
    queue = ScriptedSqs(fate=lambda number: ACCEPTED if number < 10 else None)

    with pytest.raises(QueueTimeout):
        send_to(queue, tmp_path, messages(10))

    assert 25 < sum(queue.slept) < 30


def test_sender_names_the_code_when_the_queue_refuses(tmp_path: Path) -> None:
    with pytest.raises(MessageRefused, match="InvalidMessageContents"):
        send_to(ScriptedSqs(fate=lambda _: REFUSED), tmp_path, messages(10))


@pytest.mark.parametrize(
    "script",
    [
        [all_but(0), all_but(0, REFUSED)],
        [all_but(0), fail(service_error("AccessDenied"))],
        [all_but(0), *[fail(LOST)] * 100],
        [all_but(0), *[all_but(0)] * 100],
        [fail(service_error("InvalidParameterValue")), *[all_but(9)] * 9, fail(service_error("AccessDenied"))],
    ],
    ids=["refused", "denied", "no answer", "never accepted", "denied while each is sent alone"],
)
def test_archive_has_what_the_first_attempts_got_accepted(tmp_path: Path, script: list[Step]) -> None:
    queue = ScriptedSqs(*script)
    counted = list[int]()

    with pytest.raises((MessageRefused, QueueTimeout, ClientError, ReadTimeoutError)):
        send_to(queue, tmp_path, messages(10), counted.append)

    assert len(archived(tmp_path)) == len(queue.accepted) == sum(counted) == 9


@pytest.mark.parametrize("error", [LOST, service_error("RequestThrottled")], ids=["no answer", "throttled"])
def test_sender_raises_the_last_error_when_time_is_up(tmp_path: Path, error: Exception) -> None:
    with pytest.raises(type(error)) as raised:
        send_to(ScriptedSqs(*[fail(error)] * 100), tmp_path, messages(2))

    assert raised.value is error
    assert archived(tmp_path) == [], "not accepted, as far as is known"


def test_interrupted_sender_archives_answers_and_ends_retries(tmp_path: Path) -> None:
    begun, ended = threading.Event(), threading.Event()

    class Interrupting(Threads):
        def event(self) -> threading.Event:
            return ended

    class Slow(ScriptedSqs):
        def send_message_batch(self, **request: Any) -> dict[str, Any]:
            begun.set()
            assert ended.wait(120)
            return super().send_message_batch(**request)

    def stream() -> Iterator[RequestCopy]:
        yield from messages(11)
        assert begun.wait(120)
        raise KeyboardInterrupt

    queue, surroundings = Slow(all_but(0)), Surroundings(threads=Interrupting())
    archive = Archive(tmp_path / "accepted.jsonl")
    with pytest.raises(KeyboardInterrupt):
        send_all(stream(), sender_to(queue), archive, progress=lambda _: None, surroundings=surroundings)

    assert len(queue.batches) == 1
    assert archived(tmp_path) == [f"m-{number}" for number in range(1, 10)]


def test_archive_has_what_other_workers_sent_beside_a_failure(tmp_path: Path) -> None:
    together = threading.Barrier(8, timeout=60)
    lock = threading.Lock()

    class Together(ScriptedSqs):
        """Answers no call before all eight are there, and refuses those with an even number."""

        def send_message_batch(self, **request: Any) -> dict[str, Any]:
            together.wait()
            with lock:
                even = json.loads(request["Entries"][0]["MessageBody"])["n"] // 10 % 2 == 0
                self._script = [lambda entries: [REFUSED if even else ACCEPTED] * len(entries)]
                return super().send_message_batch(**request)

    with pytest.raises(MessageRefused):
        send_to(Together(), tmp_path, messages(80), workers=8)

    assert set(archived(tmp_path)) == {f"m-{number}" for number in range(80) if number // 10 % 2}


def test_archive_is_written_before_progress_is_reported(tmp_path: Path) -> None:
    reported, written = list[int](), list[int]()

    def progress(count: int) -> None:
        reported.append(count)
        written.append(len((tmp_path / "accepted.jsonl").read_text().splitlines()))

    send_to(ScriptedSqs(), tmp_path, messages(25), progress)

    assert sum(reported) == 25
    assert all(lines >= sum(reported[: at + 1]) for at, lines in enumerate(written))


def test_sender_reads_no_further_while_the_queue_is_slow(tmp_path: Path) -> None:
    read, exhausted = list[RequestCopy](), threading.Event()

    def stream() -> Iterator[RequestCopy]:
        for each in messages(200):
            read.append(each)
            yield each
        exhausted.set()

    class Slow(ScriptedSqs):
        def send_message_batch(self, **request: Any) -> dict[str, Any]:
            if not self.calls:
                assert not exhausted.wait(0.3)
                assert len(read) <= 10 * 2 + 1, "two batches for one worker, and the message that ends the second"
            return super().send_message_batch(**request)

    assert send_to(Slow(), tmp_path, stream()).accepted == 200


# The archive


def test_archive_has_one_line_for_each_message(tmp_path: Path) -> None:
    send_to(ScriptedSqs(), tmp_path, messages(2, copies=2))

    lines = list(read_archive(tmp_path / "accepted.jsonl", "this stack"))
    assert [(line.request.message_id, *line.sqs_message_ids) for line in lines] == [
        ("m-0", "sqs-1"), ("m-0", "sqs-2"), ("m-1", "sqs-3"), ("m-1", "sqs-4"),
    ]  # fmt: skip
    document = json.loads((tmp_path / "accepted.jsonl").read_text().splitlines()[0])
    assert document.keys() == {
        "message_id", "kind", "malformation", "payload_hash", "copies", "sent", "sqs_message_ids",
    }  # fmt: skip


def test_archive_of_an_earlier_version_is_read(tmp_path: Path) -> None:
    line = {"message_id": "m-1", "type": "cancel", "fault": None, "sent": 1, "sqs_message_ids": ["s-1"]}
    (tmp_path / "accepted.jsonl").write_text(json.dumps(line) + "\n")

    (read,) = read_archive(tmp_path / "accepted.jsonl", "this stack")

    assert (read.request, read.sent, read.sqs_message_ids) == (Archived("m-1"), 1, ["s-1"])


def test_archive_skips_a_line_that_a_crash_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "accepted.jsonl"
    send_to(ScriptedSqs(), tmp_path, messages(2))
    whole = path.read_text()

    path.write_text(whole + whole[:30])

    assert archived(tmp_path) == ["m-0", "m-1"]
    send_to(ScriptedSqs(), tmp_path, messages(3))
    assert archived(tmp_path) == ["m-0", "m-1", "m-0", "m-1", "m-2"], "the next line does not continue it"


@pytest.mark.parametrize(
    "line", ['{"message_id": "m', "5", "\udcff", '{"message_id": "m"}', '{"message_id": "m", "sent": "now"}']
)
def test_archive_rejects_an_invalid_line_before_others(tmp_path: Path, line: str) -> None:
    (tmp_path / "accepted.jsonl").write_text(line + '\n{"message_id": "m", "sent": 1}\n', errors="surrogateescape")

    with pytest.raises(InvalidArchive, match="line 1"):
        archived(tmp_path)


# Batches and pace


@pytest.mark.parametrize(
    ("body", "attributes", "expected"),
    [
        ("x" * (BATCH_BYTES // 2), {}, [2, 2, 1]),
        ("é" * (BATCH_BYTES // 4), {}, [2, 2, 1]),
        ("x" * (BATCH_BYTES // 2 - 12), {"name": "é"}, [2, 2, 1]),  # the type "String" counts as well
        ("x" * (BATCH_BYTES // 2 - 11), {"name": "é"}, [1, 1, 1, 1, 1]),
        ("x" * (BATCH_BYTES + 1), {}, [1, 1, 1, 1, 1]),
    ],
    ids=["half a batch", "two bytes a letter", "attributes that fit", "attributes that do not", "above the limit"],
)
def test_batch_is_cut_at_the_limit_in_bytes(body: str, attributes: dict[str, str], expected: list[int]) -> None:
    five = [RequestCopy(body, Archived("m"), 0, attributes=attributes)] * 5

    assert [len(batch) for _, batch in batches(five)] == expected


def test_batch_is_never_empty() -> None:
    assert list(batches([])) == []


def test_batch_holds_what_is_due_within_a_tenth_of_a_second() -> None:
    assert [len(batch) for _, batch in batches(messages(100), 1_000)] == [10] * 10


@pytest.mark.parametrize(("stall", "expected"), [(0.0, 4.9), (60.0, 60 + 5 - 1)], ids=["steady", "after a stall"])
def test_sender_holds_its_rate(tmp_path: Path, stall: float, expected: float) -> None:
    """After a stall one second is made up for, so that no flood follows."""
    queue, now = ScriptedSqs(), [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    def stream() -> Iterator[RequestCopy]:
        for number, each in enumerate(messages(50)):
            now[0] += stall * (number == 20)
            yield each

    archive, surroundings = Archive(tmp_path / "accepted.jsonl"), Surroundings(steady=lambda: now[0], sleep=sleep)
    sent = send_all(stream(), sender_to(queue), archive, progress=lambda _: None, rate=10, surroundings=surroundings)

    assert sent.accepted == 50
    assert max(len(call) for call in queue.batches) <= 3 or stall, "no batch waits for ten messages"
    assert now[0] == pytest.approx(expected, abs=0.3)


# FIFO queues


def test_fifo_copy_keeps_its_own_id_in_every_attempt() -> None:
    queue = ScriptedSqs(all_but(0), fifo=True)
    sender = sender_to(queue)

    list(sender.send([message("same", "A"), message("same", "A"), message("same", "B")]))
    list(sender_to(queue).send([message("same", "A")]))

    attempted = [entry["MessageDeduplicationId"] for call in queue.batches for entry in call]
    assert len(attempted) == 5
    assert len(set(attempted)) == len(queue.accepted) == 4


def test_fifo_message_without_a_group_is_its_own() -> None:
    queue = ScriptedSqs(fifo=True)

    list(sender_to(queue).send([message("one"), message("two"), message("three", "A")]))

    assert [len(call) for call in queue.batches] == [3]
    groups = {entry["MessageBody"]: entry["MessageGroupId"] for entry in queue.accepted}
    assert groups["three"] == "A"
    assert len(set(groups.values())) == 3


def test_fifo_sends_one_batch_at_a_time(tmp_path: Path) -> None:
    class Busy(ScriptedSqs):
        lock = threading.Lock()

        def send_message_batch(self, **request: Any) -> dict[str, Any]:
            assert self.lock.acquire(blocking=False), "another call has not been answered yet"
            try:
                threading.Event().wait(0.005)
                return super().send_message_batch(**request)
            finally:
                self.lock.release()

    queue = Busy(fifo=True)

    send_to(queue, tmp_path, messages(40), workers=4)

    assert queue.bodies("Z00001") == [f'{{"n": {number}}}' for number in range(40)]


def test_fifo_sends_nothing_behind_a_failed_batch(tmp_path: Path) -> None:
    class Denied(ScriptedSqs):
        tries = 0

        def send_message_batch(self, **request: Any) -> dict[str, Any]:
            self.tries += 1
            threading.Event().wait(0.05)  # time for another batch, if one did not wait
            raise ClientError({"Error": {"Code": "AccessDenied", "Message": ""}}, "SendMessageBatch")

    queue = Denied(fifo=True)

    with pytest.raises(ClientError):
        send_to(queue, tmp_path, messages(40), workers=4)

    assert queue.tries == 1


# A person's own requests: sent as they are, refused by line if SQS could not carry them.


def written(folder: Path, *lines: str) -> Path:
    """A file of these lines."""
    path = folder / "requests.ndjson"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_request_file_is_read_as_it_is(tmp_path: Path) -> None:
    texts = [json.dumps(booking("m-1")), json.dumps(cancellation("m-1"))]
    path = written(tmp_path, texts[0], "", texts[1])
    assert check_file(path) == 2
    first, second = read_requests(path)
    assert [first.body, second.body] == texts
    assert (first.request.message_id, first.group) == ("m-1", "A81001")
    assert second.group is None


@pytest.mark.parametrize("practice", ["Zürich1", "A" * 129, "A 1", "", 81001, None])
def test_request_has_no_group_when_sqs_would_refuse_it(tmp_path: Path, practice: object) -> None:
    (message,) = read_requests(written(tmp_path, json.dumps(booking("m-1", practice=practice))))
    assert message.group is None


def test_request_has_no_archived_id_when_it_is_personal(tmp_path: Path) -> None:
    path = written(tmp_path, json.dumps(booking(NHS_NUMBER)), json.dumps(booking(None)))
    assert [message.request.message_id for message in read_requests(path)] == [None, None]


def test_request_file_is_read_when_an_editor_marked_its_encoding(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    path.write_text(json.dumps(booking("m-1")) + "\n", encoding="utf-8-sig")
    (message,) = read_requests(path)
    assert message.body == json.dumps(booking("m-1"))
