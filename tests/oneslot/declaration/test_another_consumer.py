"""`check`, `inspect`, `dlq` and `ledger` on a consumer that is not the appointments', with ids of its own."""

import json
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from oneslot.errors import ConsumerFailed, WrongConsumer
from oneslot.local.aws.connection import Connection
from oneslot.local.state import LocalState, start_ticks
from oneslot.operator.cli import main
from oneslot.runtime.consumer.consumer import Consumer
from oneslot.runtime.consumer.queues import Queues
from oneslot.runtime.record import Delivery
from oneslot.runtime.sqs.lambda_event import Context
from oneslot.runtime.stores.dynamodb import DynamoDBLedger
from oneslot.runtime.surroundings import Surroundings
from oneslot.runtime.typed import JsonMessage
from oneslot.runtime.values import to_attributes
from tests.kits.consumer import NHS_NUMBER, bench, record
from tests.kits.moto_stack import ENVIRONMENT, Functions, document, invoke
from tests.oneslot.declaration.orders import order_book

ORDERS = Path(__file__).with_name("orders") / "oneslot.toml"
ON_ORDERS = ("--consumer", str(ORDERS))


def order(number: int, pence: int = 250, **more: Any) -> dict[str, Any]:
    return {"shop": "north", "number": number, "pence": pence, **more}


@dataclass
class Orders:
    """The consumer of orders on moto, and its state folder."""

    dynamodb: Any
    sqs: Any
    consumer: Consumer[JsonMessage]
    log: Path
    deliveries: list[Delivery] = field(default_factory=list)

    def deliver(self, *orders: dict[str, Any]) -> None:
        event = {"Records": [record(each) for each in orders]}
        assert self.consumer(event, Context()) == {"batchItemFailures": []}
        lines = [{"message": "delivery", **asdict(each)} for each in self.deliveries]
        self.log.write_text("".join(json.dumps(line) + "\n" for line in lines))

    def put(self, table: str, **row: Any) -> None:
        self.dynamodb.put_item(TableName=table, Item=to_attributes(row))


