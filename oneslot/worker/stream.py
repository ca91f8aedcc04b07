"""Reads a ledger's stream without Lambda, and hands its records to the relay as Lambda's mapping would.

Each shard's records stay in order. A record that fails is repeated, while those behind it in its shard wait, for an hour.
Then the shard goes on, and the record's messages wait in the ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import ClientError

from oneslot.runtime.surroundings import Event, Surroundings
from oneslot.worker.log import WorkerLog

HELD_SECONDS = 3_600.0
IDLE_SECONDS = 0.5
LONGEST_PAUSE = 30.0

Consume = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""An event → Lambda's partial batch response, as `Relay.consume` gives it."""


@dataclass(slots=True)
class _Shard:
    """A shard: where to read on, the last record that was read, and those that are not done. Times are steady seconds."""

    iterator: str | None
    last: str = ""
    records: list[dict[str, Any]] = field(default_factory=list)
    failing_since: float | None = None
    not_before: float = 0.0
    pause: float = IDLE_SECONDS


class LedgerStream:
    """Reads on from `start`: LATEST, or TRIM_HORIZON for all of the last day. Its position is open once this is made.

    `consume` gets each event. A new shard is read when one ends.
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
        self._shards: dict[str, _Shard] = {}
        self._seen: set[str] = set()
        self._open(start)

    def run(self, stopping: Event) -> None:
        """Read until `stopping` is set."""
        while not stopping.is_set():
            if not self.read():
                stopping.wait(IDLE_SECONDS)

    def read(self) -> bool:
        """Read each shard once, and hand on what it has; return whether anything was done."""
        done = False
        for name, shard in [*self._shards.items()]:
            if not shard.records:
                self._fetch(name, shard)
            done |= self._hand_on(shard)
            if shard.iterator is None and not shard.records:
                del self._shards[name]
                self._open("TRIM_HORIZON")
        return done

    def _open(self, start: str) -> None:
        request: dict[str, Any] = {"StreamArn": self._arn}
        while True:
            about = self._client.describe_stream(**request)["StreamDescription"]
            for each in about["Shards"]:
                name, ended = each["ShardId"], "EndingSequenceNumber" in each["SequenceNumberRange"]
                if name not in self._seen and not (ended and start == "LATEST"):
                    self._shards[name] = _Shard(self._iterator(name, ShardIteratorType=start))
                self._seen.add(name)
            if "LastEvaluatedShardId" not in about:
                return
            request["ExclusiveStartShardId"] = about["LastEvaluatedShardId"]

    def _iterator(self, name: str, **position: str) -> str:
        found: str = self._client.get_shard_iterator(StreamArn=self._arn, ShardId=name, **position)["ShardIterator"]
        return found

    def _fetch(self, name: str, shard: _Shard) -> None:
        if shard.iterator is None:
            return
        try:
            answer = self._client.get_records(ShardIterator=shard.iterator)
        except ClientError as error:
            if error.response["Error"]["Code"] != "ExpiredIteratorException" or not shard.last:
                raise
            shard.iterator = self._iterator(name, ShardIteratorType="AFTER_SEQUENCE_NUMBER", SequenceNumber=shard.last)
            return
        shard.iterator, shard.records = answer.get("NextShardIterator"), list(answer["Records"])
        if shard.records:
            shard.last = shard.records[-1]["dynamodb"]["SequenceNumber"]

    def _hand_on(self, shard: _Shard) -> bool:
        now = self._surroundings.steady()
        if not shard.records or now < shard.not_before:
            return False
        failed = self._consume({"Records": shard.records})["batchItemFailures"]
        numbers = [record["dynamodb"]["SequenceNumber"] for record in shard.records]
        at = numbers.index(failed[0]["itemIdentifier"]) if failed else len(numbers)
        shard.records = shard.records[at:]
        if at:
            shard.failing_since, shard.pause = None, IDLE_SECONDS
        if not shard.records:
            return True
        shard.failing_since = now if shard.failing_since is None else shard.failing_since
        if now - shard.failing_since >= HELD_SECONDS:
            self._log.event("set_aside", sequence_number=numbers[at])
            shard.failing_since, shard.records, shard.pause = None, shard.records[1:], IDLE_SECONDS
            return True
        shard.not_before, shard.pause = now + shard.pause, min(LONGEST_PAUSE, shard.pause * 2)
        return False
