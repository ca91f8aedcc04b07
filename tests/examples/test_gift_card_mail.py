"""The example, under the faults that concern it: the card exactly once, the mail at least once and under one key."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from examples.gift_card_mail.build import build
from examples.gift_card_mail.runtime.gift_cards import CARDS, OUTBOX, issue, parse
from examples.gift_card_mail.runtime.mails import Mail, SesMailer, deliver_stream
from examples.gift_card_mail.stack import PACKAGE
from oneslot.runtime.consumer.consumer import Consumer
from oneslot.runtime.consumer.delivery_log import Delivery
from oneslot.runtime.consumer.queues import Queues
from oneslot.runtime.stores.dynamodb import DynamoDBLedger
from oneslot.runtime.values import from_attributes
from tests.kits.consumer import Clock, Context, Intercepted, Killed, moto_client, raising, record, surroundings
from tests.kits.stacks import assert_snapshot

TABLES = {"ledger": "message_id", "cards": "card_id", "outbox": "mail_id"}
TIMEOUT_MS = 30_000


class Provider:
    """A mail provider. With `takes_keys` it sends the same key once."""

    def __init__(self, *, takes_keys: bool = False) -> None:
        self.sent: list[tuple[str, str]] = []
        self._takes_keys = takes_keys
        self.then: Callable[[], None] = lambda: None

    def send(self, mail: Mail, idempotency_key: str) -> str:
        if not self._takes_keys or idempotency_key not in [key for key, _ in self.sent]:
            self.sent.append((idempotency_key, mail["to"]))
        self.then()
        return f"provider-{len(self.sent)}"


class Shop:
    """The example on moto."""

    def __init__(self) -> None:
        self.dynamodb: Any = moto_client("dynamodb")
        self.sqs: Any = moto_client("sqs")
        for name, key in TABLES.items():
            self.dynamodb.create_table(
                TableName=name,
                BillingMode="PAY_PER_REQUEST",
                KeySchema=[{"AttributeName": key, "KeyType": "HASH"}],
                AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"}],
            )
        orders, self.dead_url = (self.sqs.create_queue(QueueName=name)["QueueUrl"] for name in ("orders", "dead"))
        self.queues = Queues(self.sqs, orders, self.dead_url)
        self.clock = Clock()
        self.log: list[Delivery] = []

    def consumer(self, dynamodb: Any = None) -> Consumer[Any]:
        return Consumer(self.ledger(dynamodb), self.queues, parse, issue, self.log.append)

    def ledger(self, dynamodb: Any = None) -> DynamoDBLedger:
        return DynamoDBLedger(
            dynamodb or self.dynamodb,
            "ledger",
            retention_seconds=None,
            tables={CARDS: "cards", OUTBOX: "outbox"},
            surroundings=surroundings(self.clock),
        )

    def order(self, *orders: dict[str, Any], dynamodb: Any = None) -> list[Any]:
        """Deliver these orders in one batch; returns the failures."""
        answer = self.consumer(dynamodb)(
            {"Records": [record(order) for order in orders]}, Context(self.clock, TIMEOUT_MS)
        )
        failures: list[Any] = answer["batchItemFailures"]
        return failures

    def mailing(self, provider: Any) -> Callable[[Any], Any]:
        return deliver_stream(self.ledger(), provider, lock_timeout=60)

    def rows(self, table: str) -> list[dict[str, Any]]:
        return [from_attributes(item) for item in self.dynamodb.scan(TableName=table)["Items"]]

    def stream(self) -> dict[str, Any]:
        """The outbox's stream so far, as Lambda gets it."""
        items = self.dynamodb.scan(TableName="outbox")["Items"]
        items.sort(key=lambda item: item["mail_id"]["S"])
        return {
            "Records": [
                {"eventName": "INSERT", "dynamodb": {"NewImage": item, "SequenceNumber": str(number)}}
                for number, item in enumerate(items)
            ]
        }

    def dead(self) -> list[Any]:
        answer = self.sqs.receive_message(
            QueueUrl=self.dead_url,
            MaxNumberOfMessages=10,
            MessageAttributeNames=["All"],
        )
        return [each["MessageAttributes"]["QuarantineReason"]["StringValue"] for each in answer.get("Messages", [])]


