"""The template for SAM and Terraform: the construct's own, valid, and deployed with the code that the page makes."""

import json
import os
import re
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from examples.sam.template import FILE, KEYS, template
from oneslot.explorer.handlers.exploration import explore
from oneslot.local.aws.connection import Connection
from oneslot.local.aws.deployment import without_metric_math
from oneslot.operator.commands.new import write_starter
from tests.stacks.test_templates import LINTER, lint

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "do" / "sam-and-terraform.md").read_text(encoding="utf-8")
MOST_ASSET_BYTES = 3_000_000
KEPT: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))


def test_template_is_the_constructs() -> None:
    assert template() == KEPT, "run: make figures"
    assert len(FILE.read_bytes()) < 51_200, "CloudFormation takes no longer text in template_body"


def test_page_gives_every_parameter() -> None:
    for block in re.findall(r"^```(?:sh|yaml|hcl)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL):
        assert set(re.findall(r"\b(\w+(?:Table|Bucket|Key))(?: *=|:)", block)) == KEPT["Parameters"].keys()


@pytest.mark.slow
@pytest.mark.skipif(not LINTER.exists() and not os.environ.get("CI"), reason="make .venv/templates/.installed")
@pytest.mark.parametrize("transform", [{}, {"Transform": "AWS::Serverless-2016-10-31"}])
def test_template_passes_cfn_lint_with_and_without_sam(transform: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "template.json").write_text(json.dumps({**KEPT, **transform}))
    assert lint(tmp_path / "template.json") == ""


@pytest.fixture
def asset(tmp_path: Path) -> Path:
    """Return the folder of the code that the page's commands make of a new consumer, beside its zip."""
    write_starter("orders", tmp_path / "orders")
    (commands,) = re.findall(r'^```sh title="the asset"\n(.*?)^```', PAGE, re.MULTILINE | re.DOTALL)
    variables = {
        **os.environ,
        "REPOSITORY": str(ROOT),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PIP_NO_BUILD_ISOLATION": "0",  # pip's spelling of "without": the environment here has the build backend
    }
    subprocess.run(["/bin/sh", "-ec", commands], cwd=tmp_path / "orders", env=variables, check=True)
    return tmp_path / "orders" / "asset"


@pytest.mark.slow
@pytest.mark.embedded_aws
def test_stack_of_the_template_answers_and_its_code_holds(asset: Path, account: Connection) -> None:
    assert sum(path.stat().st_size for path in asset.rglob("*") if path.is_file()) < MOST_ASSET_BYTES
    with (
        closing(account.s3()) as s3,
        closing(account.client("cloudformation")) as cloudformation,
        closing(account.functions()) as functions,
        closing(account.dynamodb()) as dynamodb,
    ):
        s3.create_bucket(Bucket="code", CreateBucketConfiguration={"LocationConstraint": "eu-west-2"})
        s3.put_object(Bucket="code", Key="orders-1.zip", Body=asset.with_suffix(".zip").read_bytes())
        for name, key in KEYS.items():
            dynamodb.create_table(
                TableName=name,
                KeySchema=[{"AttributeName": key, "KeyType": "HASH"}],
                AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"}],
                BillingMode="PAY_PER_REQUEST",
            )
        given = {"CodeBucket": "code", "CodeKey": "orders-1.zip", "OrdersTable": "orders", "StockTable": "stock"}
        cloudformation.create_stack(
            StackName="Orders",
            TemplateBody=json.dumps(without_metric_math(KEPT)),
            Parameters=[{"ParameterKey": name, "ParameterValue": value} for name, value in given.items()],
            Capabilities=["CAPABILITY_IAM"],
        )
        cloudformation.get_waiter("stack_create_complete").wait(StackName="Orders", WaiterConfig={"Delay": 1})
        outputs = {
            each["OutputKey"]: each["OutputValue"]
            for each in cloudformation.describe_stacks(StackName="Orders")["Stacks"][0]["Outputs"]
        }
        found = functions.get_function_configuration(FunctionName=outputs["ConsumerFunctionName"])
    environment = found["Environment"]["Variables"]
    assert (found["Handler"], environment["ONESLOT_TABLE_STOCK"]) == ("app.handler", "stock")

    explored = explore(
        "app.handler",
        path=[asset],
        messages=[{"message_id": "first", "article": "teapot", "pieces": -2}],
        tables={**KEYS, environment["ONESLOT_LEDGER_TABLE"]: "message_id"},
        rows={"stock": [{"article": "teapot", "left": 3}]},
        ignore=[f"{environment['ONESLOT_LEDGER_TABLE']}.consumption_count"],
        env=environment,
    )

    assert explored.holds
