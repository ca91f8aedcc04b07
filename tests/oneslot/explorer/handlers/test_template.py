"""A scenario from a template: the function's environment, tables and queue, and what the template does not say."""

import json
from pathlib import Path
from typing import Any

import pytest

from oneslot.dynamodb_in_memory.contents import Index, TableSchema
from oneslot.explorer.handlers.exploration import explore
from oneslot.explorer.handlers.templates.template import from_template, table, tables_of
from oneslot.explorer.refusal import NotExplorable

SHOP = Path(__file__).parent / "shop" / "template.yaml"
BANK = {"BANK": "https://bank.example"}


def test_environment_has_its_references_resolved() -> None:
    options = from_template(SHOP, env=BANK)

    assert options["env"] == {
        "TABLE": "explored-orders-dev",
        "TOPIC": "arn:aws:sns:eu-west-2:111122223333:Paid",
        "NEXT": "https://sqs.eu-west-2.amazonaws.com/111122223333/next.fifo",
        "MODE": "test",
        "DEBUG": "true",
        "LINES_ARN": "arn:aws:dynamodb:eu-west-2:111122223333:table/Lines",
        "NEXT_NAME": "next.fifo",
        "RULE": "shop|ConsumerRefunds",
        **BANK,
    }


def test_parameters_of_the_stack_choose() -> None:
    env = from_template(SHOP, env=BANK, parameters={"Stage": "prod"})["env"]

    assert (env["TABLE"], env["MODE"], env["DEBUG"], env["NONE"]) == ("explored-orders-prod", "live", "false", "x")


@pytest.mark.parametrize(("stage", "expires"), [("dev", ""), ("prod", "expires")])
def test_tables_of_this_stack_have_their_keys_indexes_and_time_to_live(stage: str, expires: str) -> None:
    indexes, types = {"by_customer": Index("customer", is_global=True)}, {"id": "S", "customer": "S"}

    assert from_template(SHOP, env=BANK, parameters={"Stage": stage})["tables"] == {
        f"explored-orders-{stage}": TableSchema("id", indexes=indexes, types=types, time_to_live=expires),
        "Lines": TableSchema("line", types={"line": "N"}),
    }


def test_times_and_failures_are_the_mapping_s() -> None:
    options = from_template(SHOP, env=BANK)

    assert [options[name] for name in ("timeout", "visibility", "reports_failures", "receives")] == [20, 120, True, 5]


def test_handler_is_explored_from_its_template() -> None:
    def law(world: Any) -> bool:
        """one row under the key of the layer"""
        return [row["id"] for row in world["explored-orders-dev"]] == ["order-dev-o-1"]

    result = explore(**from_template(SHOP, env=BANK), messages=[{"order": "o-1"}], law=law)

    assert result.holds


def test_output_of_cdk_is_read_from_its_folder(tmp_path: Path) -> None:
    function = {
        "Type": "AWS::Lambda::Function",
        "Properties": {
            "Handler": "app.handler",
            "Code": {"S3Bucket": {"Fn::Sub": "cdk-${AWS::AccountId}"}},
            "Environment": {"Variables": {"TABLE": {"Ref": "Orders7A1B"}}},
        },
        "Metadata": {"aws:asset:path": "asset.1"},
    }
    key = {"AttributeName": "id", "KeyType": "HASH"}
    mapping = {"FunctionName": {"Ref": "Consumer9F2C"}, "EventSourceArn": {"Fn::GetAtt": ["Queue1", "Arn"]}}
    resources = {
        "Orders7A1B": {"Type": "AWS::DynamoDB::Table", "Properties": {"KeySchema": [key]}},
        "Queue1": {"Type": "AWS::SQS::Queue", "Properties": {"VisibilityTimeout": 90}},
        "Consumer9F2C": function,
        "Mapping": {"Type": "AWS::Lambda::EventSourceMapping", "Properties": mapping},
    }
    (tmp_path / "Shop.template.json").write_text(json.dumps({"Resources": resources}))

    options = from_template(tmp_path, function="Consumer")

    assert (options["path"], options["visibility"]) == ([tmp_path / "asset.1"], 90)
    assert (options["env"], options["reports_failures"]) == ({"TABLE": "Orders7A1B"}, False)
    assert options["tables"] == {"Orders7A1B": TableSchema("id")}


def test_stream_and_fifo_queue_are_read_when_sam_writes_them(tmp_path: Path) -> None:
    stream = {"Stream": "arn:aws:kinesis:x:1:stream/s", "FunctionResponseTypes": ["ReportBatchItemFailures"]}
    properties = {
        "Environment": {"Variables": {"NEXT": {"Ref": "Next"}}},
        "Events": {"One": {"Type": "Kinesis", "Properties": stream}},
    }
    resources = {
        "Next": {"Type": "AWS::SQS::Queue", "Properties": {"FifoQueue": True}},
        "Consumer": {"Type": "AWS::Serverless::Function", "Properties": properties},
    }
    (tmp_path / "template.json").write_text(json.dumps({"Resources": resources}))

    options = from_template(tmp_path / "template.json")

    assert options["reports_failures"]
    assert options["env"]["NEXT"].endswith("/Next.fifo")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, r'variable BANK: the template does not say what Fn::ImportValue is. Give its value: env={"BANK"'),
        ({"function": "Producer"}, 'function: "Producer" names 0 functions. Name one of Consumer.'),
    ],
)
def test_what_the_template_lacks_is_named_with_the_remedy(options: dict[str, Any], words: str) -> None:
    with pytest.raises(NotExplorable, match=words):
        from_template(SHOP, **options)


def test_file_that_is_no_template_is_refused(tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text("a: 1")

    for path, words in ((tmp_path, "no .*json"), (tmp_path / "one.yaml", "no Resources"), (tmp_path / "x", "No such")):
        with pytest.raises(NotExplorable, match=words):
            from_template(path)


def test_table_by_hand_has_its_indexes() -> None:
    made = tables_of([table("orders", "id", by_customer=("customer", "day")), "lines:order/line"])

    assert made["orders"].indexes == {"by_customer": Index("customer", "day", is_global=True)}
    assert made["lines"] == TableSchema("order", "line")
