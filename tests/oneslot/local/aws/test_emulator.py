"""The emulator's Python: this one where it has the pinned ministack, else one that is installed once."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, cast

import pytest
from botocore.exceptions import ClientError
from ministack.services import dynamodb
from moto import mock_aws

from oneslot.errors import EmbeddedAwsFailed
from oneslot.local.aws import embedded_aws
from oneslot.local.aws.connection import Connection
from oneslot.local.aws.embedded_aws import PINNED, emulator_python
from oneslot.local.aws.embedded_server import parse_expressions_once
from oneslot.runtime.sqs.batches import text_attributes
from tests.kits.consumer import create_table, moto_client


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the cache of a user whose Python lacks ministack."""
    monkeypatch.setattr(embedded_aws, "version", lambda _: "0")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "oneslot"


def make_python(*command: str | Path) -> None:
    """Stand in for `venv` and pip."""
    if command[1:3] == ("-m", "venv"):
        Path(command[3], "bin").mkdir(parents=True)
        Path(command[3], "bin", "python").touch()


def test_emulator_runs_here_when_the_pinned_one_is_installed() -> None:
    assert emulator_python() == Path(sys.executable)


def test_emulators_environment_has_what_lambdas_python_brings() -> None:
    pinned = {line.partition("==")[0] for line in PINNED.read_text().splitlines() if "==" in line}
    assert pinned >= {"boto3", "botocore", "jmespath", "python-dateutil", "s3transfer", "six", "urllib3"}


