"""The relay: sends what rows of the ledger hold, at least once, each message under its own id, and takes it out of the row.

A row is asked before its messages are sent, because a stream's record may be a day old, or come again. Messages go in tens,
and a target that fails holds back its own alone. What has gone is marked once for ten rows, whatever failed: a relay that dies
before sends these again, under the same ids. `oneslot check` and the audit find a row that no relay has sent.

| target | where the id is |
|---|---|
| a queue or a topic | the message attribute `MessageDeduplicationId`, and on FIFO also SQS's or SNS's own parameter |
| an event bus | the first of the event's `resources` |

Within a FIFO group, the messages of one commit go out in their order. Between two commits there is no order.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from oneslot.runtime.effects import Item
from oneslot.runtime.envelopes import SEND_SOURCE
from oneslot.runtime.failures import ONE_MESSAGE, name_of
from oneslot.runtime.protocol import COMPLETE, SENDER, UNSENT
from oneslot.runtime.record import IDENTITY_ATTRIBUTE
from oneslot.runtime.sends.outbox import BUS, SENDS, TOPIC, Unsent, kind_of, region_of, text_of, unsent
from oneslot.runtime.sqs.batches import BATCH, Entry, next_batch, text_attributes
from oneslot.runtime.sqs.queue import GROUP_ATTRIBUTE, is_fifo
from oneslot.runtime.stores.dynamodb import DynamoDBLedger
from oneslot.runtime.values import from_attributes

ROWS = 10
"""The rows that are sent together: what a crash sends again."""
BATCH_BYTES = 262_144
"""Bytes of one call, by the API references of PublishBatch and PutEvents. SendMessageBatch takes more."""
RESERVED_MS = 20_000
"""Left of an invocation for one call whose attempts all run into their timeouts, and for the marks."""
YOUNG_MS = 60_000
"""The stream's record of a row that is younger is still on its way, so a look passes over it."""

_ONE_MESSAGE = ONE_MESSAGE | {"InvalidParameter", "ParameterValueInvalid", "ValidationError", "ValidationException"}
Outgoing = Entry[tuple[str, str]]
"""A message as a queue takes it, with the ids of its row and of itself."""


def _print(**fields: Any) -> None:
    print(json.dumps({"message": "relay", **fields}))  # noqa: T201  Lambda logs what is printed


@dataclass(slots=True)
class _Invocation:
    """What one invocation knows: when to end (epoch ms), the targets that failed as a whole, and the first message of each kind
    of failure."""

    end: int | None
    dead: dict[str, str] = field(default_factory=dict)
    failures: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)

    def is_over(self, now: int) -> bool:
        """Return whether no further call may begin."""
        return self.end is not None and now >= self.end

    def fail(self, to: str, code: str, message_id: str, send_id: str = "") -> None:
        """Note a failure: the first of its target and kind is named, and all are counted."""
        named = {"message_id": message_id, "id": send_id, "to": to, "failed": code, "count": 0}
        self.failures.setdefault((to, code), named)["count"] += 1


