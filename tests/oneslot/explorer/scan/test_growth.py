"""Made events grow where a handler looks, and nowhere else."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from oneslot.dynamodb_in_memory.contents import TableSchema
from oneslot.explorer.handlers.given import Given
from oneslot.explorer.handlers.made import Tried, trying
from oneslot.explorer.handlers.templates.sources import COGNITO, DYNAMODB, HTTP_1, S3, SNS, SQS, TASK, FunctionSource
from oneslot.explorer.scan.events import Facts
from oneslot.explorer.scan.first_events import asked_of, assumed_of, options_for
from oneslot.explorer.scan.growth import DECODE, Grown, _Node, _Search, growth

MODULE = """
import csv
import json
import time
from decimal import Decimal
from enum import Enum
from urllib.parse import unquote_plus
from urllib.request import urlopen

import boto3

table = boto3.resource("dynamodb").Table("T")
s3 = boto3.client("s3")


class Kind(Enum):
    CARD = "card"


def write(key, **more):
    table.put_item(Item={"id": str(key), **more})


ROUTES = {"paid": write}


def handler(event, context):
"""
TABLES = {"T": TableSchema("id", types={"id": "S"})}
QUEUE = FunctionSource(SQS, "Queue", {}, {}, "Queue")
BUCKET = FunctionSource(S3, "Bucket", {}, {}, "Bucket")
BODY = '    body = json.loads(event["Records"][0]["body"])\n'
ADDED = """
    values = {":n": body["pence"]}
    table.update_item(Key={"id": body["id"]}, UpdateExpression="ADD pence :n", ExpressionAttributeValues=values)
"""
ORDER = """
    from pydantic import BaseModel, Field
    class Order(BaseModel):
        id: str = Field(min_length=5)
        country: str = Field(pattern="^[A-Z]$")
        lines: list[int] = Field(min_length=1)
"""
OBJECT = (
    '    stored = event["Records"][0]["s3"]\n'
    '    bucket, key = stored["bucket"]["name"], unquote_plus(stored["object"]["key"])\n'
    '    text = s3.get_object(Bucket=bucket, Key=key)["Body"].read().decode()\n'
)


def _grown(tmp_path: Path, lines: str, source: FunctionSource = QUEUE, module: str = MODULE) -> Grown:
    (tmp_path / "app.py").write_text(module + lines)
    given = Given("app.handler", path=[tmp_path], tables=TABLES, reports_failures=False)
    with trying(given) as deliver:

        def tried(facts: Facts) -> Tried:
            return deliver(replace(given, **options_for(source, facts, TABLES)), asked_of(source, facts))

        return growth(source, tried, 20)


@pytest.mark.parametrize(
    ("lines", "payload"),
    [
        ('    write(body["order"]["id"])', {"order": {"id": "id-1"}}),
        ('    order = body.get("order")\n    if order:\n        write(order)', {"order": "order-1"}),
        ('    if "order" in body:\n        write(body["order"])', {"order": "order-1"}),
        ('    for line in body["lines"]:\n        write(line["article"])', {"lines": [{"article": "article-1"}]}),
        ('    write(body["id"], pence=int(body["pence"]) + 1)', {"id": "id-1", "pence": 1}),
        ('    write(body["id"], pence=Decimal(str(body["pence"])))', {"id": "id-1", "pence": 1}),
        (ADDED, {"id": "id-1", "pence": 1}),
        (ADDED.replace('["pence"]', '.get("pence", 0)'), {"id": "id-1", "pence": 1}),
        ('    if not body.get("dry"):\n        write(body["id"], by=body.get("by"))', {"id": "id-1", "by": "by-1"}),
        ('    row = dict(body)\n    if row.get("paid"):\n        write(row["id"])', {"id": "id-1", "paid": "paid-1"}),
        ('    match body:\n        case {"id": one, "of": "a"}:\n            write(one)', {"id": "id-1", "of": "a"}),
        ('    if body["kind"] == "paid":\n        write(body["id"])', {"kind": "paid", "id": "id-1"}),
        ('    kind = Kind(body["kind"])\n    write(kind.value)', {"kind": "card"}),
        ('    ROUTES[body["kind"]](body["id"])', {"kind": "paid", "id": "id-1"}),
        ('    try: write(body["a"] + body["b"])\n    except KeyError: pass', {"a": "a-1", "b": "b-1"}),
        ('    write("x", **json.loads(json.dumps(body["lines"]))[0])', {"lines": [{}]}),
        ('    if not isinstance(body.get("id"), str):\n        return\n    write(body["id"])', {"id": "id-1"}),
        (
            ORDER + '    write(Order(**body["detail"]["order"]).id)',
            {"detail": {"order": {"id": "id-11", "country": "A", "lines": [1]}}},
        ),
        ('    for at in range(len(body)):\n        write(body[at]["id"])', [{"id": "id-1"}]),
        ('    write({**body, "at": 1}["id"])', {"id": "id-1"}),
        ("    save = lambda id, name: write(id, name=name)\n    save(**body)", {"id": "id-1", "name": "name-1"}),
    ],
)
def test_a_body_grows_by_what_the_handler_asks(lines: str, payload: Any, tmp_path: Path) -> None:
    grown = _grown(tmp_path, BODY + lines)

    assert (grown.facts["payload"], grown.serves) == (payload, True)


ROW = '    row = table.get_item(Key={"id": body["id"]}).get("Item")\n'
FOUND = '    found = table.query(KeyConditionExpression="id = :id", ExpressionAttributeValues={":id": body["id"]})["Items"]\n'


UNPACKED = f"{ROW}    from pydantic import create_model\n    write(create_model('Row', owner=(str, ...))(**row).owner)"
STORED = {"payload": {}, "objects": {"in": {"first.json": "text"}}}


@pytest.mark.parametrize(
    ("lines", "facts"),
    [
        (
            BODY + ROW + '    if row and row["state"] == "open":\n        write("x")',
            {"payload": {"id": "id-1"}, "rows": {"T": [{"id": "id-1", "state": "open"}]}},
        ),
        (
            BODY + FOUND + '    for one in found:\n        write(one["owner"])',
            {"payload": {"id": "id-1"}, "rows": {"T": [{"id": "id-1", "owner": "owner-1"}]}},
        ),
        (BODY + UNPACKED, {"payload": {"id": "id-1"}, "rows": {"T": [{"id": "id-1", "owner": "owner-1"}]}}),
        (BODY + '    table.delete_item(Key={"id": "x"})', {"payload": {}, "rows": {"T": [{"id": "x"}]}}),
        ('    for one in boto3.resource("s3").Bucket("in").objects.all(): write(one.key)', STORED),
    ],
)
def test_rows_are_made_when_the_handler_looks_for_them(lines: str, facts: Facts, tmp_path: Path) -> None:
    assert _grown(tmp_path, lines).facts == facts


def test_values_are_made_when_the_handler_looks_for_them(tmp_path: Path) -> None:
    lines = """
    name = boto3.client("ssm").get_parameter(Name="/shop/name")["Parameter"]["Value"]
    secret = json.loads(boto3.client("secretsmanager").get_secret_value(SecretId="pay")["SecretString"])
    flags = boto3.client("ssm").get_parameters_by_path(Path="/f/")["Parameters"]
    named = {one["Name"].removeprefix("/f/"): one["Value"] for one in flags}
    write(name, by=secret["apiKey"], flag=flags[0]["Value"], url=named["url"])
