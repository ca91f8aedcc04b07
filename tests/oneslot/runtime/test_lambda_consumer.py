"""A consumer from the environment that the construct sets."""

import gc
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import boto3
import pytest
from moto import mock_aws

from oneslot.runtime.effects import Effects, Once, Put
from oneslot.runtime.lambda_consumer import (
    client_configuration,
    consumer_from_environment,
    ledger_from_environment,
    number,
    uncollected,
)
from oneslot.runtime.sqs.lambda_event import Context, event_of
from oneslot.runtime.stores.dynamodb import DynamoDBLedger
from oneslot.runtime.surroundings import Executor
from oneslot.runtime.typed import JsonMessage
from oneslot.runtime.values import from_attributes
from stacks.settings import STAGES
from tests.kits.consumer import create_table


def take(order: JsonMessage) -> Effects:
    item = {"order_id": order.message_id, "article": order.body["article"]}
    return Effects({"outcome": "taken"}, once=Once(Put("orders", item, key="order_id")))


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """The variables of a stack on moto, with its tables and queues."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-2")
    with mock_aws():
        for table, key in ("ledger-1", "message_id"), ("orders-1", "order_id"):
            create_table(boto3.client("dynamodb"), table, key)
        for name in "QUEUE", "DEAD_LETTER_QUEUE":
            monkeypatch.setenv(f"ONESLOT_{name}_URL", boto3.client("sqs").create_queue(QueueName=name)["QueueUrl"])
        monkeypatch.setenv("ONESLOT_LEDGER_TABLE", "ledger-1")
        monkeypatch.setenv("ONESLOT_LEDGER_RETENTION_SECONDS", "86400")
        monkeypatch.setenv("ONESLOT_TABLE_ORDERS", "orders-1")
        yield monkeypatch


def rows(table: str) -> list[dict[str, Any]]:
    return [from_attributes(item) for item in boto3.client("dynamodb").scan(TableName=table)["Items"]]


@pytest.mark.usefixtures("environment")
def test_consumer_takes_a_message_once_by_its_environment() -> None:
    handler = consumer_from_environment(take)

    order = {"message_id": "o-1", "article": "teapot"}
    assert handler(event_of(order, order), Context()) == {"batchItemFailures": []}

    assert rows("orders-1") == [{"order_id": "o-1", "article": "teapot"}]
    (row,) = rows("ledger-1")
    assert (row["status"], row["expires_at"] - row["updated"] // 1000 >= 86_400) == ("COMPLETE", True)


@pytest.mark.usefixtures("environment")
def test_consumer_quarantines_into_the_dead_letter_queue() -> None:
    handler = consumer_from_environment(take)

    assert handler(event_of("not JSON"), Context()) == {"batchItemFailures": []}

    sqs = boto3.client("sqs")
    queue = sqs.get_queue_url(QueueName="DEAD_LETTER_QUEUE")["QueueUrl"]
    (letter,) = sqs.receive_message(QueueUrl=queue)["Messages"]
    assert letter["Body"] == "not JSON"


@pytest.mark.usefixtures("environment")
def test_options_are_the_consumers_attributes() -> None:
    lines: list[Any] = []
    handler = consumer_from_environment(
        take, JsonMessage, log=lines.append, identity=lambda record: record["messageId"]
    )

    handler(event_of({"article": "teapot"}), Context())

    assert [(line.outcome, line.message_id) for line in lines] == [("taken", "00000000-0000-4000-8000-000000000001")]
    with pytest.raises(TypeError, match="identify"):
        consumer_from_environment(take, identify=None)


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize(("threads", "executor"), [(1, type(None)), (2, ThreadPoolExecutor)])
def test_threads_have_an_executor_and_connections(threads: int, executor: type) -> None:
    handler = consumer_from_environment(take, threads=threads)

    assert isinstance(handler.executor, executor)
    assert handler.group is None, "nothing decides together"
    assert isinstance(handler.ledger, DynamoDBLedger)
    clients: list[Any] = [handler.ledger.client, handler.queues.client]
    configurations = [client.meta.config for client in clients]
    assert [(each.max_pool_connections, each.read_timeout) for each in configurations] == [(threads + 1, 3)] * 2


@pytest.mark.usefixtures("environment")
def test_group_is_committed_together_on_the_threads() -> None:
    together: list[Any] = []

    def decide_together(orders: Sequence[JsonMessage], executor: Executor | None) -> list[Effects | None]:
        together.append((len(orders), executor))
        return [take(order) for order in orders]

    handler = consumer_from_environment(take, threads=2, decide_together=decide_together)
    records = [
        event_of(body, body)["Records"][0] for body in ({"message_id": f"o-{n}", "article": "cup"} for n in "12")
    ]
    assert handler({"Records": records}, Context()) == {"batchItemFailures": []}

    assert together == [(2, handler.executor)]
    assert {(row["status"], row["consumption_count"]) for row in rows("ledger-1")} == {("COMPLETE", 1)}


@pytest.mark.usefixtures("environment")
def test_queues_client_is_made_when_a_message_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    client: Any = boto3.client

    def caught(name: str, **options: Any) -> Any:
        made.append(name)
        return client(name, **options)

    monkeypatch.setattr(boto3, "client", caught)
    queues: Any = consumer_from_environment(take).queues

    assert made == ["dynamodb"]
    assert queues.client.meta.service_model.service_name == queues.client.meta.service_model.service_name == "sqs"
    assert made == ["dynamodb", "sqs"]


def test_clients_are_impatient_and_check_no_parameters() -> None:
    configuration: Any = client_configuration(1)
    attempts = configuration.retries["total_max_attempts"]
    assert configuration.retries == {"mode": "standard", "total_max_attempts": attempts}
    # A call without an answer has failed before its invocation ends. Between attempts the standard mode pauses for one
    # second at most, then two, four, and so on.
    unanswered = attempts * (configuration.connect_timeout + configuration.read_timeout) + 2 ** (attempts - 1) - 1
    assert 1 < attempts < unanswered < STAGES["dev"].lambda_timeout_seconds
    assert configuration.user_agent.startswith("Oneslot Botocore/")
    assert not configuration.parameter_validation


@pytest.mark.usefixtures("environment")
def test_start_collects_no_garbage_while_it_imports_and_makes_clients() -> None:
    start = """