class Relay:
    """Sends what the rows of one ledger hold.

    Args:
        client: a service's name, such as "sqs" → its client. Another region than the ledger's is passed as `region_name`.
        log: takes the fields of a line. None names a body.
    """

    def __init__(
        self, ledger: DynamoDBLedger, client: Callable[..., Any], *, log: Callable[..., None] = _print
    ) -> None:
        self._ledger, self._client, self._log = ledger, client, log

    def consume(self, event: Mapping[str, Any], context: Any = None) -> dict[str, list[dict[str, str]]]:
        """Send for each record of the ledger's stream; return the records that failed, to the first of which Lambda returns."""
        records = [
            (each["dynamodb"].get("NewImage", {}), each["dynamodb"]["SequenceNumber"]) for each in event["Records"]
        ]
        numbers = {row["message_id"]["S"]: number for row, number in records if UNSENT in row}
        left = self.send(numbers, context)
        return {"batchItemFailures": [{"itemIdentifier": numbers[message_id]} for message_id in left]}

    def look(self, context: Any = None, *, index: str | None = None) -> None:
        """Send what has waited for a minute, and log how many rows wait, and the age of the oldest in seconds."""
        now = self._ledger.surroundings.now_ms()
        ages = {row["message_id"]: now - row["updated"] for row in self.waiting(index)}
        late = [message_id for message_id, age in ages.items() if age >= YOUNG_MS]
        # A look that runs out of time must not begin with the same rows each time.
        start = int(self._ledger.surroundings.jitter() * len(late))
        gone = {*late}.difference(self.send(late[start:] + late[:start], context))
        left = [age for message_id, age in ages.items() if message_id not in gone]
        self._log(waiting=len(left), oldest_seconds=max(left, default=0) // 1_000)

    def waiting(self, index: str | None = None) -> Iterator[Item]:
        """Yield every row whose messages this relay sends, by an index that has these alone. Without one it reads the table."""
        request: dict[str, Any] = {"TableName": self._ledger.table_name}
        if index:
            request["IndexName"] = index
        else:
            request |= {"FilterExpression": f"attribute_exists({UNSENT})", "ConsistentRead": True}
        client: Any = self._ledger.client
        while True:
            page = client.scan(**request)
            yield from filter(self._is_own, map(from_attributes, page["Items"]))
            if "LastEvaluatedKey" not in page:
                return
            request["ExclusiveStartKey"] = page["LastEvaluatedKey"]

    def send(self, message_ids: Iterable[str], context: Any = None) -> list[str]:
        """Send what these rows hold, and take it out of them. Return the ids of the rows that hold a message still.

        It ends before the time of `context` does, as of a Lambda function.
        """
        now = self._ledger.surroundings.now_ms
        run = _Invocation(now() + context.get_remaining_time_in_millis() - RESERVED_MS if context else None)
        rest, left = iter(message_ids), list[str]()
        while some := list(islice(rest, ROWS)):
            try:
                left += some if run.is_over(now()) else self._send_rows(some, run)
            except Exception as error:  # of the ledger: all are asked again
                run.fail("", name_of(error), some[0])
                left += some
        for failure in run.failures.values():
            self._log(**failure)
        return left

    def _send_rows(self, message_ids: Sequence[str], run: _Invocation) -> list[str]:
        rows, waiting = list[Item](), dict[str, list[Outgoing]]()
        for message_id in message_ids:
            key = {"message_id": {"S": message_id}}
            answer = self._ledger.client.get_item(TableName=self._ledger.table_name, Key=key, ConsistentRead=True)
            row = from_attributes(answer.get("Item", {}))
            if UNSENT not in row or not self._is_own(row):
                continue
            rows.append(row)
            for message in unsent(row):
                target = (self._ledger.sends or {}).get(message.to, "")
                waiting.setdefault(message.to, []).append(_outgoing(message_id, message, target))
        gone = {sent for to, entries in waiting.items() for sent in self._send_to(to, entries, run)}
        return [row["message_id"] for row in rows if not self._mark(row, gone)]

    def _is_own(self, row: Item) -> bool:
        """Return whether the row is of this relay's consumer: others may share the ledger, with targets of the same names."""
        own = self._ledger.sender
        return not own or row.get(SENDER, own) == own

    def _send_to(self, to: str, waiting: list[Outgoing], run: _Invocation) -> Iterator[str]:
        """Yield the id of each message that the target took. Within a row's FIFO group, none overtakes one that failed."""
        target, most = (self._ledger.sends or {}).get(to), BATCH
        if target is None:
            run.dead[to] = "UnknownTarget"
        while waiting:
            if to in run.dead or run.is_over(self._ledger.surroundings.now_ms()):
                for entry in waiting:
                    run.fail(to, run.dead.get(to, "OutOfTime"), *entry.message)
                return
            batch = next_batch(waiting, most, BATCH_BYTES)
            try:
                codes = self._call(str(target), to, batch)
            except Exception as error:
                code = name_of(error)
                if code not in _ONE_MESSAGE:
                    run.dead[to] = code
                    continue
                if len(batch) > 1:
                    most = 1  # one of the messages is at fault, which is found by sending each alone
                    continue
                codes = [code]
            held = set()
            for entry, code in zip(batch, codes, strict=True):
                if code:
                    run.fail(to, code, *entry.message)
                    held.add(entry.ordered)
                else:
                    yield entry.message[1]
            waiting = [each for each in waiting if each not in batch and not (each.ordered and each.ordered in held)]

    def _call(self, target: str, to: str, batch: Sequence[Outgoing]) -> list[str]:
        """Make one call. Return for each entry the code with which it was refused, empty if it was accepted."""
        kind, region = kind_of(target), region_of(target)
        home = getattr(getattr(self._ledger.client, "meta", None), "region_name", region)
        elsewhere = {"region_name": region} if region and region != home else {}
        client = self._client(kind, **elsewhere)
        if kind == BUS:
            event = {"EventBusName": target, "Source": SEND_SOURCE, "DetailType": to}
            answer = client.put_events(
                Entries=[
                    {**event, "Detail": each.parameters["MessageBody"], "Resources": [each.message[1]]}
                    for each in batch
                ]
            )
            return [each.get("ErrorCode", "") for each in answer["Entries"]]
        entries = [{"Id": each.message[1], **each.parameters} for each in batch]
        if kind == TOPIC:
            for entry in entries:
                entry["Message"] = entry.pop("MessageBody")
            answer = client.publish_batch(TopicArn=target, PublishBatchRequestEntries=entries)
        else:
            answer = client.send_message_batch(QueueUrl=target, Entries=entries)
        codes = {each["Id"]: "" for each in answer.get("Successful", ())}
        codes |= {each["Id"]: each["Code"] for each in answer.get("Failed", ())}
        return [codes.get(each.message[1], "NoAnswer") for each in batch]

    def _mark(self, row: Item, gone: set[str]) -> bool:
        """Take what has gone out of the row, which expires from then on if it was all. Return whether it holds no more.

        The number of the unsent only falls, so it says whether the row is as it was read. If another relay has taken out some
        meanwhile, or the row is gone or another's, it stays as it is, and is asked again.
        """
        held = unsent(row)
        left = [message for message in held if message.id not in gone]
        if len(left) == len(held):
            return False
        expiry = {} if left else self._ledger.expiry(self._ledger.surroundings.now_ms())
        change = f"SET {SENDS} = :sends, {UNSENT} = :left" if left else f"REMOVE {SENDS}, {UNSENT}, {SENDER}"
        marked, _ = self._ledger.update_row(
            row["message_id"],
            f"#status = :complete AND claimed_by = :claimed_by AND {UNSENT} = :held",
            change + "".join(f" SET {name} = :{name}" for name in expiry),
            {
                ":complete": COMPLETE,
                ":claimed_by": row["claimed_by"],
                ":held": len(held),
                **({":sends": text_of(left), ":left": len(left)} if left else {}),
                **{f":{name}": end for name, end in expiry.items()},
            },
        )
        return marked and not left


def _outgoing(message_id: str, message: Unsent, target: str) -> Outgoing:
    group = {GROUP_ATTRIBUTE: message.group} if message.group else {}
    once = {"MessageDeduplicationId": message.id} if is_fifo(target) else {}
    identity = text_attributes({IDENTITY_ATTRIBUTE: message.id})
    parameters = {"MessageBody": message.body, **identity, **group, **once}
    return Entry((message_id, message.id), parameters, json.dumps([message_id, message.group]) if once else None)
