"""Handlers that hold with one event meet two: in one delivery, or in flight at the same time."""

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from oneslot.explorer.handlers.given import Given
from oneslot.explorer.handlers.templates.sources import SQS, FunctionSource
from oneslot.explorer.handlers.verdict import Result
from oneslot.explorer.refusal import NotExplorable
from oneslot.explorer.scan import judging
from oneslot.explorer.scan.first_events import IN_ONE_BATCH, Pair
from oneslot.explorer.scan.judging import NO_TEST, in_pairs
from oneslot.explorer.scan.scan import Scan, scan
from tests.oneslot.explorer.scan.shop import row_of, written_template

HANDLERS = """
import base64
import json

import boto3

sns, states = boto3.client("sns"), boto3.client("stepfunctions")
table = boto3.resource("dynamodb").Table("Table")


def put(text):
    table.put_item(Item={"id": json.loads(text)["id"]})


def failed(record, work):
    try:
        work(record["body"])
    except Exception:
        return [{"itemIdentifier": record["messageId"]}]
    return []


def every(event, context):
    return {"batchItemFailures": [one for record in event["Records"] for one in failed(record, put)]}


def first(event, context):
    put(event["Records"][0]["body"])


def appends(event, context):
    record = event["Records"][0]
    row = table.get_item(Key={"id": json.loads(record["body"])["id"]}, ConsistentRead=True).get("Item", {"seen": []})
    if record["messageId"] not in row["seen"]:
        table.put_item(Item={"id": json.loads(record["body"])["id"], "seen": [*row["seen"], record["messageId"]]})


def put_state(text):
    body = json.loads(text)
    table.put_item(Item={"id": body["id"], "state": body["state"]})


def goes_on(event, context):
    return {"batchItemFailures": [one for record in event["Records"] for one in failed(record, put_state)]}


def picky(event, context):
    for record in event["Records"]:
        put(record["body"])
        if json.loads(record["body"])["id"] != "id-1":
            raise ValueError("unknown")


def shard(event, context):
    for record in event["Records"]:
        put(base64.b64decode(record["kinesis"]["data"]))


def gathered(event, context):
    batch = [json.loads(base64.b64decode(record["kinesis"]["data"])) for record in event["Records"]]
    states.start_execution(stateMachineArn="Flow", name=context.aws_request_id, input=json.dumps(batch))


def announced(event, context):
    sns.publish(TopicArn="arn:aws:sns:eu-west-2:111122223333:orders", Message="There are new orders.")


def shard_first(event, context):
    put(base64.b64decode(event["Records"][0]["kinesis"]["data"]))


def rows(event, context):
    for record in event["Records"]:
        try:
            table.put_item(Item={"id": record["dynamodb"]["Keys"]["id"]["S"]})
        except Exception:
            return {"batchItemFailures": [{"itemIdentifier": record["dynamodb"]["SequenceNumber"]}]}
    return {"batchItemFailures": []}


def rows_skipped(event, context):
    for record in event["Records"]:
        answer = rows({"Records": [record]}, context)
    return answer
"""
COUNTS = """
import json
from functools import partial
import boto3
table = boto3.resource("dynamodb").Table("Table")

def counted(unless, event, context):
    for record in event["Records"]:
        if "s3" in record:
            key, name = record["s3"]["bucket"]["name"], record["s3"]["object"]["key"]
        else:
            key, name = (json.loads(record["body"])[one] for one in ("customer", "payment"))
        update, values = "ADD n :one, known :set SET latest = :name", {":one": 1, ":name": name, ":set": {name}}
        given = {"UpdateExpression": update, "ConditionExpression": unless, "ExpressionAttributeValues": values}
        try:
            table.update_item(Key={"id": key}, **given)
        except table.meta.client.exceptions.ConditionalCheckFailedException:
            pass

unless_last = partial(counted, "attribute_not_exists(latest) OR latest <> :name")
unless_known = partial(counted, "NOT contains(known, :name)")
known = set()

def seen(event, context):
    for record in event["Records"]:
        if record["body"] not in known:
            boto3.client("sns").publish(TopicArn="arn:aws:sns:eu-west-2:111122223333:t", Message=record["body"])
            known.add(record["body"])

def books(event, context):  # two rows of one key, and more fields than are tried one by one
    for record in event["Records"]:
        first, *_ = [json.loads(record["body"])[name] for name in "abcdefghijklm"]
        [table.put_item(Item={"id": f"{first}/{number}"}) for number in range(2)]
    unless_last(event, context)
"""
BUCKET = {"Bucket": {"Ref": "Uploads"}, "Events": "s3:ObjectCreated:*"}
REPORTS = {"FunctionResponseTypes": ["ReportBatchItemFailures"]}
QUEUE = {"Queue": {"Fn::GetAtt": ["Queue", "Arn"]}, **REPORTS}
STREAM = {"Stream": {"Fn::GetAtt": ["Stream", "Arn"]}}
ROWS = {"Stream": {"Fn::GetAtt": ["Source", "StreamArn"]}, **REPORTS}
ORDERED = {"Queue": {"Fn::GetAtt": ["Ordered", "Arn"]}, **REPORTS}
ALSO, BREAKS = "holds at every level, also with two", "with two messages in one batch it breaks"
OF_A_ROW = "that write one key of Table"
OF_A_SHARD = f"{ALSO} records in one batch and 1 fault"
FUNCTIONS: dict[str, tuple[str, str, dict[str, Any], str]] = {
    "Every": ("every", "SQS", QUEUE, f"{ALSO} messages in one batch and 2 faults"),
    "First": ("first", "SQS", {**QUEUE, "BatchSize": 5}, f"{BREAKS} without any fault: as-if-once: Table has 1 row"),
    "Single": ("first", "SQS", {**QUEUE, "BatchSize": 1}, f"{ALSO} messages of one body and 1 fault"),
    "Seen": ("counts.seen", "SQS", {**QUEUE, "BatchSize": 1}, "with two messages of one body it breaks"),
    "AppendsInOrder": ("appends", "SQS", {**ORDERED, "BatchSize": 1}, "with two messages of two groups it breaks"),
    "PutsInOrder": ("first", "SQS", {**ORDERED, "BatchSize": 1}, f"{ALSO} messages of two groups and 1 fault"),
    "GoesOn": ("goes_on", "SQS", ORDERED, BREAKS),
    "Picky": ("picky", "SQS", QUEUE, f"{ALSO} messages of one body and 1 fault"),
    "Shard": ("shard", "Kinesis", STREAM, OF_A_SHARD),
    "Gathered": ("gathered", "Kinesis", STREAM, OF_A_SHARD),
    "Announced": ("announced", "Kinesis", STREAM, OF_A_SHARD),
    "ShardFirst": ("shard_first", "Kinesis", STREAM, "with two records in one batch it breaks"),
    "Rows": ("rows", "DynamoDB", ROWS, f"{ALSO} records in one batch and 2 faults"),
    "InAnyOrder": ("goes_on", "SQS", QUEUE, f"{ALSO} messages in one batch and 2 faults"),
    "PaidLast": ("counts.unless_last", "SQS", {**QUEUE, "BatchSize": 1}, f"with two messages {OF_A_ROW} it breaks"),
    "PaidOnce": ("counts.unless_known", "SQS", {**QUEUE, "BatchSize": 1}, f"{ALSO} messages {OF_A_ROW} and 1 fault"),
    "BookedLast": ("counts.books", "SQS", {**QUEUE, "BatchSize": 1}, f"with two messages {OF_A_ROW} it breaks"),
    "StoredLast": ("counts.unless_last", "S3", BUCKET, f"with two events {OF_A_ROW} it breaks"),
    "StoredOnce": ("counts.unless_known", "S3", BUCKET, f"{ALSO} events {OF_A_ROW} and 1 fault"),
    "RowsSkipped": ("rows_skipped", "DynamoDB", ROWS, "with two records in one batch it breaks"),
}