def test_emulator_is_installed_when_it_or_its_python_is_missing(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(embedded_aws, "_run", make_python)
    python = emulator_python(said.append)
    assert python.is_relative_to(cache)
    assert emulator_python(said.append) == python
    assert said == [f"Installing the embedded AWS, once, into {python.parents[1]} (10 s)..."]
    assert list(cache.iterdir()) == [python.parents[1]]
    python.unlink()
    python.symlink_to(cache / "removed")
    assert emulator_python() == python
    assert python.exists()


@pytest.mark.slow
def test_emulator_is_refused_in_one_sentence_when_pip_reaches_no_index(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"NO_INDEX": "1", "CONFIG_FILE": "/dev/null", "FIND_LINKS": str(cache)}.items():
        monkeypatch.setenv(f"PIP_{name}", value)
    said = (
        r"^The embedded AWS is installed on first use, and that failed: .*boto3==.* Connect to the network and repeat"
    )
    with pytest.raises(EmbeddedAwsFailed, match=said) as refused:
        emulator_python()
    assert "\n" not in str(refused.value)
    assert list(cache.iterdir()) == []


def test_expression_is_read_once_for_all_items(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    for name in ("_tokenize", "_condition_syntax_error"):
        original = getattr(dynamodb, name)

        def counted(text: str, *rest: str, original=original, name=name):  # type: ignore[no-untyped-def]
            read.append(name)
            return original(text, *rest)

        monkeypatch.setattr(dynamodb, name, counted)
    parse_expressions_once()

    kept = [
        item
        for item in ({"n": {"N": str(number)}} for number in range(5))
        if dynamodb._evaluate_condition("n > :least", item, {":least": {"N": "2"}}, {}, slot="FilterExpression")
    ]

    assert [item["n"]["N"] for item in kept] == ["3", "4"]
    assert sorted(read) == ["_condition_syntax_error", "_tokenize"]


# The emulator answers random writes as moto does, keeps a transaction's token, and counts attributes.
#
# Run on every bump of ministack's version.


if TYPE_CHECKING:
    from mypy_boto3_dynamodb.client import DynamoDBClient

pytestmark = pytest.mark.embedded_aws
TABLE = "race"


@pytest.fixture
def database(account: Connection) -> Iterator[DynamoDBClient]:
    client = account.dynamodb()
    create_table(client, TABLE, "pk")
    yield client
    client.close()


CONDITIONS = (
    "attribute_not_exists(pk)",
    "attribute_exists(n)",
    "n = :few",
    "n < :some AND w = :word",
    "n BETWEEN :few AND :some OR attribute_not_exists(w)",
)
CHANGES = ("SET n = :few", "SET n = :some, w = :word", "ADD n :few", "SET w = :word REMOVE n", "REMOVE w")
VALUES = {":few": {"N": "1"}, ":some": {"N": "3"}, ":word": {"S": "there"}}


def random_write(random: Random) -> dict[str, Any]:
    """Return a put, an update or a deletion of one of three items under a condition, as an element of a transaction."""
    key = {"pk": {"S": random.choice("abc")}}
    condition, change = random.choice(CONDITIONS), random.choice(CHANGES)
    kind = random.choice(("Put", "Put", "Update", "Update", "Delete"))
    texts = {"ConditionExpression": condition} | ({"UpdateExpression": change} if kind == "Update" else {})
    used = {name: value for name, value in VALUES.items() if any(name in text for text in texts.values())}
    about: dict[str, Any] = {"Item": {**key, "n": {"N": str(random.randrange(5))}}} if kind == "Put" else {"Key": key}
    about |= texts | ({"ExpressionAttributeValues": used} if used else {})
    return {kind: {"TableName": TABLE, "ReturnValuesOnConditionCheckFailure": "ALL_OLD", **about}}


def answer(client: Any, writes: list[dict[str, Any]]) -> object:
    """Perform one write, or several in a transaction. Return what was refused and why, and all items afterwards."""
    refused: Any = None
    try:
        if len(writes) == 1:
            ((kind, about),) = writes[0].items()
            getattr(client, f"{kind.lower()}_item")(**about)
        else:
            client.transact_write_items(TransactItems=writes)
    except ClientError as error:
        reasons = cast("dict[str, Any]", error.response).get("CancellationReasons", [error.response])
        refused = error.response["Error"]["Code"], [(each.get("Code"), each.get("Item")) for each in reasons]
    rows = client.scan(TableName=TABLE)["Items"]
    return refused, sorted(rows, key=lambda row: row["pk"]["S"])


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_emulator_answers_random_writes_as_moto_does(database: DynamoDBClient, seed: int) -> None:
    random = Random(seed)
    with mock_aws():
        other = moto_client("dynamodb")
        create_table(other, TABLE, "pk")
        for _ in range(100):
            some = [random_write(random) for _ in range(random.choice((1, 1, 2, 3)))]
            keys = [(each.get("Key") or each["Item"])["pk"]["S"] for write in some for each in write.values()]
            if len({*keys}) == len(some):  # a transaction takes one write for each item
                assert answer(database, some) == answer(other, some), some


def item(database: DynamoDBClient, key: str) -> dict[str, Any] | None:
    found = database.get_item(TableName=TABLE, Key={"pk": {"S": key}}, ConsistentRead=True).get("Item")
    return None if found is None else {name: next(iter(value.values())) for name, value in found.items()}


def test_transaction_token_makes_a_replay_harmless(database: DynamoDBClient) -> None:
    def add(amount: int) -> None:
        database.transact_write_items(
            ClientRequestToken="the-same-token",
            TransactItems=[
                {
                    "Update": {
                        "TableName": TABLE,
                        "Key": {"pk": {"S": "sum"}},
                        "UpdateExpression": "ADD claims :amount",
                        "ExpressionAttributeValues": {":amount": {"N": str(amount)}},
                    }
                }
            ],
        )

    add(1)
    add(1)
    assert item(database, "sum") == {"pk": "sum", "claims": "1"}
    with pytest.raises(database.exceptions.IdempotentParameterMismatchException):
        add(2)
    assert item(database, "sum") == {"pk": "sum", "claims": "1"}


@pytest.mark.slow
@pytest.mark.parametrize("batch", [False, True])
def test_message_counts_with_its_attributes(account: Connection, batch: bool) -> None:
    """A body that fits alone does not fit with a quarantine's reason."""
    with closing(account.sqs()) as queues:
        url = queues.create_queue(QueueName="small", Attributes={"MaximumMessageSize": "2048"})["QueueUrl"]
        body, attributes = "x" * 2_000, text_attributes({"QuarantineReason": "not_json", "Detail": "d" * 40})
        if batch:
            answer = queues.send_message_batch(
                QueueUrl=url,
                Entries=[{"Id": "0", "MessageBody": body}, {"Id": "1", "MessageBody": body, **attributes}],  # type: ignore[typeddict-item]
            )
            assert [each["Id"] for each in answer["Successful"]] == ["0"]
            assert [(each["Id"], each["Code"]) for each in answer["Failed"]] == [("1", "InvalidParameterValue")]
        else:
            queues.send_message(QueueUrl=url, MessageBody=body)
            with pytest.raises(ClientError, match="must be shorter than 2048 bytes"):
                queues.send_message(QueueUrl=url, MessageBody=body, **attributes)
