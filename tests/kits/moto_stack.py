"""A stack on moto that stands in for the running local stack of the command line."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from demo.plan import Plan, make_plan, save
from demo.seeding import BATCH
from oneslot.local.aws.connection import Connection
from oneslot.local.state import LocalState, start_ticks
from oneslot.operator.target import Target, local_target
from oneslot.runtime.surroundings import Surroundings
from oneslot.runtime.values import to_attributes
from tests.kits.consumer import Bench, bench, booking, cancellation, record

NOW = {"not_before": "2020-01-01T08:00:00Z", "not_after": "2100-01-01T08:00:00Z"}
"""A window that is open."""
PLAN = make_plan(12, slots=20, seed=1, monday=date(2035, 1, 1))
"""Slots that no test outlives."""
MAPPING = "6f4a2d1e-0000-4000-8000-000000000000"
ENVIRONMENT = {"CONTENT_BASED_DEDUPLICATION": "false", "ONESLOT_LEDGER_RETENTION_SECONDS": "2592000"}


def invoke(*arguments: str, **environment: str) -> Result:
    """Run one command line in this process."""
    from oneslot.operator.cli import main  # not for tests that run no command

    return CliRunner().invoke(main, list(arguments), env={"COLUMNS": "", **environment})


def document(result: Result, exit_code: int = 0) -> dict[str, Any]:
    """Return the JSON document of a command, after asserting its exit status."""
    assert (result.exit_code, "Unexpected" in result.output) == (exit_code, False), result.output
    loaded = json.loads(result.stdout)
    assert isinstance(loaded, dict)
    return loaded


class Logs:
    """A log group whose two pages answer every question; the questions are kept."""

    def __init__(self, *lines: str) -> None:
        self.asked: list[dict[str, Any]] = []
        self._lines = lines

    def get_paginator(self, operation: str) -> Logs:
        assert operation == "filter_log_events"
        return self

    def paginate(self, **question: Any) -> list[dict[str, Any]]:
        self.asked.append(question)
        half = len(self._lines) // 2
        events = [
            {"message": line, "eventId": f"e-{number}", "logStreamName": "s"}
            for number, line in enumerate(self._lines, 1)
        ]
        return [{"events": part} for part in (events[:half], events[half:])]


@dataclass
class MotoStack:
    """The stack, its consumer, and its state folder."""

    bench: Bench
    target: Target

    @property
    def home(self) -> Path:
        """The state folder."""
        return self.target.home

    def target_with(self, sqs: Any, surroundings: Surroundings | None = None) -> Target:
        """Return the target with another SQS client, in virtual surroundings if given."""
        clients: Any = SimpleNamespace(sqs=lambda: sqs)
        return replace(self.target, clients=clients, surroundings=surroundings or self.target.surroundings)

    def on_aws(self, logs: Logs | None = None) -> Target:
        """Return the target as the stack Oneslot-prod on AWS, which has this delivery log."""
        target = replace(self.target, local=None, stack_name="Oneslot-prod")
        target.__dict__.update(sqs=self.bench.sqs, dynamodb=self.bench.dynamodb)
        target.__dict__.update(functions=Functions(ENVIRONMENT), logs=logs or Logs())
        return target

    def seed(self, plan: Plan) -> None:
        """Put a plan's slots into the table, and save the plan, as `oneslot seed` does."""
        items = [{"PutRequest": {"Item": to_attributes(item)}} for item in plan.items()]
        for start in range(0, len(items), BATCH):
            self.bench.dynamodb.batch_write_item(RequestItems={"slots": items[start : start + BATCH]})
        save(plan, self.target.plan, self.target.identity)

    def put_dead_letter(self, body: dict[str, Any] | str, **attributes: str) -> str:
        """Put a message into the dead-letter queue, as the redrive policy does. Return its SQS id."""
        answer = self.bench.sqs.send_message(
            QueueUrl=self.target.outputs.dead_letter_queue_url,
            MessageBody=body if isinstance(body, str) else json.dumps(body),
            MessageAttributes={
                name: {"DataType": "String", "StringValue": value} for name, value in attributes.items()
            },
        )
        time.sleep(0.002)  # the next one then has a later time, and a list by time has one order
        return str(answer["MessageId"])

    def consume(self, *, twice: Sequence[str] = ()) -> None:
        """Deliver every message of the queue; those whose ids are in `twice` once more at the end."""
        queue_url, sqs = self.bench.queue_url, self.bench.sqs
        again: list[dict[str, Any]] = []
        while messages := sqs.receive_message(
            QueueUrl=queue_url, MaxNumberOfMessages=10, MessageAttributeNames=["All"]
        ).get("Messages", []):
            for message in messages:
                attributes = {
                    name: value["StringValue"] for name, value in message.get("MessageAttributes", {}).items()
                }
                delivered = record(message["Body"], attributes=attributes) | {"messageId": message["MessageId"]}
                if self.bench.deliver(delivered) == []:
                    sqs.delete_message(QueueUrl=queue_url, ReceiptHandle=message["ReceiptHandle"])
                if any(message_id in message["Body"] for message_id in twice):
                    again.append(delivered)
        for delivered in again:
            self.bench.deliver(delivered)
        self.write_log()

    def write_log(self) -> None:
        """Write the delivery log as the handler's Logger does: without None, among other lines."""
        lines = ["not json at all, of a delivery", json.dumps({"_aws": {}, "service": "appointments"})]
        for delivery in self.bench.deliveries:
            said = {name: value for name, value in asdict(delivery).items() if value is not None}
            lines.append(json.dumps({"level": "INFO", "message": "delivery", **said}))
        assert self.target.local is not None
        Path(self.target.local.log_file).write_text("\n".join(lines) + "\n")


