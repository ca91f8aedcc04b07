"""What a verdict that holds does not speak of: lines that ran in no schedule, and calls that never met a fault."""

from pathlib import Path
from typing import Any

import pytest

from lab.explore.sends.exploration import ENVIRONMENT
from oneslot.explorer.handlers.exploration import explore
from oneslot.explorer.refusal import NotExplorable

HANDLER = '''
import json

import boto3

table = boto3.resource("dynamodb").Table("orders")


def price(order):
    """In pence."""
    match order:
        case {"free": True}:
            return 0
        case {"id": _}:
            return 7


def refund(order):
    table.delete_item(Key={"id": order["id"]})


def handler(event, context):
    for record in event["Records"]:
        order = json.loads(record["body"])
        try:
            table.put_item(
                Item={"id": order["id"], "price": price(order)},
            )
        except Exception:
            class Mark: text = "failed"
            table.put_item(Item={"id": "failures", "text": Mark.text})
            raise
        finally:
            if order.get("refund"):
                print(
                    order,
                )

                refund(order)


def another(event, context):
    refund(event)
'''


def test_verdict_names_what_no_schedule_ran_and_no_fault_met(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(HANDLER)

    result = explore(
        "app.handler", messages=[{"id": "o-1"}], tables=["orders:id"], path=tmp_path, law=lambda world: True
    )

    assert result.unrun == ("app.py:13, 19, 35-39",)
    assert result.unmet == ("put_item at app.py:31",)
    assert "No schedule runs: app.py:13, 19, 35-39." in str(result)


def test_verdict_names_no_line_of_a_package_beside_the_code(tmp_path: Path) -> None:
    layer = tmp_path / "layer"
    (layer / "wrapped-1.0.dist-info").mkdir(parents=True)
    (layer / "wrapped-1.0.dist-info" / "RECORD").write_text("wrapped/__init__.py,,\nsingle.py,,\n")
    (layer / "wrapped").mkdir()
    unrun = "def call(function):\n    if function is None:\n        return None\n    return function()\n"
    for file in ("wrapped/__init__.py", "single.py", "own.py"):
        (layer / file).write_text(unrun)
    (tmp_path / "app.py").write_text(
        "import boto3\n\nimport own\nimport single\nimport wrapped\n\n\ndef handler(event, context):\n"
        '    table = boto3.resource("dynamodb").Table("orders")\n'
        '    own.call(lambda: single.call(lambda: wrapped.call(lambda: table.put_item(Item={"id": "1"}))))\n'
    )

    result = explore("app.handler", messages=["{}"], tables=["orders:id"], path=[tmp_path, layer])

    assert (result.kind, result.unrun) == ("holds", ("layer/own.py:3",))


def test_verdict_names_what_would_complete_the_next_level(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(HANDLER)
    options: dict[str, Any] = {"messages": [{"id": "o-1"}, {"id": "o-2"}], "copies": 3, "faults": 2, "budget": 0.001}

    result = explore("app.handler", tables=["orders:id"], path=tmp_path, **options)

    sentence = 'no breach found, but the budget ended at level 1 of 4, "twice"; no level is complete'
    assert (result.kind, result.holds, result.verdict) == ("not finished", False, sentence)
    assert result.remedy == "To complete the next level, raise the budget, or give fewer messages, copies=2, faults=1."
    assert result.remedy in str(result)


WRITES = """
import json

import boto3

import tools

table = boto3.resource("dynamodb").Table("orders")


def put(order):
    table.put_item(Item={"id": order["id"]})


def reports(event, context):
    for record in event["Records"]:
        try:
            put(json.loads(record["body"]))
        except Exception:
            return {"batchItemFailures": [{json.loads(record["body"])["name"]: record["messageId"]}]}


def marks(event, context):
    for record in event["Records"]:
        if "Item" not in table.get_item(Key={"id": json.loads(record["body"])["name"]}, ConsistentRead=True):
            table.put_item(Item={"id": json.loads(record["body"])["name"]})


def reads(event, context):
    table.get_item(Key={"id": "o-1"}) or metrics.put_metric("read", 1)


def passes_over(event, context):
    for record in event["Records"]:
        if "paid" in record["body"]:
            put(json.loads(record["body"]))


def swallows(event, context):
    try:
        table.put_item(Item={"id": event["order"]})
    except KeyError:
        return


def is_refused(event, context):
    try:
        table.put_item(Item={"id": "o-1"}, ConditionExpression="attribute_exists(id)")
    except table.meta.client.exceptions.ConditionalCheckFailedException:
        return


def counts(event, context):
    if event.get("report"):
        return tools.create_engine("orders")


def notifies(event, context):
    if event.get("report"):
        boto3.client("sns").publish(TopicArn="arn", Message="report")


def answers_400(event, context):
    return {"statusCode": 400}
"""
LEDGER = {"ONESLOT_LEDGER_TABLE": "ledger", "ONESLOT_TABLES": "orders"}


@pytest.mark.parametrize(
    ("handler", "given", "kind", "words"),
    [
        ("reads", {"messages": ["{}"]}, "holds", "holds at every level, and writes nothing"),
        ("passes_over", {"messages": ["{}"]}, "needs an event", "does not write: put_item at app.py:12"),
        ("passes_over", {"messages": ['{"id": "paid"}']}, "holds", "holds at every level"),
        ("swallows", {"event": {}}, "needs an event", "put_item at app.py:41, after KeyError: 'order'"),
        ("is_refused", {"event": {}}, "needs an event", "does not write: put_item at app.py:48"),
        ("reports", {"messages": [{"id": "o-1", "name": "messageId"}]}, "holds", "has no itemIdentifier."),
        ("reports", {"messages": [{"id": "o-1", "name": "itemIdentifier"}]}, "holds", "holds at every level"),
        ("marks", {"messages": [{"name": "a"}] * 2}, "holds", "a second message of the same body changes nothing"),
        ("marks", {"messages": [{"name": "a"}, {"name": "a", "n": 2}]}, "holds", "after message 2: they differ in n."),
        ("marks", {"messages": [{"name": "a"}, {"name": "b"}]}, "holds", "holds at every level"),
        ("counts", {"event": {"report": ""}}, "holds", "holds at every level, and writes nothing"),
        ("notifies", {"event": {"report": ""}}, "needs an event", "does not write: publish at app.py"),
        ("answers_400", {"event": {"httpMethod": "POST"}}, "needs an event", "it answers 400"),
    ],
)
def test_verdict_is_about_a_write_or_says_that_there_is_none(
    handler: str, given: dict[str, Any], kind: str, words: str, tmp_path: Path
) -> None:
    (tmp_path / "app.py").write_text(WRITES)
    (tmp_path / "tools.py").touch()

    result = explore(
        f"app.{handler}", tables=["orders:id", "ledger:request_id"], path=tmp_path, **{"env": LEDGER, **given}
    )

    assert (result.kind, words in str(result)) == (kind, True)
    is_silent = handler == "marks" and "every" not in words
    assert ("in vain" in str(result), "changes nothing" in str(result)) == ("itemId" in words, is_silent)


def test_exploration_is_refused_when_it_has_no_level(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(HANDLER)

    with pytest.raises(NotExplorable, match="Give faults=1 or more"):
        explore("app.handler", messages=[{"id": "o-1"}], tables=["orders:id"], path=tmp_path, fifo=True, faults=0)


def test_verdict_names_what_it_does_not_compare(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(
        "import time\n\nimport boto3\n\n\ndef handler(event, context):\n"
        '    boto3.resource("dynamodb").Table("orders").put_item(Item={"id": "1", "at": int(time.time())})\n'
    )

    result = explore("app.handler", messages=["{}"], tables=["orders:id"], path=tmp_path)

    assert "Not compared, because time or chance generates it: orders.at." in str(result)


DECISION = """
from oneslot import Effects, Put, Unprocessable, consumer_from_environment


def sold_out(found):
    return Effects({"outcome": "sold out"}, [Put("orders", {"id": "sold out"}, key="id")])


def take(order):
    if "article" not in order.body:
        raise Unprocessable("invalid", "article is missing")
    put = Put("orders", {"id": order.message_id}, key="id", otherwise=lambda found: sold_out(found))
    return Effects({"outcome": "taken"}, [put])


handler = consumer_from_environment(take)
"""


@pytest.mark.parametrize(
    ("message", "kind", "words"),
    [
        ({"message_id": "first"}, "needs an event", "Effects at app.py:13"),
        ({}, "needs an event", "Effects at app.py:13"),
        ({"message_id": "first", "article": "teapot"}, "holds", "every level"),
    ],
)
def test_consumer_is_judged_when_its_decision_takes_effect(
    message: dict[str, str], kind: str, words: str, tmp_path: Path
) -> None:
    (tmp_path / "app.py").write_text(DECISION)
    tables, env = {"orders": "id", "ledger": "message_id"}, {**ENVIRONMENT, "ONESLOT_KEY_ORDERS": "id"}

    result = explore("app.handler", messages=[message], tables=tables, path=tmp_path, env=env)

    assert (result.kind, words in result.verdict) == (kind, True), result
    assert result.written == (("Effects at app.py:13",) if kind == "holds" else ())
    assert kind != "holds" or not result.unwritten  # what `otherwise` names answers a condition, and no event


STEPS = """
import boto3

table = boto3.resource("dynamodb").Table("orders")


def handler(event, context):
    table.get_item(Key={"id": "total"})
    table.update_item(Key={"id": "total"}, UpdateExpression="ADD n :n", ExpressionAttributeValues={":n": 1})
    table.put_item(Item={"id": "0"})
"""


LONG_KEYS = """
import boto3


def handler(event, context):
    table = boto3.resource("dynamodb").Table("orders")
    for digit in "123":
        table.put_item(Item={"id": digit * 40})
    table.put_item(Item={"id": "4" * 40}, ConditionExpression="attribute_not_exists(id)")
"""
DONE = "update orders total; put orders 0; ends, acknowledges"
KEPT = f"put orders {'1' * 20}...; put orders {'2' * 20}...; put orders {'3' * 20}...;"


@pytest.mark.parametrize(
    ("code", "copies", "short"),
    [
        (STEPS, 2, f"A and B deliver the message.\nA: {DONE}\nB: {DONE}"),
        (
            LONG_KEYS,
            1,
            f"A delivers the message.\nA: {KEPT} put ... crash before the message is deleted\n"
            f"B to K: {KEPT} ... ends, by ConditionalCheckFailedException",
        ),
    ],
)
def test_short_path_says_how_the_run_differs_from_one_without_a_fault(
    code: str, copies: int, short: str, tmp_path: Path
) -> None:
    (tmp_path / "app.py").write_text(code)

    result = explore("app.handler", messages=["{}"], tables=["orders:id"], path=tmp_path, copies=copies)

    assert result.short == short
    assert result.short in result.text(verbose=False)
    assert result.counterexample in result.text(verbose=True)
