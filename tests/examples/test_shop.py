"""The shop: its answers in memory, its template, and its function started from the asset alone."""

import json
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import boto3
import pytest

from examples.shop import scenario
from examples.shop.stack import build
from examples.shop.stock_laws import stock_is_what_the_orders_left
from oneslot import Answer, JsonMessage, MemoryLedger, Unprocessable, attempt
from oneslot.laws.evidence import Evidence
from tests.kits.stacks import literal_names

VARIABLES = {
    "ONESLOT_LEDGER_TABLE": "ledger",
    "ONESLOT_LEDGER_RETENTION_SECONDS": "forever",
    "ONESLOT_QUEUE_URL": "https://queue",
    "ONESLOT_DEAD_LETTER_QUEUE_URL": "https://dead-letters",
    "ONESLOT_SEND_TAKEN": "arn:aws:sns:eu-west-2:000000000000:taken",
    "AWS_DEFAULT_REGION": "eu-west-2",
    "AWS_ACCESS_KEY_ID": "none",
    "AWS_SECRET_ACCESS_KEY": "none",
}


class Shop:
    """The decision of the example's file, on a ledger in memory."""

    def __init__(self) -> None:
        self.take = runpy.run_path(str(Path(scenario.__file__).with_name("consumer") / "app.py"))["take"]
        self.ledger = MemoryLedger(keys=scenario.tables)
        for name, rows in scenario.rows.items():
            self.ledger.tables[name] = rows

    def order(self, number: str, **changes: str) -> Any:
        """Return the outcome of an order."""
        message = JsonMessage(number, body={"customer": "ada", "article": "teapot", **changes})
        answer = attempt(self.ledger, message, self.take, self.ledger.surroundings.now_ms() + 30_000)
        assert isinstance(answer, Answer)
        return answer.result["outcome"]

    def rows(self, table: str) -> list[dict[str, Any]]:
        return list(self.ledger.tables[table].values())


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch) -> Shop:
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    return Shop()


def test_order_is_answered_by_the_stock_and_the_customer(shop: Shop) -> None:
    assert [shop.order(number) for number in ("o-1", "o-2", "o-1", "o-3")] == ["taken"] * 3 + ["sold_out"]
    assert [shop.order("o-4", customer="bob"), shop.order("o-5", article="mug")] == ["unknown", "sold_out"]
    assert [row["left"] for row in shop.rows("stock")] == [0]
    assert sorted(row["number"] for row in shop.rows("orders")) == ["o-1", "o-2"]
    assert shop.rows("baskets") == []
    assert [json.loads(row["sends"])[0]["body"] for row in shop.ledger.rows.values() if "sends" in row] == [
        f'{{"article":"teapot","order":"{number}"}}' for number in ("o-1", "o-2")
    ]


def test_order_counts_once_when_its_row_has_expired(shop: Shop) -> None:
    assert shop.order("o-1") == "taken"
    del shop.ledger.rows["o-1"]
    assert shop.order("o-1") == "taken"
    assert [row["left"] for row in shop.rows("stock")] == [1]


@pytest.mark.parametrize("body", [{}, {"customer": "ada"}, {"customer": "ada", "article": ""}, {"article": 1}])
def test_invalid_order_is_quarantined(shop: Shop, body: Any) -> None:
    with pytest.raises(Unprocessable, match="customer and article must be text"):
        shop.take(JsonMessage("o-1", body=body))


def test_law_finds_a_stock_that_was_counted_twice() -> None:
    orders = {("ada", "o-1"): {"customer": "ada", "number": "o-1", "article": "teapot"}}
    stock = {"teapot": {"article": "teapot", "left": 0, "first": 2}, "mug": {"article": "mug", "left": 1, "first": 1}}
    found = list(stock_is_what_the_orders_left(Evidence(tables={"orders": orders, "stock": stock})))
    assert found == [("teapot", "has 0 of 2 left after 1 orders")]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    folder = tmp_path_factory.mktemp("shop")
    build(str(folder)).synth()
    (asset,) = folder.glob("asset.*")
    return json.loads((folder / "Shop.template.json").read_text(encoding="utf-8")), asset


def test_consumer_may_do_to_each_table_what_its_words_need(template: tuple[dict[str, Any], Path]) -> None:
    """The construct's own resources are in its snapshots."""
    roles = [each["Properties"] for each in template[0]["Resources"].values() if each["Type"] == "AWS::IAM::Role"]
    granted = {
        policy["PolicyName"]: statement["Action"]
        for role in roles
        for policy in role["Policies"]
        for statement in policy["PolicyDocument"]["Statement"]
    }
    actions = {"Orders": "PutItem", "Stock": "UpdateItem", "Customers": "ConditionCheckItem", "Baskets": "DeleteItem"}
    assert {name: granted[name] for name in actions} == {name: f"dynamodb:{each}" for name, each in actions.items()}
    assert granted["ToTaken"] == "sns:Publish"
    assert literal_names(template[0]) == [], "what outlives its stack never blocks the next one of its name"


def test_function_starts_from_its_asset_alone(template: tuple[dict[str, Any], Path]) -> None:
    found, asset = template
    functions = [each["Properties"] for each in found["Resources"].values() if each["Type"] == "AWS::Lambda::Function"]
    variables = {key: str(value) for each in functions for key, value in each["Environment"]["Variables"].items()}
    variables |= VARIABLES  # in place of the names that CloudFormation gives
    # boto3 is Lambda's own; -S: nothing else of this environment comes first.
    program = f"import sys; sys.path[:0] = [{str(asset)!r}]; sys.path.append({str(Path(boto3.__file__).parents[1])!r});"
    program += " import app, oneslot.runtime; print(oneslot.runtime.__file__, callable(app.handler))"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program],
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.startswith(str(asset)), done.stderr
    assert done.stdout.endswith("True\n")
