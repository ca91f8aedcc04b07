"""Reading a ledger's stream: no record waits for a failing one, which is repeated for an hour; shards roll over."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from oneslot.worker.log import WorkerLog
from oneslot.worker.stream import HELD_SECONDS, LOOK_SECONDS, LedgerStream
from tests.kits.consumer import Clock, surroundings


@dataclass
class Streams:
    """A stream's API. Each shard has its records, and may have ended. An iterator is a shard's name and a position."""

    shards: dict[str, list[int]]
    ended: set[str] = field(default_factory=set)
    expired: set[str] = field(default_factory=set)
    limit: int = 10
    page: int = 1
    made: int | None = None
    code: str = "ExpiredIteratorException"

    def describe_stream(self, StreamArn: str, ExclusiveStartShardId: str = "") -> Mapping[str, Any]:  # noqa: N803
        names = sorted(self.shards)
        start = names.index(ExclusiveStartShardId) + 1 if ExclusiveStartShardId else 0
        shown = [
            {"ShardId": name, "SequenceNumberRange": {"EndingSequenceNumber": "9"} if name in self.ended else {}}
            for name in names[start : start + self.page]
        ]
        last = {"LastEvaluatedShardId": shown[-1]["ShardId"]} if start + self.page < len(names) else {}
        return {"StreamDescription": {"Shards": shown, **last}}

    def get_shard_iterator(
        self,
        StreamArn: str,  # noqa: N803
        ShardId: str,  # noqa: N803
        ShardIteratorType: str,  # noqa: N803
        SequenceNumber: str = "",  # noqa: N803
    ) -> Mapping[str, Any]:
        records = self.shards[ShardId]
        match ShardIteratorType:
            case "LATEST":
                at = len(records)
            case "TRIM_HORIZON":
                at = 0
            case _:
                at = records.index(int(SequenceNumber)) + 1
        return {"ShardIterator": f"{ShardId}/{at}"}

    def get_records(self, ShardIterator: str) -> Mapping[str, Any]:  # noqa: N803
        if ShardIterator in self.expired:
            raise ClientError({"Error": {"Code": self.code, "Message": ""}}, "GetRecords")
        name, at = ShardIterator.split("/")
        records = self.shards[name][int(at) : int(at) + self.limit]
        end = int(at) + len(records)
        following = (
            {} if name in self.ended and end == len(self.shards[name]) else {"NextShardIterator": f"{name}/{end}"}
        )
        made = {} if self.made is None else {"ApproximateCreationDateTime": self.made / 1000}
        return {"Records": [{"dynamodb": {"SequenceNumber": str(number), **made}} for number in records], **following}


@dataclass
class Taken:
    """What was consumed, and the numbers that fail."""

    numbers: list[int] = field(default_factory=list)
    failing: set[int] = field(default_factory=set)

    def __call__(self, event: Mapping[str, Any]) -> Mapping[str, Any]:
        for record in event["Records"]:
            number = int(record["dynamodb"]["SequenceNumber"])
            if number in self.failing:
                return {"batchItemFailures": [{"itemIdentifier": str(number)}]}
            self.numbers.append(number)
        return {"batchItemFailures": []}


def follow(streams: Streams, taken: Taken, clock: Clock, lines: list[str] | None = None, **start: str) -> LedgerStream:
    outside = replace(surroundings(clock), steady=lambda: clock() / 1000)
    log = WorkerLog(([] if lines is None else lines).append, outside)
    return LedgerStream(streams, "arn", taken, log=log, surroundings=outside, **start)


def test_stream_is_read_from_now_on_when_it_starts_at_the_latest() -> None:
    streams, taken = Streams({"a": [1, 2], "b": [5], "old": [0]}, ended={"old"}), Taken()
    stream = follow(streams, taken, Clock())
    streams.shards["a"] += [3, 4]
    streams.shards["b"] += [6]

    assert stream.read()
    assert not stream.read()

    assert taken.numbers == [3, 4, 6]


def test_shards_are_read_from_their_start_when_one_ends() -> None:
    streams, taken = Streams({"a": [1]}), Taken()
    stream = follow(streams, taken, Clock(), start="TRIM_HORIZON")
    stream.read()
    streams.shards |= {"b": [2, 3], "c": [4]}
    streams.ended.add("a")

    for _ in range(3):
        stream.read()

    assert taken.numbers == [1, 2, 3, 4]


def test_shards_are_found_when_they_show_late_or_one_is_split_while_it_is_read() -> None:
    """DescribeStream may list a shard's children a call later."""
    clock, streams, taken = Clock(), Streams({"a": [1]}, ended={"a"}), Taken()
    stream = follow(streams, taken, clock, start="TRIM_HORIZON")
    stream.read()
    stream.read()
    streams.shards["b"] = [2]
    clock.now += round(LOOK_SECONDS * 1000)

    stream.read()

    assert taken.numbers == [1, 2]


