"""The construct's page: its tables are those of the code, and its two files deploy and take an order once."""

import inspect
import json
import os
import re
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from oneslot.cdk import ExactlyOnceConsumer
from oneslot.local.aws.cloud_assembly import read_stack
from oneslot.local.aws.connection import Connection
from oneslot.local.aws.deployment import Deployment, deploy
from oneslot.local.mapping.event_source_mapping import EventSourceMapping
from oneslot.runtime.values import from_attributes
from tests.kits.local_mapping import wait_for

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "look-up" / "construct.md").read_text(encoding="utf-8")


def table(heading: str) -> dict[str, str]:
    """Return the first two cells of each row of the table under this first cell."""
    rows = PAGE.split(f"| {heading} |", 1)[1].split("\n\n", 1)[0].splitlines()[2:]
    cells = [[cell.strip(" `") for cell in row.strip("|").split("|")] for row in rows]
    return {row[0]: row[1] for row in cells}


def test_properties_are_those_of_the_construct() -> None:
    parameters = inspect.signature(ExactlyOnceConsumer.__init__).parameters.values()
    keywords = {each.name: each for each in parameters if each.kind is each.KEYWORD_ONLY}
    assert table("property") == {
        name: "required" if each.default is each.empty else repr(each.default) for name, each in keywords.items()
    }


def test_page_names_every_metric_and_grant() -> None:
    public = {name for name in vars(ExactlyOnceConsumer) if name.startswith(("metric_", "grant_", "add_"))}
    assert set(re.findall(r"`((?:metric|grant|add)_\w+)\(", PAGE)) == public


def assembly(folder: Path) -> Path:
    """Write the page's two files, and synthesise as `cdk` does; return the cloud assembly."""
    handler, stack = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert len(handler.splitlines()) <= 10
    assert len(stack.splitlines()) <= 25
    (folder / "orders").mkdir()
    (folder / "orders" / "app.py").write_text(handler, encoding="utf-8")
    (folder / "stack.py").write_text(stack, encoding="utf-8")
    environment = {**os.environ, "CDK_OUTDIR": str(folder / "cdk.out")}
    subprocess.run([sys.executable, "stack.py"], check=True, cwd=folder, env=environment, capture_output=True)
    return folder / "cdk.out"


def resources(deployment: Deployment, kind: str) -> dict[str, str]:
    """Return the names of the deployed resources of this type, by logical id."""
    template = deployment.template["Resources"]
    return {name: deployment.resources[name] for name, resource in template.items() if resource["Type"] == kind}


@pytest.mark.slow
@pytest.mark.embedded_aws
def test_order_sent_twice_ships_once(account: Connection, tmp_path: Path) -> None:
    deployment = deploy(read_stack(assembly(tmp_path), "Orders"), account)
    (mapping,) = resources(deployment, "AWS::Lambda::EventSourceMapping").values()
    (shipments,) = (
        name
        for logical, name in resources(deployment, "AWS::DynamoDB::GlobalTable").items()
        if logical.startswith("Shipments")
    )
    order = json.dumps({"message_id": "o-1", "article": "teapot"})
    (tmp_path / "poller").mkdir()
    with closing(account.sqs()) as sqs, closing(account.dynamodb()) as dynamodb:
        for _ in range(2):
            sqs.send_message(QueueUrl=deployment.outputs["QueueUrl"], MessageBody=order)
        with EventSourceMapping(account, mapping, folder=tmp_path / "poller", processes=1) as poller:
            wait_for(lambda: poller.statistics.deleted == 2, seconds=120)
        rows = [from_attributes(item) for item in dynamodb.scan(TableName=shipments)["Items"]]
    assert rows == [{"shipment_id": "o-1", "article": "teapot"}]
    lines = [json.loads(line) for line in (tmp_path / "poller" / "consumer.jsonl").read_text().splitlines()]
    assert sorted(line["outcome"] for line in lines if line.get("message") == "delivery") == ["duplicate", "shipped"]
