"""The kit of the consumer's tests: tables and queues on moto, a context, and event JSON as Lambda passes it."""

import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, cast

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from appointments.allocation import FREE_SLOTS_INDEX, free_key, utc_text
from booking.consumer import appointments_consumer
from oneslot.runtime.consumer.consumer import Consumer
from oneslot.runtime.record import Delivery, Record
from oneslot.runtime.sqs import lambda_event
from oneslot.runtime.surroundings import Surroundings
from oneslot.runtime.values import from_attributes, to_attributes

REGION = "eu-west-2"
PRACTICE = "A81001"
CHANNEL = "Telephone"
SERVICE = "General Consultation Routine"
NHS_NUMBER = "9990000018"
# The real handler reads the real clock, so slots and bookings are far in the future.
START = datetime(2099, 11, 23, 8, 0, tzinfo=UTC)
BEFORE = int(datetime(2026, 11, 20, 8, 0, tzinfo=UTC).timestamp() * 1000)


_ids = itertools.count(1)


@dataclass
class Clock:
    """A clock (epoch ms) that only a sleep or a test moves."""

    now: int = BEFORE

    def __call__(self) -> int:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += int(seconds * 1000)


@dataclass
class Context:
    """The part of Lambda's context that the consumer uses."""

    clock: Clock
    timeout_ms: int = 30_000
    aws_request_id: str = "request-1"
    deadline: int = field(init=False)

    def __post_init__(self) -> None:
        self.deadline = self.clock() + self.timeout_ms

    def get_remaining_time_in_millis(self) -> int:
        return max(0, self.deadline - self.clock())


def surroundings(clock: Clock) -> Surroundings:
    """Return surroundings with this clock, unique ids (they are the fence), and no jitter."""
    return Surroundings(now_ms=clock, new_id=lambda: f"id-{next(_ids)}", sleep=clock.sleep, jitter=lambda: 0.5)


def create_table(dynamodb: Any, name: str, key: str) -> None:
    """Create a table whose only key is a text."""
    dynamodb.create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": key, "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"}],
    )


def create_tables(dynamodb: Any) -> None:
    """Create the three tables as the stack defines them. tests/stacks compares its template with these."""
    create_table(dynamodb, "ledger", "message_id")
    create_table(dynamodb, "appointments", "appointment_id")
    dynamodb.create_table(
        TableName="slots",
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": "practice", "KeyType": "HASH"}, {"AttributeName": "slot_id", "KeyType": "RANGE"}],
        AttributeDefinitions=[
            {"AttributeName": name, "AttributeType": "S"} for name in ("practice", "slot_id", "free_key")
        ],
        LocalSecondaryIndexes=[
            {
                "IndexName": FREE_SLOTS_INDEX,
                "KeySchema": [
                    {"AttributeName": "practice", "KeyType": "HASH"},
                    {"AttributeName": "free_key", "KeyType": "RANGE"},
                ],
                "Projection": {"ProjectionType": "KEYS_ONLY"},
            }
        ],
    )


def as_record(raw: Mapping[str, Any], message_id: str | None = None) -> Record[Any]:
    """A record with this message id, whatever its body says."""
    parsed: Record[Any] = Record.parse(raw, lambda *_: cast("Any", None))
    return replace(parsed, message_id=message_id, problem=None)


def slot_item(number: int, practice: str = PRACTICE) -> dict[str, Any]:
    """Return the free slot with this number. Each starts ten minutes after the one before."""
    start = START + timedelta(minutes=10 * number)
    slot = {
        "practice": practice,
        "slot_id": f"{start:%Y%m%dT%H%MZ}-01",
        "start": utc_text(start),
        "end": utc_text(start + timedelta(minutes=10)),
        "status": "free",
        "delivery_channel": CHANNEL,
        "service_type": SERVICE,
    }
    return {**slot, "free_key": free_key(slot)}


