"""Powertools' own tests, told to use our persistence layer. A pytest plugin; `test_upstream.py` loads it in another process.

Their tests wrap plain functions and script a DynamoDB stub: "this put fails, and this item was found". Here the wrapped
function's return value becomes the result of a commit without further effects, and a script of calls becomes what it
means: rows that are there before, and claims, commits and releases that must or must not happen.
"""

from __future__ import annotations

import json
import sys
import time
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from unittest import mock

import pytest
from aws_lambda_powertools.shared.json_encoder import Encoder
from aws_lambda_powertools.utilities import idempotency
from aws_lambda_powertools.utilities.idempotency.exceptions import (
    IdempotencyItemAlreadyExistsError,
    IdempotencyKeyError,
)
from aws_lambda_powertools.utilities.idempotency.persistence.datarecord import DataRecord
from botocore import stub
from botocore.exceptions import ClientError

from oneslot.explorer.services.contents import Contents, Table
from oneslot.explorer.services.dynamodb import InMemoryDynamoDB
from oneslot.runtime import powertools as ours
from oneslot.runtime.effects import Effects
from oneslot.runtime.protocol import COMPLETE, IN_PROGRESS, Claim, Committed
from oneslot.runtime.stores.dynamodb import DynamoDBLedger
from oneslot.runtime.values import to_attributes

LEDGER = "ledger"
WITHOUT_REMAINING_TIME_MS = 60_000
NOT_VALIDATED = "not validated"
OURS = {"put_item": "claim", "update_item": "commit", "delete_item": "release"}
"""The verb of the ledger that stands for each call of the stock layer; a read stands for none."""


def now_ms() -> int:
    """Epoch ms."""
    return int(time.time() * 1000)


class Client:
    """What their tests take for a DynamoDB client: it has our ledger's table behind it, and notes what the ledger does."""

    def __init__(self) -> None:
        tables = {LEDGER: Table("message_id")}
        self.port = InMemoryDynamoDB(now_ms, tables, Contents({LEDGER: {}}))
        self.failing: dict[str, ClientError] = {}
        self.verbs: list[tuple[str, str]] = []
        self.found: dict[str, Any] | None = None  # the row that the next claim finds, whatever its key
        self.watcher: Any = None  # a mock that only counts

    def update_item(self, **request: Any) -> Any:
        """A claim or a release."""
        verb = "claim" if "claimed_by = " in request["UpdateExpression"] else "release"
        return self._do(verb, request["Key"]["message_id"]["S"], "update_item", request)

    def transact_write_items(self, **request: Any) -> Any:
        """A commit."""
        key = request["TransactItems"][0]["Update"]["Key"]["message_id"]["S"]
        return self._do("commit", key, "transact_write_items", request)

    def row(self, key: str) -> dict[str, Any]:
        """The ledger's row."""
        return dict(self.port.get_item(TableName=LEDGER, Key={"message_id": {"S": key}})["Item"])

    def _do(self, verb: str, key: str, operation: str, request: dict[str, Any]) -> Any:
        self.verbs.append((verb, key))
        if verb == "claim" and self.found is not None:
            self.port.put_item(TableName=LEDGER, Item=to_attributes({"message_id": key, **self.found}))
            self.found = None
        if self.watcher is not None:
            getattr(self.watcher, operation)(**request)
        if verb in self.failing:
            raise self.failing[verb]
        return getattr(self.port, operation)(**request)


@dataclass(frozen=True)
class Named:
    """A message of which only the id and the digest are known."""

    message_id: str
    payload_hash: str


class Adapted(ours.LedgerPersistence):
    """Our layer for any function: the key and the digest of the payload are Powertools' own."""

    def __init__(self, table_name: str = "", **_options: Any) -> None:
        self._client = Client()
        store = DynamoDBLedger(self._client, LEDGER, retention_seconds=3_600)  # type: ignore[arg-type]
        super().__init__(store, Named("", ""), 0)

    @property
    def client(self) -> Any:
        """As the stock layer calls it."""
        return self._client if self._client.watcher is None else self._client.watcher

    @client.setter
    def client(self, watcher: Any) -> None:
        self._client.watcher = watcher

    def save_inprogress(self, data: Any, remaining_time_in_millis: int | None = None) -> None:
        """Claim."""
        key = self._get_hashed_idempotency_key(data)
        if key is None:
            raise IdempotencyKeyError("no key: refusing to run unprotected")
        lease = WITHOUT_REMAINING_TIME_MS if remaining_time_in_millis is None else remaining_time_in_millis
        self.message = Named(key, self._get_hashed_payload(data) or NOT_VALIDATED)
        self.deadline = now_ms() + lease
        try:
            super().save_inprogress(data, remaining_time_in_millis)
        except IdempotencyItemAlreadyExistsError as found:
            record = found.old_data_record
            if record is not None and record.response_data:
                record.response_data = json.loads(record.response_data)["response"]
            raise

    def save_success(self, data: Any, result: Any) -> None:
        """Commit what the function returned; in the product that happens inside the function, with its effects."""
        assert isinstance(self.claimed, Claim)
        response = json.dumps(result, cls=Encoder, sort_keys=True)
        assert isinstance(self.store.commit(self.claimed, Effects({"response": response})), Committed)

    def delete_record(self, data: Any, exception: Exception) -> None:
        """Release the claim; in the product `finish` does so, before Powertools hears of the exception."""
        assert isinstance(self.claimed, Claim)
        self.store.release(self.claimed)

    def get_record(self, data: Any) -> DataRecord:
        """Never asked for."""
        raise AssertionError("a refusal brings its row with it: nothing is read")


