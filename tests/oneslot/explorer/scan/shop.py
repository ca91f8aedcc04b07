"""Handlers of a shop, one for each source, as a user would write them; and the template that deploys them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from oneslot.explorer.scan.judging import Row
from oneslot.explorer.scan.scan import Scan

HANDLERS = """
import json
import os

import boto3

table = boto3.resource("dynamodb").Table(os.environ["TABLE"])
settings = open("settings.txt").read()


def orders(event, context):
    for record in event["Records"]:
        body = json.loads(record["body"])
        table.put_item(Item={"id": body["order"], "count": int(body["count"])})


def counter(event, context):
    for record in event["Records"]:
        customer = json.loads(record["Sns"]["Message"])["customer"]
        table.update_item(
            Key={"id": customer["id"]},
            UpdateExpression="ADD n :one",
            ExpressionAttributeValues={":one": 1},
        )


def api(event, context):
    body = json.loads(event["body"])
    try:
        table.put_item(Item={"id": body["id"]})
    except Exception:
        return {"statusCode": 503}
    return {"statusCode": 200}


def grouped(event, context):
    failures = []
    for record in event["Records"]:
        try:
            table.put_item(Item={"id": json.loads(record["body"])["order"]})
        except Exception as error:
            failures.append(error)
    if failures:
        raise ExceptionGroup("unhandled errors in a TaskGroup", failures)


def reader(event, context):
    key = {"id": event["detail"]["id"]}
    row = table.get_item(Key=key)["Item"]
    table.put_item(Item={**row, "read": True})


def careful(event, context):
    try:
        order = json.loads(event["Records"][0]["Sns"]["Message"])["order"]
    except Exception:
        return
    table.put_item(Item={"id": order})


def subscribed(event, context):
    for record in event["Records"]:
        order = json.loads(json.loads(record["body"])["Message"])["order"]
        table.put_item(Item={"id": order})


def hashed(event, context):
    table.put_item(Item={"id": str(hash(event["Records"][0]["Sns"]["Message"]))})


def leave(event, context):
    table.put_item(Item={"id": "1"})
    raise SystemExit(1)


def report(event, context):
    boto3.client("athena").start_query_execution(QueryString="select 1")


def picky(event, context):
    raise ValueError("not a document")
"""

TEMPLATE = """
Transform: AWS::Serverless-2016-10-31
Parameters: {Stage: {Type: AWS::SSM::Parameter::Value<String>, Default: /shop/stage}}
Globals:
  Function:
    Runtime: python3.12
    CodeUri: src/
    Environment: {Variables: {TABLE: !Ref Table, BANK_URL: !ImportValue bank, LOG_LEVEL: !ImportValue level}}
Resources:
  Table: {Type: AWS::Serverless::SimpleTable}
  Topic: {Type: AWS::SNS::Topic}
  Dead: {Type: AWS::SQS::Queue}
  Queue:
    Type: AWS::SQS::Queue
    Properties: {VisibilityTimeout: 180, RedrivePolicy: {deadLetterTargetArn: !GetAtt Dead.Arn, maxReceiveCount: 5}}
  Orders:
    Type: AWS::Serverless::Function
    Properties:
      Handler: app.orders
      Timeout: 30
      Environment: {Variables: {OWN: beside those of Globals}}
      Events: {A: {Type: SQS, Properties: {Queue: !GetAtt Queue.Arn, FunctionResponseTypes: [ReportBatchItemFailures]}}}
  Grouped:
    Type: AWS::Serverless::Function
    Properties:
      {Handler: app.grouped, Timeout: 30, Events: {Queue: {Type: SQS, Properties: {Queue: !GetAtt Queue.Arn, BatchSize: 1}}}}
  Counter:
    Type: AWS::Serverless::Function
    Properties: {Handler: app.counter, Events: &topic {Topic: {Type: SNS, Properties: {Topic: !Ref Topic}}}}
  Api:
    Type: AWS::Serverless::Function
    Properties: {Handler: app.api, Events: {Post: {Type: HttpApi, Properties: {Path: /orders, Method: post}}}}
  Picky:
    Type: AWS::Serverless::Function
    Properties: {Handler: app.picky, Events: &shop {Any: {Type: EventBridgeRule, Properties: {Pattern: {source: [shop]}}}}}
  Reader: {Type: AWS::Serverless::Function, Properties: {Handler: app.reader, Events: *shop}}
  Careful: {Type: AWS::Serverless::Function, Properties: {Handler: app.careful, Events: *topic}}
  Subscribed:
    Type: AWS::Serverless::Function
    Properties: {Handler: app.subscribed, Events: {Topic: {Type: SNS, Properties: {Topic: !Ref Topic, SqsSubscription: true}}}}
  Hashed: {Type: AWS::Serverless::Function, Properties: {Handler: app.hashed, Events: *topic}}
  Leave: {Type: AWS::Serverless::Function, Properties: {Handler: app.leave, Events: *topic}}
  Report: {Type: AWS::Serverless::Function, Properties: {Handler: app.report, Events: *topic}}
  Node: {Type: AWS::Serverless::Function, Properties: {Handler: app.orders, Runtime: nodejs22.x}}
  Missing: {Type: AWS::Serverless::Function, Properties: {Handler: app.orders, CodeUri: gone/, Events: *topic}}
  Alexa: {Type: AWS::Serverless::Function, Properties: {Handler: app.orders, Events: {User: {Type: AlexaSkill}}}}
  Nameless: {Type: AWS::Serverless::Function, Properties: {Events: *topic}}
  Once: {Type: AWS::Serverless::Function, Properties: {Handler: app.orders}}
  Machine: {Type: AWS::Serverless::StateMachine, Properties: {Definition: {States: {A: {Resource: !GetAtt Once.Arn}}}}}
  Inline:
    Type: AWS::Lambda::Function
    Properties:
      Handler: index.handler
      Runtime: python3.12
      Code: {ZipFile: !Sub "def handler(event, context): return {'statusCode': 400, 'body': '${Stage}'}"}
  Url: {Type: AWS::Lambda::Url, Properties: {TargetFunctionArn: !GetAtt Inline.Arn}}
"""


def written(folder: Path) -> Path:
    """Write the shop into a folder and return its template."""
    (folder / "src").mkdir()
    (folder / "src" / "app.py").write_text(HANDLERS)
    (folder / "src" / "settings.txt").write_text("beside the code")
    template = folder / "template.yaml"
    template.write_text(TEMPLATE)
    return template


def written_template(folder: Path, functions: Mapping[str, Mapping[str, Any]], **resources: Any) -> Path:
    """Write a template of SAM with these resources, and functions of these properties, into a folder; return it."""
    resources |= {name: {"Type": "AWS::Serverless::Function", "Properties": one} for name, one in functions.items()}
    template = folder / "template.json"
    template.write_text(json.dumps({"Transform": "AWS::Serverless-2016-10-31", "Resources": resources}))
    return template


def row_of(scanned: Scan, function: str) -> Row:
    """Return the row of a function."""
    return next(row for row in scanned.rows if row.function == function)
