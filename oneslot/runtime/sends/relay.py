"""The relay: sends what rows of the ledger hold, at least once, each message under its own id, and then marks the row.

A relay that dies between the send and the mark sends again, under the same id. `oneslot check` and the audit find a row that
no relay has sent.

| target | where the id is |
|---|---|
| a queue or a topic | the message attribute `MessageDeduplicationId`, and on FIFO also SQS's or SNS's own parameter |
| an event bus | the first of the event's `resources` |
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from oneslot.runtime.effects import Item
from oneslot.runtime.envelopes import SEND_SOURCE
from oneslot.runtime.failures import name_of
from oneslot.runtime.identity import IDENTITY_ATTRIBUTE
from oneslot.runtime.protocol import UNSENT
from oneslot.runtime.sends.outbox import BUS, SENDS, TOPIC, Unsent, kind_of, unsent
from oneslot.runtime.sqs.fifo import is_fifo
from oneslot.runtime.stores.dynamodb import DynamoDBLedger
from oneslot.runtime.stores.expressions import error_code
from oneslot.runtime.values import from_attributes, to_attributes


class NotSent(Exception):
    """A message was not sent: its target has no name here, or EventBridge refused it."""


class Relay:
    """Sends what the rows of one ledger hold.

    Args:
        client: a service's name, such as "sqs" → its client.
    """

    def __init__(self, ledger: DynamoDBLedger, client: Callable[[str], Any]) -> None:
        self._ledger = ledger
        self._client = client

    def consume(self, event: Mapping[str, Any], _context: object = None) -> dict[str, list[dict[str, str]]]:
        """Send for each record of the ledger's stream; return the first record that failed, from which Lambda goes on."""
        for record in event["Records"]:
            row = record["dynamodb"].get("NewImage", {})
            if UNSENT not in row:
                continue
            try:
                self.send(from_attributes(row))
            except Exception as error:
                # The class only: an error's text may quote the message.
                print(json.dumps({"message": "relay", "failed": name_of(error)}))  # noqa: T201  Lambda logs what is printed
                return {"batchItemFailures": [{"itemIdentifier": record["dynamodb"]["SequenceNumber"]}]}
        return {"batchItemFailures": []}

    def waiting(self) -> Iterator[Item]:
        """Yield every row of the ledger whose messages are not marked as sent. It reads the whole table."""
        request: dict[str, Any] = {
            "TableName": self._ledger.table_name,
            "FilterExpression": f"attribute_exists({UNSENT})",
            "ConsistentRead": True,
        }
        client: Any = self._ledger.client
        while True:
            page = client.scan(**request)
            yield from map(from_attributes, page["Items"])
            if "LastEvaluatedKey" not in page:
                return
            request["ExclusiveStartKey"] = page["LastEvaluatedKey"]

    def send(self, row: Item) -> None:
        """Send the messages of a row, in their order, and mark it.

        Raises:
            NotSent: for a target without a name here, and for a refused event.
        """
        for message in unsent(row):
            self._send(message)
        self._mark(row)

    def _send(self, message: Unsent) -> None:
        target = (self._ledger.sends or {}).get(message.to)
        if target is None:
            raise NotSent(f"the target {message.to!r} is unknown; name it in `sends`, or in ONESLOT_SEND_...")
        attributes = {IDENTITY_ATTRIBUTE: {"DataType": "String", "StringValue": message.id}}
        fifo = {"MessageGroupId": message.group, "MessageDeduplicationId": message.id} if is_fifo(target) else {}
        kind = kind_of(target)
        if kind == TOPIC:
            self._client("sns").publish(TopicArn=target, Message=message.body, MessageAttributes=attributes, **fifo)
        elif kind == BUS:
            event = {"Source": SEND_SOURCE, "DetailType": message.to, "Detail": message.body}
            entry = {"EventBusName": target, **event, "Resources": [message.id]}
            answer = self._client("events").put_events(Entries=[entry])
            if answer["FailedEntryCount"]:
                raise NotSent(f"EventBridge refused an event: {answer['Entries'][0].get('ErrorCode')}")
        else:
            self._client("sqs").send_message(
                QueueUrl=target, MessageBody=message.body, MessageAttributes=attributes, **fifo
            )

    def _mark(self, row: Item) -> None:
        """Mark the row as sent, and let it expire from now on. A row that is gone, or marked, stays as it is."""
        expiry = self._ledger.expiry(self._ledger.surroundings.now_ms())
        values = to_attributes({":claimed_by": row["claimed_by"], **{f":{name}": end for name, end in expiry.items()}})
        lives = "".join(f" SET {name} = :{name}" for name in expiry)
        try:
            self._ledger.client.update_item(
                TableName=self._ledger.table_name,
                Key={"message_id": {"S": row["message_id"]}},
                ConditionExpression=f"claimed_by = :claimed_by AND attribute_exists({UNSENT})",
                UpdateExpression=f"REMOVE {SENDS}, {UNSENT}{lives}",
                ExpressionAttributeValues=values,
            )
        except Exception as error:
            if error_code(error) != "ConditionalCheckFailedException":
                raise