import gc
seen = []
gc.callbacks.append(lambda phase, info: seen.append(phase))
from oneslot import ledger_from_environment
ledger_from_environment()
assert gc.isenabled() and gc.get_freeze_count() > 10_000, gc.get_freeze_count()
assert len(seen) < 100, len(seen)
"""
    subprocess.run([sys.executable, "-c", start], check=True)


@pytest.mark.parametrize("collects", [True, False])
def test_collection_is_as_before_when_imports_are_made(collects: bool) -> None:
    before = gc.isenabled()
    (gc.enable if collects else gc.disable)()
    gc.unfreeze()
    with uncollected():
        assert not gc.isenabled()
    frozen = gc.get_freeze_count()
    gc.unfreeze()
    assert gc.isenabled() is collects
    assert frozen > 0
    (gc.enable if before else gc.disable)()


def test_ledger_keeps_rows_when_retention_is_forever(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("ONESLOT_LEDGER_RETENTION_SECONDS", "forever")
    ledger = ledger_from_environment()
    ledger.claim("m", "", 1)
    assert "expires_at" not in rows("ledger-1")[0]
    assert ledger.tables == {"ledger": "ledger-1", "orders": "orders-1"}


@pytest.mark.parametrize(
    "name",
    [
        "ONESLOT_LEDGER_TABLE",
        "ONESLOT_LEDGER_RETENTION_SECONDS",
        "ONESLOT_QUEUE_URL",
        "ONESLOT_DEAD_LETTER_QUEUE_URL",
    ],
)
def test_missing_variable_is_named(environment: pytest.MonkeyPatch, name: str) -> None:
    environment.setenv(name, "")
    with pytest.raises(ValueError, match=name):
        consumer_from_environment(take)


@pytest.mark.parametrize("retention", ["0", "-1", "1.5", "for ever"])
def test_malformed_retention_is_named(environment: pytest.MonkeyPatch, retention: str) -> None:
    environment.setenv("ONESLOT_LEDGER_RETENTION_SECONDS", retention)
    with pytest.raises(ValueError, match="ONESLOT_LEDGER_RETENTION_SECONDS"):
        consumer_from_environment(take)


@pytest.mark.parametrize("value", ["0", "-1", "many", "1.5"])
def test_malformed_number_is_named(value: str) -> None:
    assert number({"BATCH": "7"}, "BATCH") == 7
    with pytest.raises(ValueError, match="BATCH"):
        number({"BATCH": value}, "BATCH")


def test_ledger_leaves_collection_alone_when_it_has_a_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """An explorer makes thousands: what is garbage at that time would stay for ever."""
    monkeypatch.setattr(gc, "freeze", lambda: pytest.fail("froze"))
    variables = {"ONESLOT_LEDGER_RETENTION_SECONDS": "forever", "ONESLOT_LEDGER_TABLE": "ledger"}
    client: Any = object()
    assert ledger_from_environment(1, variables, client=client).client is client