"""

    grown = _grown(tmp_path, lines)

    parameters = {"/shop/name": "value-1", "/f/name-1": "value-1", "/f/url": "url-1"}
    values = {"ssm": parameters, "secrets": {"pay": {"apiKey": "apikey-1"}}}
    assert (grown.serves, grown.facts) == (True, {"payload": {}, **values})
    assert [*assumed_of(grown.facts)] == ["Made answers: ssm /shop/name, ssm /f/name-1, ssm /f/url, secrets pay."]


def test_a_value_is_made_when_the_module_reads_it_at_its_import(tmp_path: Path) -> None:
    imported = 'name = boto3.client("ssm").get_parameter(Name="/shop/name")["Parameter"]["Value"]\n\n\ndef handler'

    grown = _grown(tmp_path, "    write(name)", module=MODULE.replace("def handler", imported))

    assert (grown.serves, grown.facts) == (True, {"payload": {}, "ssm": {"/shop/name": "value-1"}})


def test_each_source_grows_in_its_open_places(tmp_path: Path) -> None:
    cases: list[tuple[FunctionSource, str, Facts]] = [
        (
            FunctionSource(HTTP_1, "GET /", {"Path": "/", "Method": "GET"}),
            '    write(event["queryStringParameters"]["user"])\n    return {"statusCode": 200}',
            {"payload": {}, "query": {"user": "user-1"}},
        ),
        (
            FunctionSource(HTTP_1, "GET /{n}", {"Path": "/{n}", "Method": "GET"}),
            '    signed, texts = event["requestContext"]["identity"]["user"], event["queryStringParameters"]\n'
            '    write(int(event["pathParameters"]["n"].strip()) + int(texts["n"].strip()), by=signed)',
            {"payload": {}, "parameters": {"n": 1}, "query": {"n": 1}, "identity": {"user": "user-1"}},
        ),
        (FunctionSource("EventBridge"), '    write(event["resources"][0])', {"payload": {}}),
        (BUCKET, OBJECT + '    if text[:4] == "%PDF":\n        write(1)', {"payload": {}, "key": "first 1+é.pdf"}),
        (FunctionSource(TASK), '    write(event["order"])', {"payload": {"order": "order-1"}}),
        (
            FunctionSource(COGNITO, "Pool", {"Trigger": "PostConfirmation"}),
            '    write(event["request"]["userAttributes"]["custom:team"])\n    return event',
            {"payload": {"custom:team": "custom:team-1"}},
        ),
        (
            FunctionSource(DYNAMODB, "T", {}, {}, "T"),
            '    row = event["Records"][0]["dynamodb"]\n    write(row["NewImage"]["n"]["N"] + row["OldImage"]["n"]["N"])',
            {"payload": {"n": 1}, "old": {}},
        ),
        (
            FunctionSource(SNS, "Topic", {"FilterPolicy": {"kind": ["paid"]}}, {}, "Topic"),
            '    write(json.loads(event["Records"][0]["Sns"]["Message"])["id"])',
            {"payload": {"id": "id-1"}, "attributes": {"kind": "paid"}},
        ),
        (
            FunctionSource(SQS, "Queue", {}, {}, "Queue", feed=BUCKET),
            '    write(json.loads(event["Records"][0]["body"])["Records"][0]["s3"]["object"]["key"])',
            {"payload": {}, "key": "first 1+é.json"},
        ),
        (
            BUCKET,
            OBJECT + '    for row in csv.DictReader(text.splitlines()):\n        write(row["sku"])',
            {"payload": {}, "key": "first 1+é.csv", "columns": {"sku": "sku-1"}},
        ),
    ]

    for source, lines, facts in cases:
        grown = _grown(tmp_path, lines, source)
        assert (source.kind, grown.facts, grown.serves) == (source.kind, facts, True)


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        (FunctionSource(HTTP_1, "", {"Path": "/{id}", "Method": "PUT"}), '    write(event["pathParameters"]["order"])'),
        (FunctionSource(HTTP_1, "", {"Path": "/"}), '    write(event["requestContext"]["identity"]["order"])'),
        (QUEUE, '    write(event["Records"][0]["order"])'),
        (
            FunctionSource(SQS, "", {"FilterCriteria": {"Filters": [{"Pattern": '{"body": {"kind": ["paid"]}}'}]}}),
            BODY + '    if body["kind"] == "sent":\n        write(1)',
        ),
    ],
)
def test_closed_places_never_grow(source: FunctionSource, lines: str, tmp_path: Path) -> None:
    assert not _grown(tmp_path, lines, source).serves


def test_another_branch_has_an_event_of_its_own(tmp_path: Path) -> None:
    lines = (
        BODY + '    if body["action"] == "delete":\n        table.delete_item(Key={"id": body["victim"]})\n'
        '    else:\n        write(body["id"])'
    )

    (branch,) = _grown(tmp_path, lines).branches

    assert branch["payload"]["action"] == "delete"
    assert branch["payload"]["victim"] == "victim-1"


def test_answers_are_made_when_an_operation_has_no_stand_in(tmp_path: Path) -> None:
    lines = (
        BODY + '    said = boto3.client("logs").get_query_results(queryId="x")\n'
        '    role = boto3.client("sts").assume_role(RoleArn="arn:aws:iam::1:role/r", RoleSessionName="shop")\n'
        '    told = json.loads(urlopen("https://api.example/prices").read())\n'
        '    write(body["id"], text=said["status"], price=told["price"], by=role["Credentials"]["SessionToken"])'
    )

    grown = _grown(tmp_path, lines)

    said = grown.facts["answers"]["logs.get_query_results"]
    assert (grown.serves, said["status"], said["encryptionKey"]) == (True, "Complete", "encryptionkey-1")
    assert grown.facts["GET https://api.example/prices"]["price"] == "price-1"
    assert [one.partition(":")[0] for one in assumed_of(grown.facts)] == ["Made answers"]


GROUPS = 'boto3.client("athena").list_work_groups()["WorkGroups"]'


@pytest.mark.parametrize(
    "lines",
    [
        '    while boto3.client("ram").delete_permission(permissionArn="a")["permissionStatus"] != "DELETED":\n'
        "        time.sleep(5)\n    write(1)",
        f"    [one] = {GROUPS}\n    write(1)",
        f"    if not {GROUPS}: write(1)",
    ],
)
def test_made_answers_change_until_the_handler_writes(lines: str, tmp_path: Path) -> None:
    assert _grown(tmp_path, lines).serves


def test_a_handler_is_at_fault_when_it_reads_an_encoded_key_as_it_arrives(tmp_path: Path) -> None:
    plain = OBJECT.replace("unquote_plus", "") + "    write(text)"

    assert DECODE in _grown(tmp_path, plain, BUCKET).fault
    assert _grown(tmp_path, OBJECT + "    write(text)", BUCKET).fault == ""


def test_search_ends_when_its_first_event_has_no_moves_left() -> None:
    tried = Tried("", 200, 1, False, frozenset(), frozenset(), asked_of(QUEUE, {"payload": {}}), (), frozenset(), 1)
    node = _Node({}, tried, [])

    assert _Search(lambda facts: tried, frozenset(), float("inf")).best_from(node, 1) is node
