"""One hostile message beside a good one, through the whole consumer, and the promises that must hold afterwards.

The consumer is composed as in Lambda, on in-memory DynamoDB and SQS. An input is bytes: the body, or the text of the identity
attribute and the body, separated by a NUL byte.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, cast

from appointments import nhs_number
from appointments.slot_choice import free_key
from booking.compose import compose
from booking.configuration import Configuration
from oneslot.explorer.services.contents import Contents
from oneslot.explorer.services.dynamodb import InMemoryDynamoDB
from oneslot.explorer.services.sqs.explored import ExploredSQS
from oneslot.runtime.consumer.delivery_log import Delivery
from oneslot.runtime.identity import IDENTITY_ATTRIBUTE
from oneslot.runtime.sqs.dead_letters import DETAIL_ATTRIBUTE, REASON_ATTRIBUTE
from oneslot.runtime.stores.expressions import DynamoDB, to_attributes
from oneslot.runtime.surroundings import Surroundings
from verification.scenarios.practice import TABLES

NOW_MS = 1_767_600_000_000  # 5 January 2026: before the slots below
QUEUE, DEAD_LETTERS = "requests", "dead-letters"
PRACTICE = "A81001"
GOOD = {
    "message_id": "good-neighbour",
    "type": "book",
    "practice": PRACTICE,
    "nhs_number": "9990000018",
    "not_before": "2026-01-05T08:00:00Z",
    "not_after": "2026-12-31T18:00:00Z",
    "delivery_channel": "In-person",
    "service_type": "General Consultation Routine",
}
ENVIRONMENT = {
    "ONESLOT_LEDGER_TABLE": "ledger",
    "ONESLOT_TABLE_SLOTS": "slots",
    "ONESLOT_TABLE_APPOINTMENTS": "appointments",
    "ONESLOT_QUEUE_URL": QUEUE,
    "ONESLOT_DEAD_LETTER_QUEUE_URL": DEAD_LETTERS,
    "ONESLOT_LEDGER_RETENTION_SECONDS": "forever",
    "BATCH_CONCURRENCY": "1",
    "CANDIDATE_SLOTS": "16",
}


class Broken(AssertionError):
    """A promise that did not hold for this input."""


@dataclass(frozen=True, slots=True)
class Fate:
    """The fate of the hostile message: complete in the ledger, or quarantined for a reason."""

    complete: bool
    reason: str | None


class _Context:
    aws_request_id = "invocation"

    def get_remaining_time_in_millis(self) -> int:
        """Return half a minute, because time stands still."""
        return 30_000


def consume(data: bytes, *, content_based: bool = False) -> Fate:
    """Deliver the hostile message and a good one in one batch. Raises `Broken`, or the consumer's error."""
    attribute, separator, rest = data.partition(b"\x00")
    body = (rest if separator else data).decode("utf-8", "surrogateescape")
    identity = attribute.decode("utf-8", "surrogateescape") if separator else None
    dynamodb, queues, deliveries = _world(), dict[str, list[Mapping[str, Any]]](), list[Delivery]()
    configuration = Configuration.from_environment(
        {**ENVIRONMENT, "CONTENT_BASED_DEDUPLICATION": str(content_based).lower()}
    )
    consumer = compose(
        configuration,
        cast("DynamoDB", dynamodb),
        # Unchecked: a hostile body may have characters that SQS does not hold.
        ExploredSQS(queues, checked=False),
        deliveries.append,
        surroundings=Surroundings(now_ms=lambda: NOW_MS, sleep=lambda _: None, jitter=lambda: 0.5),
    )
    records = [_record("hostile", body, identity), _record("good", json.dumps(GOOD), None)]
    answer = consumer({"Records": records}, _Context())
    _need(answer == {"batchItemFailures": []}, f"reported as failed: {answer}")
    return _judge(dynamodb, queues.get(DEAD_LETTERS, []), deliveries, body)


def _judge(dynamodb: InMemoryDynamoDB, dead: list[Mapping[str, Any]], deliveries: list[Delivery], body: str) -> Fate:
    hostile, good = (next(each for each in deliveries if each.sqs_message_id == name) for name in ("hostile", "good"))
    rows = {row["message_id"]["S"]: row for row in dynamodb.scan(TableName="ledger")["Items"]}
    same = hostile.message_id == GOOD["message_id"]
    # A hostile cancellation of the neighbour that came first is an answer, too.
    answered = GOOD["message_id"] in rows and good.outcome in ("booked", "duplicate")
    _need(same or answered, f"the good neighbour is {good.outcome}: {good.reason}")
    _need(all(row["status"]["S"] == "COMPLETE" or hostile.outcome == "quarantined" for row in rows.values()), "stuck")
    logged = json.dumps([asdict(each) for each in deliveries])
    quarantined = [each for each in dead if each["MessageBody"] == body]
    for letter in quarantined:
        reasons = {
            name: letter["MessageAttributes"][name]["StringValue"] for name in (REASON_ATTRIBUTE, DETAIL_ATTRIBUTE)
        }
        _need(all(reasons.values()), "quarantined without a reason")
        logged += json.dumps(reasons)
    _need(not nhs_number.contains_one(logged), "an NHS number is logged")
    if hostile.outcome == "quarantined":
        _need(len(quarantined) >= 1, "logged as quarantined, and in no queue")
        return Fate(complete=False, reason=hostile.reason)
    _need(hostile.message_id in rows, "acknowledged, and there is no row: lost")
    return Fate(complete=True, reason=None)


def _need(holds: bool, otherwise: str) -> None:
    if not holds:
        raise Broken(otherwise)


def _world() -> InMemoryDynamoDB:
    dynamodb = InMemoryDynamoDB(lambda: NOW_MS, TABLES, Contents({name: {} for name in TABLES}))
    for slot in _SLOT_ITEMS:
        dynamodb.put_item(TableName="slots", Item=slot)
    return dynamodb


def _slot(number: int) -> dict[str, Any]:
    slot = {
        "practice": PRACTICE,
        "slot_id": f"slot-{number}",
        "start": f"2026-03-0{number + 1}T09:00:00Z",
        "end": f"2026-03-0{number + 1}T09:10:00Z",
        "status": "free",
        "delivery_channel": GOOD["delivery_channel"],
        "service_type": GOOD["service_type"],
    }
    return to_attributes({**slot, "free_key": free_key(slot)})


_SLOT_ITEMS = tuple(_slot(number) for number in range(2))


def _record(name: str, body: str, identity: str | None) -> dict[str, Any]:
    attributes = {} if identity is None else {IDENTITY_ATTRIBUTE: {"stringValue": identity, "dataType": "String"}}
    return {
        "messageId": name,
        "receiptHandle": name,
        "body": body,
        "attributes": {"ApproximateReceiveCount": "1", "SentTimestamp": str(NOW_MS)},
        "messageAttributes": attributes,
        "eventSource": "aws:sqs",
        "eventSourceARN": "arn:aws:sqs:eu-west-2:111122223333:requests",
        "awsRegion": "eu-west-2",
    }
