"""Handlers whose first event does not show what matters: the scan goes on until each write that they name has run."""

from typing import Any

import pytest

from oneslot.explorer.scan.scan import Scan, scan
from tests.oneslot.explorer.scan.shop import written_template

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
    "AlsoScheduled": (
        '    if "Records" in event:\n        stock.put_item(Item={"id": "last"})\n'
        '    else:\n        marks.update_item(Key={"id": "n"}, UpdateExpression="ADD n :n", '
        'ExpressionAttributeValues={":n": 1})\n',
        "holds breaks",
    ),
    "TakesPaid": ('    event["detail-type"] == "Paid" and stock.put_item(Item={"id": event["id"]})\n', "holds"),
}
QUEUE = {"Type": "SQS", "Properties": {"Queue": {"Fn::GetAtt": ["Queue", "Arn"]}, "BatchSize": 1}}
DAILY = {"Type": "Schedule", "Properties": {"Schedule": "rate(1 day)"}}
RULE = {"Type": "EventBridgeRule", "Properties": {"Pattern": {"source": ["shop"]}}}


@pytest.fixture(scope="module")
def scanned(tmp_path_factory: pytest.TempPathFactory) -> Scan:
    table, queue = ({"Type": f"AWS::{one}"} for one in ("Serverless::SimpleTable", "SQS::Queue"))
    functions: dict[str, Any] = {}
    for name, (lines, _) in HANDLERS.items():
        events = {"One": RULE if name == "TakesPaid" else QUEUE} | ({"Two": DAILY} if name == "AlsoScheduled" else {})
        functions[name] = {"Handler": "index.handler", "InlineCode": HEAD + lines, "Events": events}
    folder = tmp_path_factory.mktemp("found")
    return scan(written_template(folder, functions, Stock=table, Marks=table, Queue=queue), budget=200)


@pytest.mark.parametrize("name", HANDLERS)
def test_verdict_is_on_each_write_that_the_code_names(name: str, scanned: Scan) -> None:
    rows = [one for one in scanned.rows if one.function == name]

    assert " ".join(row.verdict for row in rows) == HANDLERS[name][1], rows
    assert ("never ran" in rows[0].why) == (name == "HasAnotherWay")