@pytest.fixture
def shop() -> Iterator[Shop]:
    with mock_aws():
        yield Shop()


def order(number: int = 1, **changes: Any) -> dict[str, Any]:
    return {"message_id": f"order-{number}", "to": f"to-{number}@example.org", "pence": 2500, **changes}


def test_order_makes_one_card_and_one_mail_when_repeated(shop: Shop) -> None:
    for _ in range(3):
        assert shop.order(order()) == []
    (card,), (mail,) = shop.rows("cards"), shop.rows("outbox")
    assert (card["card_id"], card["pence"], mail["code"]) == ("order-1", 2500, card["code"])
    assert [line.outcome for line in shop.log] == ["issued", "duplicate", "duplicate"]


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("call", ["update_item", "transact_write_items"])
def test_a_order_makes_one_card_when_killed_at_any_call(shop: Shop, call: str, moment: str) -> None:
    with pytest.raises(Killed):
        shop.order(order(), dynamodb=Intercepted(shop.dynamodb, **{moment: {call: raising(Killed())}}))
    assert len(shop.rows("cards")) == len(shop.rows("outbox"))
    shop.clock.now += TIMEOUT_MS + 1
    assert shop.order(order()) == []
    assert len(shop.rows("cards")) == len(shop.rows("outbox")) == 1


@pytest.mark.parametrize(
    ("changes", "dead", "outcome"), [({}, [], "duplicate"), ({"pence": 999}, ["conflict"], "quarantined")]
)
def test_c_order_makes_no_second_card_when_its_row_expired(
    shop: Shop, changes: dict[str, int], dead: list[str], outcome: str
) -> None:
    shop.order(order())
    shop.dynamodb.delete_item(TableName="ledger", Key={"message_id": {"S": "order-1"}})
    assert shop.order(order(**changes)) == []
    assert (shop.dead(), len(shop.rows("cards")), shop.log[-1].outcome) == (dead, 1, outcome)


def test_l_and_p_invalid_orders_are_quarantined_beside_good_ones(shop: Shop) -> None:
    shop.order(order(1))
    bad = [order(1, pence=9), order(3, to="nobody"), order(4, pence=True), order(5, pence=50_001), order(6, to=None)]
    assert shop.order(*bad, order(2)) == []
    assert sorted(shop.dead()) == ["conflict"] + ["invalid_field"] * 4
    assert sorted(row["card_id"] for row in shop.rows("cards")) == ["order-1", "order-2"]


def test_mail_is_sent_once_when_the_stream_repeats_it(shop: Shop) -> None:
    shop.order(order(1), order(2))
    provider = Provider()
    removed = {"eventName": "REMOVE", "dynamodb": {"SequenceNumber": "9"}}
    for _ in range(3):
        event = {"Records": [*shop.stream()["Records"], removed]}
        assert shop.mailing(provider)(event) == {"batchItemFailures": []}
    assert provider.sent == [("mail/order-1", "to-1@example.org"), ("mail/order-2", "to-2@example.org")]