def booking(message_id: Any = "m-1", **changes: Any) -> dict[str, Any]:
    """Return the body of a booking that succeeds. `changes` replace fields, and None removes one."""
    body: dict[str, Any] = {
        "message_id": message_id,
        "type": "book",
        "practice": PRACTICE,
        "nhs_number": NHS_NUMBER,
        "not_before": "2099-11-23T08:00:00Z",
        "not_after": "2099-11-24T08:00:00Z",
        "delivery_channel": CHANNEL,
        "service_type": SERVICE,
        **changes,
    }
    return {name: value for name, value in body.items() if value is not None}


def cancellation(appointment_id: str, message_id: str = "c-1") -> dict[str, Any]:
    """Return the body of a cancellation."""
    return {"message_id": message_id, "type": "cancel", "appointment_id": appointment_id}


_sqs_ids = itertools.count(1)


def record(
    body: Mapping[str, Any] | str, *, attributes: Mapping[str, str] | None = None, receive_count: int = 1
) -> dict[str, Any]:
    """Return one record of an SQS event, with every field that Lambda sends."""
    number = next(_sqs_ids)
    message = lambda_event.received(
        body if isinstance(body, str) else json.dumps(body),
        f"00000000-0000-4000-8000-{number:012d}",
        f"receipt-{number}",
        receives=receive_count,
        sent_ms=BEFORE - 1_000,
    )
    message["MessageAttributes"] = {
        name: {"StringValue": value, "DataType": "String"} for name, value in (attributes or {}).items()
    }
    return lambda_event.record(message, queue_arn=f"arn:aws:sqs:{REGION}:123456789012:requests", region=REGION)


@dataclass
class Bench:
    """A consumer on moto, its clock, and everything that it wrote."""

    dynamodb: Any
    sqs: Any
    environment: Mapping[str, str]
    clock: Clock
    deliveries: list[Delivery] = field(default_factory=list)
    consumer: Consumer[Any] = field(init=False)

    def another_consumer(self, environment: Mapping[str, str] | None = None, **changes: Any) -> Consumer[Any]:
        """Return a second consumer on the same tables. `environment` and `changes` replace variables and arguments."""
        arguments = {
            "log": self.deliveries.append,
            "dynamodb": self.dynamodb,
            "sqs": self.sqs,
            "surroundings": surroundings(self.clock),
            **changes,
        }
        return appointments_consumer({**self.environment, **(environment or {})}, **arguments)

    def deliver(self, *records: dict[str, Any], consumer: Consumer[Any] | None = None) -> list[str]:
        """Invoke with these records. Return the SQS ids that were reported as failed."""
        answer = (consumer or self.consumer)({"Records": list(records)}, Context(self.clock))
        return [failure["itemIdentifier"] for failure in answer["batchItemFailures"]]

    def seed(self, slots: int, practice: str = PRACTICE) -> None:
        """Create this many free slots."""
        for number in range(slots):
            self.dynamodb.put_item(TableName="slots", Item=to_attributes(slot_item(number, practice)))

    def rows(self, table: str) -> list[dict[str, Any]]:
        """Return all rows of a table."""
        return [from_attributes(item) for item in self.dynamodb.scan(TableName=table)["Items"]]

    def row(self, message_id: str) -> dict[str, Any]:
        """Return a row of the ledger."""
        key = {"message_id": {"S": message_id}}
        return from_attributes(self.dynamodb.get_item(TableName="ledger", Key=key, ConsistentRead=True)["Item"])

    def dead_letters(self) -> list[dict[str, Any]]:
        """Return the messages in the dead-letter queue."""
        answer = self.sqs.receive_message(
            QueueUrl=self.dead_letter_queue_url,
            MaxNumberOfMessages=10,
            MessageAttributeNames=["All"],
            VisibilityTimeout=0,
        )
        return cast("list[dict[str, Any]]", answer.get("Messages", []))

    @property
    def queue_url(self) -> str:
        """The URL of the queue."""
        return self.environment["ONESLOT_QUEUE_URL"]

    @property
    def dead_letter_queue_url(self) -> str:
        """The URL of the dead-letter queue."""
        return self.environment["ONESLOT_DEAD_LETTER_QUEUE_URL"]

    @property
    def outcomes(self) -> Sequence[str]:
        """The outcomes of all deliveries so far."""
        return [delivery.outcome for delivery in self.deliveries]


