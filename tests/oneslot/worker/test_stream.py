"""Reading a ledger's stream: each shard in order, a failing record held for an hour, new shards when one ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from oneslot.worker.log import WorkerLog
from oneslot.worker.stream import HELD_SECONDS, IDLE_SECONDS, LONGEST_PAUSE, LedgerStream
from tests.kits.consumer import Clock, surroundings


@dataclass
class Streams:
    """A stream's API. Each shard has its records, and may have ended. An iterator is a shard's name and a position."""

    shards: dict[str, list[int]]
    ended: set[str] = field(default_factory=set)
    expired: set[str] = field(default_factory=set)
    limit: int = 10
    page: int = 1

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
            raise ClientError({"Error": {"Code": "ExpiredIteratorException", "Message": ""}}, "GetRecords")
        name, at = ShardIterator.split("/")
        records = self.shards[name][int(at) : int(at) + self.limit]
        end = int(at) + len(records)
        following = (
            {} if name in self.ended and end == len(self.shards[name]) else {"NextShardIterator": f"{name}/{end}"}
        )
        return {"Records": [{"dynamodb": {"SequenceNumber": str(number)}} for number in records], **following}


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


def test_shard_waits_for_the_record_that_fails_and_other_shards_go_on() -> None:
    clock, streams, taken = Clock(), Streams({"a": [1, 2, 3], "b": [5]}), Taken(failing={2})
    stream = follow(streams, taken, clock, start="TRIM_HORIZON")
    stream.read()
    assert taken.numbers == [1, 5]
    taken.failing.clear()

    stream.read()
    assert taken.numbers == [1, 5], "it pauses first"
    clock.now += round(IDLE_SECONDS * 1000)
    stream.read()

    assert taken.numbers == [1, 5, 2, 3]


def test_shard_goes_on_without_a_record_when_it_failed_for_an_hour() -> None:
    clock, lines, streams, taken = Clock(), list[str](), Streams({"a": [1, 2, 3]}), Taken(failing={2})
    stream = follow(streams, taken, clock, lines, start="TRIM_HORIZON")
    began = clock.now
    while 3 not in taken.numbers:
        stream.read()
        clock.now += round(LONGEST_PAUSE * 1000)
        assert clock.now - began < 2 * HELD_SECONDS * 1000

    assert taken.numbers == [1, 3]
    assert clock.now - began >= HELD_SECONDS * 1000
    assert ["set_aside" in line and '"sequence_number": "2"' in line for line in lines] == [True]


def test_reading_goes_on_behind_the_last_record_when_an_iterator_expires() -> None:
    streams, taken = Streams({"a": [1, 2]}), Taken()
    stream = follow(streams, taken, Clock(), start="TRIM_HORIZON")
    stream.read()
    streams.expired.add("a/2")
    streams.shards["a"].append(3)
    stream.read()
    streams.expired.clear()
    stream.read()

    assert taken.numbers == [1, 2, 3]


def test_error_is_raised_when_the_stream_cannot_be_read() -> None:
    streams = Streams({"a": []})
    stream = follow(streams, Taken(), Clock())
    streams.expired.add("a/0")
    with pytest.raises(ClientError):
        stream.read()


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