def _written(folder: Path) -> Path:
    (folder / "app.py").write_text(HANDLERS)
    (folder / "counts.py").write_text(COUNTS)
    simple = {"Type": "AWS::Serverless::SimpleTable"}
    resources: dict[str, Any] = {"Table": simple, "Source": simple, "Queue": {"Type": "AWS::SQS::Queue"}}
    resources["Uploads"] = {"Type": "AWS::S3::Bucket"}
    resources["Ordered"] = {"Type": "AWS::SQS::Queue", "Properties": {"FifoQueue": True}}
    functions = {
        name: {
            "Handler": handler if "." in handler else f"app.{handler}",
            "CodeUri": ".",
            "Events": {"One": {"Type": kind, "Properties": mapping}},
        }
        for name, (handler, kind, mapping, _) in FUNCTIONS.items()
    }
    return written_template(folder, functions, **resources, Stream={"Type": "AWS::Kinesis::Stream"})


FAST = (
    *("Every", "First", "Single", "Picky", "Shard", "RowsSkipped"),
    *("InAnyOrder", "Seen", "BookedLast", "PaidLast", "PaidOnce", "StoredLast", "StoredOnce"),
)
"""Those of the fast tests: each source, and each end. All take 25 seconds of CPU."""


@pytest.fixture(scope="module")
def scanned(tmp_path_factory: pytest.TempPathFactory) -> Scan:
    return scan(_written(tmp_path_factory.mktemp("batches")), only=FAST, budget=120)


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> Scan:
    return scan(_written(tmp_path_factory.mktemp("others")), only=sorted(FUNCTIONS.keys() - FAST), budget=120)


