"""The example's CDK app: `cdk deploy --app "python -m examples.shop.stack"`, in the repository's folder."""

from __future__ import annotations

import json
import os
from pathlib import Path

from oneslot.cdk import ExactlyOnceConsumer, TableRights, new_table  # first: it chooses the Node.js that CDK starts

from aws_cdk import App, DefaultStackSynthesizer, Stack, Validations  # isort: skip
from aws_cdk import aws_dynamodb as dynamodb  # isort: skip
from aws_cdk import aws_sns as sns  # isort: skip
from cdk_nag import AwsSolutionsChecks  # isort: skip
from constructs import Construct  # isort: skip

FLAGS = Path(__file__).resolve().parents[2] / "cdk.json"


class ShopStack(Stack):
    """The consumer of orders, its tables, and the topic that announces each order."""

    def __init__(self, scope: Construct, construct_id: str) -> None:
        super().__init__(
            scope,
            construct_id,
            description="An example of Oneslot: a shop that counts its stock",
            synthesizer=DefaultStackSynthesizer(generate_bootstrap_version_rule=False),
        )
        number = dynamodb.Attribute(name="number", type=dynamodb.AttributeType.STRING)
        orders = new_table(self, "Orders", "customer", retain_data=False, sort_key=number)
        stock, customers, baskets = (
            new_table(self, name, key, retain_data=False)
            for name, key in (("Stock", "article"), ("Customers", "id"), ("Baskets", "customer"))
        )
        taken = sns.Topic(self, "Taken", enforce_ssl=True)
        shop = ExactlyOnceConsumer(
            self,
            "Shop",
            entry=Path(__file__).with_name("consumer"),
            handler="app.handler",
            tables={
                "orders": TableRights(table=orders, actions=["Put"]),
                "stock": TableRights(table=stock, actions=["Update"]),
                "customers": TableRights(table=customers, actions=["Check"]),
                "baskets": TableRights(table=baskets, actions=["Delete"]),
            },
            sends={"taken": taken},
            retain_data=False,
        )
        shop.add_outputs()


def build(outdir: str | None = None) -> App:
    """Return the app with its stack, held to the AWS Solutions rules and ready for `synth()`."""
    app = App(outdir=outdir, context=json.loads(FLAGS.read_text(encoding="utf-8"))["context"])
    ShopStack(app, "Shop")
    Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    return app


if __name__ == "__main__":
    build(os.environ.get("CDK_OUTDIR", "cdk.out/shop")).synth()