class Script:
    """Stands in for botocore's `Stubber`."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._expected: list[tuple[str, dict[str, Any] | None]] = []

    def add_response(self, method: str, service_response: dict[str, Any], expected_params: Any = None) -> None:
        """This call succeeds."""
        if method == "get_item":
            self._found(service_response.get("Item", {}))
        else:
            self._expected.append((OURS[method], expected_params))

    def add_client_error(
        self,
        method: str,
        service_error_code: str = "",
        service_message: str = "",
        modeled_fields: dict[str, Any] | None = None,
        **_more: Any,
    ) -> None:
        """This call fails: because of an item that is there, or for good."""
        if method == "put_item" and service_error_code == "ConditionalCheckFailedException":
            self._expected.append(("claim", None))
            self._found((modeled_fields or {}).get("Item", {}))
        elif method == "get_item":
            raise AssertionError("this test is about a read that our layer does not make")
        else:
            self._expected.append((OURS[method], None))
            response: Any = {"Error": {"Code": service_error_code, "Message": service_message}}
            operation = {"put_item": "PutItem", "update_item": "UpdateItem", "delete_item": "DeleteItem"}[method]
            self._client.failing[OURS[method]] = ClientError(response, operation)

    def activate(self) -> None:
        """Nothing to do."""

    def deactivate(self) -> None:
        """Nothing to do."""

    def assert_no_pending_responses(self) -> None:
        """What was scripted has happened, with the key and the response that were expected, and nothing else has."""
        assert [verb for verb, _ in self._client.verbs] == [verb for verb, _ in self._expected]
        for (verb, key), (_, expected) in zip(self._client.verbs, self._expected, strict=True):
            if expected is None or ("Key" not in expected and "Item" not in expected):
                continue
            named = expected.get("Key") or expected["Item"]
            assert key == named.get("sk", named["id"])["S"]
            if verb == "commit":
                response = expected["ExpressionAttributeValues"][":response_data"]["S"]
                assert json.loads(json.loads(self._client.row(key)["result"]["S"])["response"]) == json.loads(response)
            if verb == "release":
                assert self._client.row(key)["lease_until"] == {"N": "0"}

    def _found(self, item: dict[str, Any]) -> None:
        if not item:
            return
        row: dict[str, Any] = {
            "payload_hash": item.get("validation", {"S": NOT_VALIDATED})["S"],
            "consumption_count": 1,
            "claimed_by": "another",
            "updated": now_ms(),
        }
        if item["status"]["S"] == "COMPLETED":
            row |= {"status": COMPLETE, "result": json.dumps({"response": item["data"]["S"]})}
        else:
            until = item.get("in_progress_expiration", {}).get("N") or now_ms() + WITHOUT_REMAINING_TIME_MS
            row |= {"status": IN_PROGRESS, "lease_until": int(until)}
        self._client.found = row


class Mocker:
    """As much of pytest-mock as their tests use, which is no dependency of ours."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self.patch = self

    def object(self, target: Any, name: str) -> mock.MagicMock:
        """Replace an attribute by a mock."""
        made = mock.MagicMock()
        self._monkeypatch.setattr(target, name, made, raising=False)
        return made

    def spy(self, target: Any, name: str) -> mock.MagicMock:
        """Watch a method."""
        made = mock.MagicMock(wraps=getattr(target, name))
        self._monkeypatch.setattr(target, name, made)
        return made


@pytest.fixture
def mocker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Mocker]:
    """Stands in for pytest-mock's."""
    return Mocker(monkeypatch)  # type: ignore[return-value]


pytest_mock = types.ModuleType("pytest_mock")
pytest_mock.MockerFixture = Mocker  # type: ignore[attr-defined]
sys.modules["pytest_mock"] = pytest_mock
sys.modules.setdefault("fastjsonschema", mock.MagicMock())  # imported with the validator, which unwraps envelopes only
stub.Stubber = Script  # type: ignore[misc,assignment]
idempotency.DynamoDBPersistenceLayer = Adapted  # type: ignore[misc,assignment]
