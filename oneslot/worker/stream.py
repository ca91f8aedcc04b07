"""Reads a ledger's stream without Lambda, and hands its records to the relay as Lambda's mapping would.

No record waits for another. One that fails is repeated for an hour from its own time, which DynamoDB writes into it. Then its
messages wait in the ledger.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from oneslot.runtime.failures import name_of
from oneslot.runtime.surroundings import Event, Surroundings
from oneslot.worker.log import WorkerLog

HELD_SECONDS = 3_600.0
IDLE_SECONDS = 0.5
LOOK_SECONDS = 30.0
"""Between two looks for new shards, and between two attempts at what failed."""
LOST = {"ExpiredIteratorException", "TrimmedDataAccessException", "ResourceNotFoundException"}
"""The codes of a position that no longer is. Its shard is read from its beginning: the relay asks each row before it sends."""

Record = Mapping[str, Any]
Consume = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""An event → Lambda's partial batch response, as `Relay.consume` gives it."""


@dataclass(frozen=True, slots=True)
class _Failed:
    """A record to repeat, and the steady second after which it is set aside."""

    record: Record
    until: float


class LedgerStream:
    """Reads on from `start`: LATEST, or TRIM_HORIZON for all of the last day. Its position is open once this is made.

    `consume` gets each event. New shards are looked for when one ends, and from time to time.
    """

    def __init__(
        self,
        client: Any,
        arn: str,
        consume: Consume,
        *,
        start: str = "LATEST",
        log: WorkerLog | None = None,
        surroundings: Surroundings | None = None,
    ) -> None:
        self._client, self._arn, self._consume = client, arn, consume
        self._surroundings = surroundings or Surroundings()
        self._log = log or WorkerLog(surroundings=self._surroundings)
        self._iterators: dict[str, str] = {}
        self._seen: set[str] = set()
        self._failed: list[_Failed] = []
        self._next_look = self._surroundings.steady() + LOOK_SECONDS
        self._open(start)

    def run(self, stopping: Event) -> None:
        """Read until `stopping` is set, whatever fails meanwhile."""
        while not stopping.is_set():
            try:
                done = self.read()
            except Exception as error:
                self._log.event("stream_error", error=name_of(error))
                done = False
            if not done:
                stopping.wait(IDLE_SECONDS)

    def read(self) -> bool:
        """Read each shard once, and hand on what it has; return whether anything was done."""
        done = False
        if self._surroundings.steady() >= self._next_look:
            self._next_look = self._surroundings.steady() + LOOK_SECONDS
            failed, self._failed = self._failed, []
            for each in failed:
                if each.until <= self._surroundings.steady():
                    self._log.event("set_aside", sequence_number=each.record["dynamodb"]["SequenceNumber"])
                else:
                    self._hand_on([each.record])
            self._open("TRIM_HORIZON")
        for name in [*self._iterators]:
            records = self._fetch(name)
            self._hand_on(records)
            done |= bool(records)
        return done

    def _open(self, start: str) -> None:
        request: dict[str, Any] = {"StreamArn": self._arn}
        while True:
            about = self._client.describe_stream(**request)["StreamDescription"]
            for each in about["Shards"]:
                name, ended = each["ShardId"], "EndingSequenceNumber" in each["SequenceNumberRange"]
                if name not in self._seen and not (ended and start == "LATEST"):
                    position = {"StreamArn": self._arn, "ShardId": name, "ShardIteratorType": start}
                    self._iterators[name] = self._client.get_shard_iterator(**position)["ShardIterator"]
                self._seen.add(name)
            if "LastEvaluatedShardId" not in about:
                return
            request["ExclusiveStartShardId"] = about["LastEvaluatedShardId"]

    def _fetch(self, name: str) -> list[Record]:
        """Return the next records of a shard. One that has ended, or whose position is lost, lets the shards be looked for."""
        try:
            answer = self._client.get_records(ShardIterator=self._iterators[name])
        except Exception as error:
            self._log.event("stream_error", error=name_of(error))
            if name_of(error) in LOST:
                self._seen.discard(name)
                self._close(name)
            return []
        if position := answer.get("NextShardIterator"):
            self._iterators[name] = position
        else:
            self._close(name)
        return list(answer["Records"])

    def _close(self, name: str) -> None:
        del self._iterators[name]
        self._next_look = 0.0

    def _hand_on(self, records: list[Record]) -> None:
        """Let all be consumed. Those behind the last that failed are handed on again, which may not have been tried."""
        while records:
            try:
                answer = self._consume({"Records": records})["batchItemFailures"]
                failed = {each["itemIdentifier"] for each in answer}
                places = [at for at, each in enumerate(records) if each["dynamodb"]["SequenceNumber"] in failed]
            except Exception as error:
                self._log.event("stream_error", error=name_of(error))
                places = [*range(len(records))]
            until = self._surroundings.steady() + HELD_SECONDS
            self._failed += [_Failed(records[at], until - self._age(records[at])) for at in places]
            records = records[places[-1] + 1 :] if places else []

    def _age(self, record: Record) -> float:
        """Return the seconds since DynamoDB wrote the record; 0 for one without its time."""
        made = record["dynamodb"].get("ApproximateCreationDateTime")
        if made is None:
            return 0.0
        return self._surroundings.now_ms() / 1000 - (made.timestamp() if isinstance(made, datetime) else float(made))