def put_one_of_each(stack: MotoStack) -> None:
    """Put dead letters of every outlook, named by their ids."""
    stack.bench.deliver(record(booking("duplicate", **NOW)), record(booking("done_before", **NOW)))
    stack.bench.deliver(record(booking("conflict", **NOW)))
    stack.bench.deliver(record(booking("forgotten", **NOW)))
    for name in ("done_before", "forgotten"):
        stack.bench.dynamodb.delete_item(TableName="ledger", Key={"message_id": {"S": name}})
    for name, lease in (("stuck", 1), ("busy", 4_000_000_000_000)):
        stack.bench.deliver(record(booking(name, **NOW)))
        stack.bench.dynamodb.update_item(
            TableName="ledger",
            Key={"message_id": {"S": name}},
            UpdateExpression="SET #status = :in_progress, lease_until = :lease REMOVE #result",
            ExpressionAttributeNames={"#status": "status", "#result": "result"},
            ExpressionAttributeValues={":in_progress": {"S": "IN_PROGRESS"}, ":lease": {"N": str(lease)}},
        )
        stack.bench.dynamodb.delete_item(TableName="appointments", Key={"appointment_id": {"S": name}})
    for name in ("duplicate", "done_before", "stuck", "busy", "retried"):
        stack.put_dead_letter(booking(name, **NOW))
    for name in ("conflict", "forgotten"):
        stack.put_dead_letter(booking(name, **NOW, service_type="Clinical Triage"))
    stack.put_dead_letter(booking("refused", not_before="2020-01-01T08:00:00Z", not_after="2020-01-02T08:00:00Z"))
    stack.put_dead_letter(booking("unknown", **NOW, practice="ZZZ999"))
    stack.put_dead_letter(cancellation("no-appointment", "cancelled"))
    stack.bench.deliver(record(booking("invalid", nhs_number="9990000019")), record("no JSON"))


def put_bookings(stack: MotoStack, count: int) -> frozenset[str]:
    """Put `count` bookings, m-0 and so on. Return their SQS ids."""
    return frozenset(stack.put_dead_letter(booking(f"m-{number}", **NOW)) for number in range(count))


def write_failures(
    stack: MotoStack,
    message_id: str,
    sqs_message_id: str = "",
    *,
    receives: int,
    at_ms: int | None = None,
    ended: str = "failed",
) -> None:
    """Append the failed deliveries of one message, all at `at_ms`, by default a minute ago; the last one `ended` so."""
    at_ms = at_ms or int(time.time() - 60) * 1_000
    line = {"message": "delivery", "message_id": message_id, "sqs_message_id": sqs_message_id or f"sqs-{message_id}"}
    line |= {"outcome": "failed", "reason": "KeyError", "where": f"/function/{'0' * 16}/orders/decision.py:8"}
    assert stack.target.local is not None
    with Path(stack.target.local.log_file).open("a", encoding="utf-8") as log:
        for receive in range(1, receives + 1):
            about: dict[str, Any] = {"receive_count": receive, "sent": at_ms, "finished": at_ms, "attempt_ms": 1}
            about |= {"outcome": ended} if receive == receives else {}
            log.write(json.dumps({**line, **about}) + "\n")


