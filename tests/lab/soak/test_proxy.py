"""Each network fault alone: what an SDK's client sees, and what the service has done by then."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, ConnectionClosedError, ReadTimeoutError

from lab.soak.plan import NetworkFault, NetworkPlan
from lab.soak.proxy_process import ProxyProcess
from oneslot.local.aws.connection import REGION, Connection
from tests.kits.local_mapping import wait_for

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.client import DynamoDBClient

pytestmark = pytest.mark.embedded_aws

Faulty = Callable[..., AbstractContextManager["DynamoDBClient"]]
ADD = {"UpdateExpression": "ADD n :one", "ExpressionAttributeValues": {":one": {"N": "1"}}}


@pytest.fixture
def faulty(account: Connection, tmp_path: Path) -> Faulty:
    """Make a client without retries, behind a proxy with one fault at its first write."""
    dynamodb = account.dynamodb()
    dynamodb.create_table(
        TableName="counters",
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": "k", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "k", "AttributeType": "S"}],
    )
    dynamodb.close()

    @contextmanager
    def make(
        fault: NetworkFault, operation: str = "UpdateItem", *, injected: bool = True, patience: int = 60
    ) -> Iterator[DynamoDBClient]:
        plan = NetworkPlan(1, script={(operation, 1): fault})
        with ProxyProcess(plan, account.endpoint_url, tmp_path) as proxy:
            client = boto3.Session(account.access_key_id, "x", region_name=REGION).client(
                "dynamodb",
                endpoint_url=proxy.endpoint_url,
                config=Config(read_timeout=patience, retries={"total_max_attempts": 1}, proxies={}),
            )
            yield client
            counts = proxy.calm()
            assert counts.injected == ({fault: 1} if injected else {})
            client.close()

    return make


def add(client: DynamoDBClient) -> None:
    client.update_item(TableName="counters", Key={"k": {"S": "k"}}, **ADD)  # type: ignore[arg-type]


def added(client: DynamoDBClient) -> int:
    item = client.get_item(TableName="counters", Key={"k": {"S": "k"}}, ConsistentRead=True).get("Item", {})
    return int(item["n"]["N"]) if item else 0


def test_reset_breaks_the_connection_before_the_write(faulty: Faulty) -> None:
    with faulty(NetworkFault.RESET) as client:
        with pytest.raises((ConnectionClosedError, ConnectionError)):
            add(client)
        assert added(client) == 0
        add(client)
        assert added(client) == 1


def test_dropped_response_leaves_the_write_done(faulty: Faulty) -> None:
    with faulty(NetworkFault.DROPPED) as client:
        with pytest.raises((ConnectionClosedError, ConnectionError)):
            add(client)
        assert added(client) == 1


@pytest.mark.slow
def test_late_request_lands_after_the_clients_timeout(faulty: Faulty, account: Connection) -> None:
    with (
        faulty(NetworkFault.LATE, patience=1) as client,
        closing(account.dynamodb()) as observer,
        ThreadPoolExecutor(1) as side,
    ):
        waiting = side.submit(add, client)
        landed = 0
        while not waiting.done():
            found = added(observer)
            landed = found if not waiting.done() else landed  # the value while the client certainly still waited
            time.sleep(0.05)
        assert landed == 0
        with pytest.raises(ReadTimeoutError):
            waiting.result()
        wait_for(lambda: added(observer) == 1)


@pytest.mark.slow
def test_slow_call_is_answered(faulty: Faulty) -> None:
    with faulty(NetworkFault.SLOW) as client:
        add(client)
        assert added(client) == 1


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (NetworkFault.THROTTLED, "ProvisionedThroughputExceededException"),
        (NetworkFault.SERVER_ERROR, "InternalServerError"),
        (NetworkFault.CONFLICT, "TransactionConflictException"),
    ],
)
def test_proxy_answers_with_the_services_errors(faulty: Faulty, fault: NetworkFault, code: str) -> None:
    with faulty(fault) as client:
        with pytest.raises(ClientError) as raised:
            add(client)
        assert raised.value.response["Error"]["Code"] == code
        assert added(client) == 0


def test_conflict_gives_a_reason_for_each_item(faulty: Faulty) -> None:
    with faulty(NetworkFault.CONFLICT, "TransactWriteItems") as client:
        items = [{"Update": {"TableName": "counters", "Key": {"k": {"S": key}}, **ADD}} for key in "ab"]
        with pytest.raises(client.exceptions.TransactionCanceledException) as raised:
            client.transact_write_items(TransactItems=items)  # type: ignore[arg-type]
        reasons = raised.value.response["CancellationReasons"]
        assert [reason.get("Code") for reason in reasons] == ["TransactionConflict", "None"]


@pytest.mark.slow
def test_reads_meet_no_conflict(faulty: Faulty) -> None:
    with faulty(NetworkFault.CONFLICT, "GetItem", injected=False) as client:
        assert added(client) == 0