def test_others_go_on_at_once_when_records_fail_and_these_are_repeated() -> None:
    clock, streams, taken = Clock(), Streams({"a": [1, 2, 3, 4], "b": [5]}), Taken(failing={1, 3})
    stream = follow(streams, taken, clock, start="TRIM_HORIZON")
    stream.read()
    assert taken.numbers == [2, 4, 5]
    taken.failing.clear()

    stream.read()
    assert taken.numbers == [2, 4, 5], "it pauses first"
    clock.now += round(LOOK_SECONDS * 1000)
    stream.read()

    assert taken.numbers == [2, 4, 5, 1, 3]


@pytest.mark.parametrize("waited", [0, HELD_SECONDS / 2])
def test_record_is_set_aside_when_an_hour_has_passed_since_it_was_made(waited: float) -> None:
    """Three of them take an hour together, not three."""
    clock, lines, taken = Clock(), list[str](), Taken(failing={1, 2, 3})
    streams = Streams({"a": [1, 2, 3]}, made=clock.now)
    clock.now += round(waited * 1000)
    stream, began = follow(streams, taken, clock, lines, start="TRIM_HORIZON"), clock.now
    while len(lines) < 3:
        stream.read()
        clock.now += round(LOOK_SECONDS * 1000)
        assert clock.now - began < 2 * HELD_SECONDS * 1000

    assert HELD_SECONDS - waited <= (clock.now - began) / 1000 <= HELD_SECONDS - waited + 3 * LOOK_SECONDS
    assert [json.loads(line)["sequence_number"] for line in lines] == ["1", "2", "3"]


@pytest.mark.parametrize("code", ["ExpiredIteratorException", "TrimmedDataAccessException"])
def test_shard_is_read_from_its_beginning_when_its_position_is_lost(code: str) -> None:
    """The relay asks each row before it sends, so what it has sent already costs a read."""
    lines, streams, taken = list[str](), Streams({"a": [1, 2]}, code=code), Taken()
    stream = follow(streams, taken, Clock(), lines)
    streams.expired.add("a/2")
    streams.shards["a"].append(3)
    stream.read()
    streams.expired.clear()
    stream.read()

    assert taken.numbers == [1, 2, 3]
    assert [json.loads(line)["error"] for line in lines] == [code]


def test_other_shards_are_read_when_one_fails() -> None:
    streams, taken = Streams({"a": [1], "b": [2]}, code="InternalServerError"), Taken()
    stream = follow(streams, taken, Clock(), start="TRIM_HORIZON")
    streams.expired.add("a/0")
    stream.read()
    assert taken.numbers == [2]
    streams.expired.clear()
    stream.read()
    assert taken.numbers == [2, 1]


def test_records_are_repeated_when_what_consumes_them_raises() -> None:
    clock, lines, streams, taken = Clock(), list[str](), Streams({"a": [1, 2]}), Taken()
    stream = follow(streams, taken, clock, lines, start="TRIM_HORIZON")

    def fail(_: Mapping[str, Any]) -> Mapping[str, Any]:
        raise ConnectionError("a body")

    stream._consume = fail
    stream.read()
    stream._consume = taken
    clock.now += round(LOOK_SECONDS * 1000)
    stream.read()

    assert taken.numbers == [1, 2]
    assert [json.loads(line)["error"] for line in lines] == ["ConnectionError"]


def test_run_goes_on_when_the_stream_cannot_be_described() -> None:
    clock, streams, taken = Clock(), Streams({"a": [1]}, limit=1), Taken()
    stream, describe = follow(streams, taken, clock, start="TRIM_HORIZON"), streams.describe_stream
    stopping = surroundings(clock).threads.event()
    clock.now += round(LOOK_SECONDS * 1000)

    def fail_once(**_: Any) -> Mapping[str, Any]:
        streams.describe_stream = describe  # type: ignore[method-assign]
        raise ClientError({"Error": {"Code": "LimitExceededException", "Message": ""}}, "DescribeStream")

    def take(event: Mapping[str, Any]) -> Mapping[str, Any]:
        stopping.set()
        return taken(event)

    streams.describe_stream = fail_once  # type: ignore[assignment, method-assign]
    stream._consume = take
    stream.run(stopping)

    assert taken.numbers == [1]


def test_run_ends_when_it_is_asked_to_stop() -> None:
    streams, taken, outside = Streams({"a": [1, 2]}, limit=1), Taken(), surroundings(Clock())
    stopping = outside.threads.event()

    def take_all(event: Mapping[str, Any]) -> Mapping[str, Any]:
        answer = taken(event)
        if taken.numbers == [1, 2]:
            stopping.set()
        return answer

    LedgerStream(streams, "arn", take_all, start="TRIM_HORIZON", surroundings=outside).run(stopping)

    assert taken.numbers == [1, 2]
