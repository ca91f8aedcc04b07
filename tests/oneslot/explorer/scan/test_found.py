"""Handlers whose first event does not show what matters: the scan goes on until each write that they name has run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from oneslot.explorer.scan.scan import Scan, scan

HEAD = """
import json, boto3
client = boto3.client("dynamodb")
stock, marks = (boto3.resource("dynamodb").Table(one) for one in ("Stock", "Marks"))

def made_at_import():
    def another_handler(one): marks.put_item(Item=one)
    return another_handler
kept = made_at_import()
def handler(event, context):
"""
BODY = '    record = event["Records"][0]\n    body = json.loads(record["body"])\n'
ASIDE = """
    if not isinstance(body.get("pieces"), int) or not body.get("sku"):
        boto3.client("sqs").send_message(QueueUrl="D", MessageBody="x")
        return
"""
COUNT = '"TableName": "Stock", "Key": {"id": {"S": "all"}}, "ExpressionAttributeValues": {":n": {"N": "1"}}'
ADD = f'{{"Update": {{{COUNT}, "UpdateExpression": "ADD n :n"}}}}'
TAKE = f'{{"Update": {{{COUNT}, "UpdateExpression": "SET n = n - :n", "ConditionExpression": "n >= :n"}}}}'
SHOP = '"TableName": "Marks", "Key": {"id": {"S": body["shop"]}}, "ConditionExpression": "attribute_exists(id)"'
SHOP = f'{{"ConditionCheck": {{{SHOP}}}}}'
MARK = '"TableName": "Marks", "Item": {"id": {"S": record["messageId"]}}, "ConditionExpression": "attribute_not_exists(id)"'
MARK = f'{{"Put": {{{MARK}}}}}'
ONCE = """
    try:
        client.transact_write_items(TransactItems=[{}])
    except client.exceptions.TransactionCanceledException as error:
        if "Conflict" in str(error):
            raise
"""
PUT = '        stock.put_item(Item={"id": body["id"]})\n'
HANDLERS = {
    "AsideAdds": (BODY + ASIDE + f"    client.transact_write_items(TransactItems=[{ADD}])\n", "breaks"),
    "AsideAddsOnce": (BODY + ASIDE + ONCE.format(f"{MARK}, {ADD}"), "holds"),
    "TakesOfAShop": (BODY + ONCE.format(f"{SHOP}, {TAKE}"), "breaks"),
    "TakesOnceOfAShop": (BODY + ONCE.format(f"{MARK}, {SHOP}, {TAKE}"), "holds"),
    "HasAnotherWay": (
        BODY + f'    if context.function_name != "other":\n{PUT}    else:\n        marks.put_item(Item=body)\n',
        "needs an event",
    ),
    "RefusesAll": ('    marks.put_item(Item={"id": "seen"})\n    return {"statusCode": 422}\n', "always refuses"),
    "TakesPaid": ('    event["detail-type"] == "Paid" and stock.put_item(Item={"id": event["id"]})\n', "holds"),
}
QUEUE = {"Type": "SQS", "Properties": {"Queue": {"Fn::GetAtt": ["Queue", "Arn"]}, "BatchSize": 1}}
RULE = {"Type": "EventBridgeRule", "Properties": {"Pattern": {"source": ["shop"]}}}


@pytest.fixture(scope="module")
def scanned(tmp_path_factory: pytest.TempPathFactory) -> Scan:
    resources: dict[str, Any] = {name: {"Type": "AWS::Serverless::SimpleTable"} for name in ("Stock", "Marks")}
    resources["Queue"] = {"Type": "AWS::SQS::Queue"}
    for name, (lines, _) in HANDLERS.items():
        properties = {"Handler": "index.handler", "Runtime": "python3.12", "InlineCode": HEAD + lines}
        events = {"Events": {"One": RULE if name == "TakesPaid" else QUEUE}}
        resources[name] = {"Type": "AWS::Serverless::Function", "Properties": {**properties, **events}}
    template: Path = tmp_path_factory.mktemp("found") / "template.json"
    template.write_text(json.dumps({"Resources": resources}))
    return scan(template, budget=200)


@pytest.mark.parametrize("name", HANDLERS)
def test_verdict_is_on_each_write_that_the_code_names(name: str, scanned: Scan) -> None:
    (row,) = (one for one in scanned.rows if one.function == name)

    assert row.verdict == HANDLERS[name][1], row
    assert ("never ran" in row.why) == (name == "HasAnotherWay")