@pytest.mark.parametrize(("takes_keys", "times"), [(True, 1), (False, 2)])
def test_a_mail_repeats_its_key_when_killed_before_its_mark(
    shop: Shop, takes_keys: bool, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gap that is left, and what closes it: a provider that takes the key."""
    shop.order(order())
    provider = Provider(takes_keys=takes_keys)

    def die(*_: object) -> None:
        raise Killed

    provider.then = die
    with monkeypatch.context() as dead:
        dead.setattr(DynamoDBLedger, "release", die)
        with pytest.raises(Killed):
            shop.mailing(provider)(shop.stream())
    provider.then = lambda: None
    assert shop.mailing(provider)(shop.stream())["batchItemFailures"] != []  # the dead one's lock holds
    shop.clock.now += 60_001
    assert shop.mailing(provider)(shop.stream()) == {"batchItemFailures": []}
    assert provider.sent == [("mail/order-1", "to-1@example.org")] * times


def test_failed_mail_stops_the_stream_and_logs_its_class_alone(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    shop.order(order(1), order(2), order(3))
    provider = Provider()

    def refuse() -> None:
        if len(provider.sent) == 2:
            raise ConnectionError("to-2@example.org is not to be had")

    provider.then = refuse
    assert shop.mailing(provider)(shop.stream()) == {"batchItemFailures": [{"itemIdentifier": "1"}]}
    assert capsys.readouterr().out == '{"message": "mail", "failed": "ConnectionError"}\n'
    provider.then = lambda: None
    rest = {"Records": shop.stream()["Records"][1:]}
    assert shop.mailing(provider)(rest) == {"batchItemFailures": []}
    assert [to for _, to in provider.sent] == [f"to-{number}@example.org" for number in (1, 2, 2, 3)]


def test_order_cannot_take_the_key_of_another_mail(shop: Shop) -> None:
    """An order's id is its producer's choice, and orders and mails share the ledger."""
    shop.order(order(1))
    provider = Provider()
    shop.mailing(provider)(shop.stream())
    keys = {row["message_id"] for row in shop.rows("ledger")} - {"order-1"}
    assert len(keys) == 1
    shop.order(*[order(2, message_id=key.replace("1", "3")) for key in keys], order(3))
    assert shop.mailing(provider)(shop.stream()) == {"batchItemFailures": []}
    assert "to-3@example.org" in [to for _, to in provider.sent]


def test_ses_gets_the_key_as_a_tag() -> None:
    asked: dict[str, Any] = {}

    class Ses:
        def send_email(self, **request: Any) -> dict[str, str]:
            asked.update(request)
            return {"MessageId": "ses-1"}

    mail = {"to": "to@example.org", "pence": 2500, "code": "abc"}
    assert SesMailer(Ses(), "cards@example.org").send(mail, "mail/order-1") == "ses-1"
    assert asked["EmailTags"] == [{"Name": "idempotency-key", "Value": "mail_order_1"}]
    assert "£25.00" in asked["Content"]["Simple"]["Body"]["Text"]["Data"]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    folder = tmp_path_factory.mktemp("gift-card-mail")
    build(str(folder)).synth()
    (asset,) = folder.glob("asset.*")
    return json.loads((folder / "GiftCardMail.template.json").read_text(encoding="utf-8")), asset


def of_type(template: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [found["Properties"] for found in template["Resources"].values() if found["Type"] == kind]


def test_example_is_its_snapshot(template: tuple[dict[str, Any], Path]) -> None:
    """Its rights, its streams and its partial batch responses. UPDATE_SNAPSHOTS=1 writes the file."""
    assert_snapshot(template[0], Path(__file__).with_name("snapshots") / "gift-card-mail.txt")


def test_functions_start_from_their_asset_alone(template: tuple[dict[str, Any], Path]) -> None:
    found, asset = template
    variables = {
        key: str(value)
        for function in of_type(found, "AWS::Lambda::Function")
        for key, value in function["Environment"]["Variables"].items()
    }
    # boto3 is Lambda's own; -S: nothing else of this environment comes first.
    packages = Path(boto3.__file__).parents[1]
    program = f"import sys; sys.path[:0] = [{str(asset)!r}]; sys.path.append({str(packages)!r});"
    program += f" from {PACKAGE} import issue, mail; import oneslot.runtime;"
    program += " print(oneslot.runtime.__file__, callable(issue.handler), callable(mail.handler))"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program],
        env={**variables, "AWS_DEFAULT_REGION": "eu-west-2"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.startswith(str(asset)), done.stderr
    assert done.stdout.endswith("True True\n")


def test_lock_outlasts_the_function(template: tuple[dict[str, Any], Path]) -> None:
    functions = of_type(template[0], "AWS::Lambda::Function")
    (function,) = [each for each in functions if each["Handler"] == f"{PACKAGE}.mail.handler"]
    assert float(function["Environment"]["Variables"]["LOCK_TIMEOUT_SECONDS"]) > function["Timeout"]