@pytest.mark.parametrize(
    ("function", "why"),
    [pytest.param(name, why, marks=() if name in FAST else pytest.mark.slow) for name, (*_, why) in FUNCTIONS.items()],
)
def test_verdict_speaks_of_two_records_when_a_batch_may_have_them(
    request: pytest.FixtureRequest, function: str, why: str
) -> None:
    row = row_of(request.getfixturevalue("scanned" if function in FAST else "others"), function)

    assert row.verdict == ("holds" if why.startswith("holds") else "breaks")
    assert row.why.startswith(why)
    assert why.startswith("with") or row.why == why


def test_breach_of_a_batch_has_no_written_test(scanned: Scan) -> None:
    row = row_of(scanned, "First")

    assert row.test.startswith(f"{NO_TEST}It takes two records or events")
    assert "A delivers message 1 and 2" in row.path


def test_row_says_one_at_a_time_when_the_handler_fails_on_the_second_message(scanned: Scan) -> None:
    said = " ".join(row_of(scanned, "Picky").reached)

    assert "One message at a time: with two in one batch it fails when nothing goes wrong" in said
    assert "One message" not in " ".join(row_of(scanned, "Single").reached)


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        (
            "Every.json",
            '{"Records": [{"body": "{\\"id\\": \\"a\\"}"}]}',
            "One message at a time: the event is recorded",
        ),
        ("Every.py", "law = lambda world: True", "One message at a time: Every.py gives law."),
        ("Every.json", json.dumps({"Records": [{"body": '{"id": "a"}'}, {"body": '{"id": "b"}'}]}), ""),
        ("Every.py", """messages, batch = ['{"id": "a"}', '{"id": "b"}'], 2""", ""),
    ],
)
def test_row_says_one_at_a_time_when_the_user_gives_no_batch(tmp_path: Path, file: str, text: str, said: str) -> None:
    template, events = _written(tmp_path), tmp_path / "events"
    events.mkdir()
    (events / file).write_text(text)

    (row,) = scan(template, only=["Every"], events=events, budget=30).rows

    assert row.verdict == "holds"
    assert " ".join(row.reached).startswith(said)
    assert bool(said) == ("One message" in " ".join(row.reached))


ONE = Result("app.handler", "holds", "holds at every level")
UNFINISHED = replace(ONE, kind="not finished", verdict="did not finish")
WITH_TWO = "it holds at every level with one message in a batch; with two"
BATCH, MEETS = (IN_ONE_BATCH, {"faults": 1}), (OF_A_ROW, {"faults": 1})


@pytest.mark.parametrize(
    ("pairs", "ends", "kind", "verdict"),
    [
        ([BATCH], [UNFINISHED], "not finished", f"{WITH_TWO}, did not finish"),
        ([MEETS, BATCH], [ONE, UNFINISHED], "not finished", WITH_TWO),
        ([BATCH, (IN_ONE_BATCH, {"faults": 2})], [ONE, UNFINISHED], "holds", f"{ALSO} messages in one batch and 1 f"),
        ([MEETS, BATCH], [NotExplorable("It sleeps."), replace(ONE, kind="breaks")], "breaks", "with two messages in"),
    ],
)
def test_first_batch_decides_when_the_budget_ends_or_a_pair_is_refused(
    monkeypatch: pytest.MonkeyPatch, pairs: list[Pair], ends: list[Any], kind: str, verdict: str
) -> None:
    monkeypatch.setattr(judging, "exploration_of", Mock(return_value=Mock(run=Mock(side_effect=ends))))

    found = in_pairs(FunctionSource(SQS), ONE, Given("app.handler"), pairs, time.monotonic() + 60)

    assert found.kind == kind
    assert found.verdict.startswith(verdict)
    assert found.remedy == ("To complete the next level, raise the budget." if kind == "not finished" else "")