@cache
def moto_client(service: str, region_name: str = REGION) -> Any:
    """Return the one client of a service for moto in this process. To make one takes as long as all else of a test."""
    session: Any = boto3.Session("123456789012", "none", region_name=region_name)
    return session.client(service)


@contextmanager
def bench(slots: int = 3) -> Iterator[Bench]:
    """Yield a bench with `slots` free slots at one practice."""
    with mock_aws():
        dynamodb, sqs = moto_client("dynamodb"), moto_client("sqs")
        create_tables(dynamodb)
        environment = {
            "ONESLOT_LEDGER_TABLE": "ledger",
            "ONESLOT_TABLE_SLOTS": "slots",
            "ONESLOT_TABLE_APPOINTMENTS": "appointments",
            "ONESLOT_QUEUE_URL": sqs.create_queue(QueueName="requests")["QueueUrl"],
            "ONESLOT_DEAD_LETTER_QUEUE_URL": sqs.create_queue(QueueName="requests-dead-letters")["QueueUrl"],
            "ONESLOT_LEDGER_RETENTION_SECONDS": str(30 * 86_400),
            "BATCH_CONCURRENCY": "1",
            "CANDIDATE_SLOTS": "20",
        }
        made = Bench(dynamodb, sqs, environment, Clock())
        made.consumer = made.another_consumer()
        made.seed(slots)
        yield made


class Killed(BaseException):
    """The death of the process: no `except Exception` catches it, and its clients make no further call."""


class Intercepted:
    """A client that intercepts the next call of each named operation, before or after the service acts.

    `before(call)` and `after(call)` get the client's bound call. They may make it, once or several times (a retry, a
    late arrival), and they may raise. A value that `after` returns replaces the answer.
    """

    def __init__(
        self,
        client: Any,
        *,
        before: Mapping[str, Callable[[Callable[[], Any]], Any]] | None = None,
        after: Mapping[str, Callable[[Callable[[], Any]], Any]] | None = None,
    ) -> None:
        self._client = client
        self._before = dict(before or {})
        self._after = dict(after or {})
        self.calls: list[str] = []
        self._dead = False

    def __getattr__(self, name: str) -> Any:
        def call(**request: Any) -> Any:
            if self._dead:
                raise Killed
            try:
                return living(**request)
            except Killed:
                self._dead = True
                raise

        def living(**request: Any) -> Any:
            self.calls.append(name)

            def perform() -> Any:
                return getattr(self._client, name)(**request)

            before, after = self._before.pop(name, None), self._after.pop(name, None)
            if before:
                before(perform)
            answer = perform()
            replaced = after(perform) if after else None
            return answer if replaced is None else replaced

        return call


class Failing:
    """A client whose every call raises `error`. It counts the calls."""

    def __init__(self, error: Exception) -> None:
        self._error = error
        self.calls = 0

    def __getattr__(self, name: str) -> Any:
        def call(**_request: Any) -> Any:
            self.calls += 1
            raise self._error

        return call


def service_error(code: str, operation: str = "UpdateItem") -> ClientError:
    """Return an error as the SDK raises it."""
    return ClientError({"Error": {"Code": code, "Message": "for the test"}}, operation)


def refusal(call: Callable[[], Any]) -> dict[str, Any]:
    """Return the answer with which a service refuses a call."""
    with pytest.raises(ClientError) as caught:
        call()
    return dict(caught.value.response)


def cancelled(*codes: str) -> ClientError:
    """Return the error of a cancelled transaction with these reasons."""
    return ClientError(
        {
            "Error": {"Code": "TransactionCanceledException", "Message": "for the test"},
            "CancellationReasons": [{"Code": code} for code in codes],
        },
        "TransactWriteItems",
    )


def raising(error: BaseException) -> Callable[[Callable[[], Any]], Any]:
    """For `Intercepted`: raise instead of going on."""

    def raise_it(_perform: Callable[[], Any]) -> Any:
        raise error

    return raise_it