@dataclass(frozen=True)
class Functions:
    """A Lambda client that knows the environment of the consumer, and the tags of its mapping."""

    environment: Mapping[str, str]
    tags: dict[str, str] = field(default_factory=dict)

    def get_event_source_mapping(self, *, UUID: str) -> dict[str, Any]:  # noqa: N803 - boto3's own
        """Return the mapping, which is always disabled on the local stack."""
        return {"State": "Disabled", "EventSourceMappingArn": f"arn:{UUID}"}

    def list_tags(self, *, Resource: str) -> dict[str, Any]:  # noqa: N803 - boto3's own
        """Return the mapping's tags."""
        assert Resource == f"arn:{MAPPING}"
        return {"Tags": dict(self.tags)}

    def tag_resource(self, *, Resource: str, Tags: Mapping[str, str]) -> None:  # noqa: N803 - boto3's own
        """Set tags of the mapping."""
        self.tags.update(Tags)

    def untag_resource(self, *, Resource: str, TagKeys: Sequence[str]) -> None:  # noqa: N803 - boto3's own
        """Remove tags of the mapping."""
        for key in TagKeys:
            self.tags.pop(key, None)

    def get_function_configuration(self, *, FunctionName: str) -> dict[str, Any]:  # noqa: N803 - boto3's own
        """Return the configuration of the consumer."""
        return {"FunctionName": FunctionName, "Timeout": 30, "Environment": {"Variables": dict(self.environment)}}


NAMES = {
    "LedgerTableName": "ledger",
    "SlotsTableName": "slots",
    "AppointmentsTableName": "appointments",
    "ConsumerFunctionName": "consumer",
    "EventSourceMappingId": MAPPING,
    "ConsumerLogGroupName": "/oneslot/consumer",
}
"""The outputs of a stack, without its queues."""
STATE = LocalState(
    endpoint_url="http://127.0.0.1:4566",
    region="eu-west-2",
    access_key_id="000000000000",
    secret_access_key="local",
    session_token="token-of-this-start",
    stack_name="Oneslot-dev",
    outputs={"QueueUrl": "http://127.0.0.1:4566/000000000000/q"},
    supervisor_pid=os.getpid(),
    supervisor_start=start_ticks(os.getpid()) or 0,
    log_file="/somewhere/consumer.jsonl",
)


@pytest.fixture
def moto_stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MotoStack]:
    """Return a running stack with three free slots at one practice."""
    with bench(slots=3) as made:
        queues = {"QueueUrl": made.queue_url, "DeadLetterQueueUrl": made.dead_letter_queue_url}
        state = replace(STATE, outputs={**queues, **NAMES}, log_file=str(tmp_path / "consumer.jsonl"))
        state.write(tmp_path)
        monkeypatch.setenv("ONESLOT_HOME", str(tmp_path))
        monkeypatch.setattr(Connection, "dynamodb", lambda _: made.dynamodb)
        monkeypatch.setattr(Connection, "sqs", lambda _: made.sqs)
        functions = Functions(ENVIRONMENT)
        monkeypatch.setattr(Connection, "functions", lambda _: functions)
        monkeypatch.setattr("oneslot.runtime.sqs.dead_letters.WAIT_SECONDS", 0)
        monkeypatch.setattr("oneslot.operator.commands.stack.update_stack", lambda _, state, **__: state)
        yield MotoStack(made, local_target(state, tmp_path))


@pytest.fixture
def on_aws(moto_stack: MotoStack, monkeypatch: pytest.MonkeyPatch) -> Target:
    """Return the stack that `--stack Oneslot-prod` finds on AWS: it has the local one's queues and tables."""
    target = moto_stack.on_aws()
    monkeypatch.setattr("oneslot.operator.target.aws_target", lambda _: target)
    monkeypatch.setattr(
        "oneslot.operator.evidence.operator_log._caller", lambda: "arn:aws:iam::123456789012:user/on-call"
    )
    return target


@pytest.fixture
def nothing_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Return `invoke`, where no local stack runs."""
    monkeypatch.setenv("ONESLOT_HOME", str(tmp_path))
    return invoke