@pytest.fixture
def orders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Orders]:
    with bench(slots=0) as made:
        made.dynamodb.create_table(
            TableName="charges",
            KeySchema=[{"AttributeName": "order_id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "order_id", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        deliveries: list[Delivery] = []
        ledger = DynamoDBLedger(made.dynamodb, "ledger", retention_seconds=86_400, tables={"charges": "charges"})
        consumer = Consumer(
            ledger,
            Queues(made.sqs, made.queue_url, made.dead_letter_queue_url, Surroundings().jitter),
            JsonMessage,
            order_book.decide,
            log=deliveries.append,
            identity=order_book.identity,
        )
        outputs = {
            "QueueUrl": made.queue_url,
            "DeadLetterQueueUrl": made.dead_letter_queue_url,
            "LedgerTableName": "ledger",
            "ChargesTableName": "charges",
            "LinesTableName": "lines",
            "ConsumerFunctionName": "consumer",
            "EventSourceMappingId": "6f4a2d1e-0000-4000-8000-000000000000",
            "ConsumerLogGroupName": "/orders",
        }
        process = os.getpid()
        started, log = start_ticks(process) or 0, tmp_path / "consumer.jsonl"
        state = LocalState(
            "http://127.0.0.1:1", "eu-west-2", "0", "local", None, "Orders", outputs, process, started, str(log)
        )
        state.write(tmp_path)
        monkeypatch.setenv("ONESLOT_HOME", str(tmp_path))
        monkeypatch.setattr(Connection, "dynamodb", lambda _: made.dynamodb)
        monkeypatch.setattr(Connection, "sqs", lambda _: made.sqs)
        monkeypatch.setattr(Connection, "functions", lambda _: Functions(ENVIRONMENT))
        monkeypatch.setattr("oneslot.runtime.sqs.dead_letters.WAIT_SECONDS", 0)
        yield Orders(made.dynamodb, made.sqs, consumer, log, deliveries)


def test_check_holds_for_orders_that_are_delivered_twice(orders: Orders) -> None:
    orders.deliver(order(1), order(2), order(3, pence=0))
    orders.deliver(order(1))

    checked = document(invoke("check", *ON_ORDERS, "--json"))

    assert (checked["kind"], checked["counts"]["verdicts"]) == ("holds", {"charged": 2, "free": 1})


@pytest.mark.parametrize(
    ("table", "row", "breach"),
    [
        ("charges", {"order_id": "ghost", "pence": 1, "charged_at": 4_000_000_000_000}, ("I5r", "ghost")),
        ("charges", {"order_id": "north-3", "pence": 1, "charged_at": order_book.NOW}, ("I12", "north-3")),
        ("charges", {"order_id": "north-1", "pence": -1}, ("every_order_costs_something", "north-1")),
    ],
)
def test_check_finds_a_breach_of_each_kind_of_law(
    orders: Orders, table: str, row: dict[str, Any], breach: tuple[str, str]
) -> None:
    orders.deliver(order(1), order(3, pence=0))
    orders.put(table, **row)

    checked = document(invoke("check", *ON_ORDERS, "--json"), 1)

    assert [(each["invariant"], each["subject"]) for each in checked["breaches"]] == [breach]


def test_send_archives_the_ids_that_the_consumer_finds(
    orders: Orders, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ONESLOT_CONSUMER", str(ORDERS))

    sent = invoke("send", json.dumps(order(1)), "--copies", "2")

    assert sent.exit_code == 0
    archived = [json.loads(line) for line in (tmp_path / "accepted.jsonl").read_text().splitlines()]
    assert [line["message_id"] for line in archived] == ["north-1", "north-1"]
    assert document(invoke("check", "--json"), 1)["kind"] == "unfinished", "the queue has both"


def test_send_takes_attributes_by_which_the_consumer_identifies(
    orders: Orders, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "tenants.py").write_text(
        "def identity(record):\n    return record['messageAttributes']['tenant']['stringValue']\n"
    )
    declared = ORDERS.read_text().replace("order_book.identity", "tenants.identity")
    (tmp_path / "oneslot.toml").write_text(declared)
    monkeypatch.setattr(sys, "path", [*sys.path, str(ORDERS.parent)])
    (tmp_path / "file").write_text('{"b": 2}\n')
    monkeypatch.setenv("ONESLOT_CONSUMER", str(tmp_path / "oneslot.toml"))
    with_tenant = ("--attribute", "tenant=north", "--attribute", "trace=a=b")

    assert invoke("send", '{"a": 1}', *with_tenant).exit_code == 0
    assert invoke("send", "--file", str(tmp_path / "file"), *with_tenant).exit_code == 0

    archived = [json.loads(line)["message_id"] for line in (tmp_path / "accepted.jsonl").read_text().splitlines()]
    assert archived == ["north", "north"]
    url = json.loads(invoke("env", *ON_ORDERS, "--json").stdout)["QUEUE_URL"]
    received = orders.sqs.receive_message(QueueUrl=url, MessageAttributeNames=["All"], MaxNumberOfMessages=10)
    for each in received["Messages"]:
        texts = {name: value["StringValue"] for name, value in each["MessageAttributes"].items()}
        assert texts == {"tenant": "north", "trace": "a=b"}


@pytest.mark.parametrize(
    ("declared", "verb"),
    [
        (("[tools]", '[tools]\nstory = "failing.fail"'), ("inspect", "north-1")),
        (("[tools]", '[tools]\nforesee = "failing.fail"'), ("dlq", "list")),
        (("[tools]", '[private]\nfind = "failing.fail"\nname = "it"\npattern = ""\n[tools]'), ("inspect", "north-1")),
        (('request = "order_id"', 'request = "failing.fail"'), ("check",)),
        (("[outcomes.charged]", 'lacking = "failing.fail"\n[outcomes.charged]'), ("status",)),
        (('verbs = ["order_book.count_articles"]', 'verbs = ["failing.fail"]'), ("fail",)),
    ],
)
def test_fault_in_the_consumers_code_is_named_as_the_consumers(
    orders: Orders, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, declared: tuple[str, str], verb: tuple[str, ...]
) -> None:
    orders.deliver(order(1))
    url = json.loads(invoke("env", *ON_ORDERS, "--json").stdout)["DEAD_LETTER_QUEUE_URL"]
    orders.sqs.send_message(QueueUrl=url, MessageBody=json.dumps(order(2)))
    monkeypatch.setattr(sys, "path", [*sys.path, str(ORDERS.parent)])
    monkeypatch.delitem(sys.modules, "failing", raising=False)
    (tmp_path / "failing.py").write_text(f"def fail(*_):\n    raise KeyError('{NHS_NUMBER}')\n")
    (path := tmp_path / "oneslot.toml").write_text(ORDERS.read_text().replace(*declared))

    refused = invoke(*verb, ONESLOT_CONSUMER=str(path))

    assert f"KeyError at {tmp_path / 'failing.py'}:2" in refused.stderr
    assert f"[{ConsumerFailed.code}]" in refused.stderr
    assert (refused.exit_code, NHS_NUMBER in refused.output) == (1, False)


def test_check_counts_an_order_whose_row_is_gone_by_its_effect(orders: Orders) -> None:
    orders.deliver(order(1))
    orders.dynamodb.delete_item(TableName="ledger", Key={"message_id": {"S": "north-1"}})

    checked = document(invoke("check", *ON_ORDERS, "--json"), 1)

    assert checked["counts"]["verdicts"] == {"charged": 1}


def test_inspect_shows_an_order_with_its_effect(orders: Orders) -> None:
    orders.deliver(order(1))

    found = document(invoke("inspect", "north-1", *ON_ORDERS, "--json"))

    assert (found["summary"], found["rows"]["charges"]["pence"]) == ("Charged: 250 pence.", 250)


@pytest.mark.parametrize(("kind", "shown"), [("N", {"charges", "lines"}), ("S", {"charges"})])
def test_inspect_reads_a_row_whose_key_another_row_names(
    orders: Orders, tmp_path: Path, kind: Any, shown: set[str]
) -> None:
    """A key whose attributes are declared in vain is of no row: the table's are of another type."""
    keys = {"order_id": "S", "charged_at": kind}
    orders.dynamodb.create_table(
        TableName="lines",
        KeySchema=[{"AttributeName": name, "KeyType": of} for name, of in zip(keys, ("HASH", "RANGE"), strict=True)],
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": of} for name, of in keys.items()],
        BillingMode="PAY_PER_REQUEST",
    )
    at = order_book.NOW if kind == "N" else str(order_book.NOW)
    orders.put("lines", order_id="north-1", charged_at=at, price=Decimal("2.50"), raw=b"x", tags={"a"})
    orders.deliver(order(1), order(7, article="unknown"))
    declared = tmp_path / "oneslot.toml"
    lines = '[tables.lines]\nkey = ["order_id", "charged_at"]\nrequest = "order_id"\nby_request = true\n'
    declared.write_text(f"entry = {json.dumps(str(ORDERS.parent))}\n{ORDERS.read_text()}\n{lines}")

    found = document(invoke("inspect", "north-1", "--consumer", str(declared), "--json"))
    checked = document(invoke("check", "--consumer", str(declared), "--json"))
    letters = document(invoke("dlq", "list", "--consumer", str(declared), "--json"))

    assert (found["rows"].keys(), checked["kind"], [each["message_id"] for each in letters["messages"]]) == (
        shown,
        "holds",
        ["north-7"],
    )


def test_dlq_forecasts_a_refusal_when_the_decision_gave_the_reason(orders: Orders) -> None:
    """Under the consumer's own id, the same in `list`, `redrive` and `inspect`, also when the message went through again."""
    orders.deliver(order(7, article="unknown"))
    assert document(invoke("dlq", "redrive", "--even-failing", "--yes", *ON_ORDERS, "--json"))["moved"] == 1
    orders.deliver(order(7, article="unknown"))

    refused = "refused by the consumer (unknown_article: article is not sold here)"
    because = f"{refused}. Correct the article, and send the order again"
    [listed] = document(invoke("dlq", "list", *ON_ORDERS, "--json"))["messages"]
    [left] = document(invoke("dlq", "redrive", *ON_ORDERS, "--json"))["left_alone"]
    found = document(invoke("inspect", "north-7", *ON_ORDERS, "--json"))
    said = invoke("inspect", "north-7", *ON_ORDERS).stdout.splitlines()

    for each in (listed, left, found["dead_letters"][0]):
        assert (each["message_id"], each["outlook"], each["because"]) == ("north-7", "fails_again", because)
    assert found["summary"] == "Quarantined: unknown_article."
    assert f"A redrive would fail again: {because}." in said


def test_forecast_and_send_say_by_which_rules_when_the_identity_is_not_declared(orders: Orders, tmp_path: Path) -> None:
    """The handler finds an id where the default rules find none, so a letter that it tried is not invalid."""
    url = orders.consumer.queues.dead_letter_queue_url
    orders.sqs.send_message(QueueUrl=url, MessageBody=json.dumps(order(1)))
    reason = {"QuarantineReason": "unknown_article", "QuarantineDetail": "article is not sold here"}
    typed = {name: {"DataType": "String", "StringValue": text} for name, text in reason.items()}
    orders.sqs.send_message(QueueUrl=url, MessageBody=json.dumps(order(2)), MessageAttributes=typed)
    undeclared = tmp_path / "oneslot.toml"
    text = ORDERS.read_text().partition("[tools]")[0]
    undeclared.write_text(f"entry = {json.dumps(str(ORDERS.parent))}\n{text}")

    letters = document(invoke("dlq", "list", "--consumer", str(undeclared), "--json"))["messages"]
    sent = [invoke("send", json.dumps(order(3)), "--consumer", each).stdout for each in (str(undeclared), str(ORDERS))]

    assert {each["outlook"]: each["because"].partition(",")[0].partition(" (")[0] for each in letters} == {
        "retried": "a guess",
        "fails_again": "refused by the consumer",
    }
    assert ["1 request has no id, so a handler without an identity= of its own moves" in each for each in sent] == [
        True,
        False,
    ]


def test_dlq_foresees_a_duplicate_and_a_forgotten_answer(orders: Orders) -> None:
    orders.deliver(order(1), order(2))
    orders.dynamodb.delete_item(TableName="ledger", Key={"message_id": {"S": "north-2"}})
    letters = invoke("env", *ON_ORDERS, "--json")
    url = json.loads(letters.stdout)["DEAD_LETTER_QUEUE_URL"]
    for number in (1, 2):
        orders.sqs.send_message(QueueUrl=url, MessageBody=json.dumps(order(number)))

    listed = document(invoke("dlq", "list", *ON_ORDERS, "--json"))

    outlooks = {each["message_id"]: each["outlook"] for each in listed["messages"]}
    assert outlooks == {"north-1": "duplicate", "north-2": "done_before"}


def test_ledger_forget_says_what_the_consumer_declares(orders: Orders) -> None:
    orders.deliver(order(1))
    told = invoke("ledger", "forget", "north-1", *ON_ORDERS)
    assert "Its charge stays, and a later copy gets the same answer." in told.stdout.replace("\n", " ")


def test_status_counts_the_declared_tables(orders: Orders) -> None:
    orders.deliver(order(1), order(2))
    assert document(invoke("status", *ON_ORDERS, "--json"))["charges"] == {"rows": 2}


def test_verb_of_the_consumer_is_one_of_the_commands(orders: Orders, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ORDERS.parent)
    counted = invoke("count-articles", "--all", "pot")
    assert (counted.exit_code, counted.stdout) == (3, "articles: 2\n")
    assert re.search(r"^  count-articles +order_book.count_articles$", invoke("--help").stdout, re.MULTILINE)


def test_folder_runs_no_code_when_help_or_completion_lists_its_verbs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hostile.py").write_text("from pathlib import Path\nPath('ran').touch()\ndef count():\n    pass\n")
    (tmp_path / "oneslot.toml").write_text(
        'name = "o"\nhandler = "hostile.h"\nstack = "O"\nverbs = ["hostile.count"]\n'
    )
    monkeypatch.chdir(tmp_path)
    words = {"_ONESLOT_COMPLETE": "bash_complete", "COMP_WORDS": "oneslot c", "COMP_CWORD": "1"}

    helped = invoke("--help")
    completed = CliRunner().invoke(main, [], prog_name="oneslot", env=words)

    assert "hostile.count" in helped.stdout
    assert "plain,count\n" in completed.stdout
    assert not (tmp_path / "ran").exists()


def test_stack_is_refused_when_another_consumer_is_declared(orders: Orders) -> None:
    refused = invoke("check")
    assert refused.exit_code == 1
    assert f"[{WrongConsumer.code}]" in refused.stderr
