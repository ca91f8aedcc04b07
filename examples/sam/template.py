"""Write `template.json`: the construct's own template, for SAM, Terraform and CloudFormation. `make figures` runs it.

The parameters are the zip with the function's code, and the tables that its decisions write to.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from oneslot.cdk import ExactlyOnceConsumer  # isort: skip - before the package whose Node.js it chooses

from aws_cdk import App, Aws, CfnParameter, DefaultStackSynthesizer, Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_lambda as lambda_

FILE = Path(__file__).with_name("template.json")
KEYS = {"orders": "id", "stock": "article"}
"""The tables of the decision, `oneslot/starter/consumer/app.py`, and their keys. Write yours here."""


def template() -> dict[str, Any]:
    """Return the template, without what CDK's own deployment needs."""
    app = App(analytics_reporting=False)
    stack = Stack(app, "Consumer", synthesizer=DefaultStackSynthesizer(generate_bootstrap_version_rule=False))

    def parameter(name: str, description: str) -> CfnParameter:
        return CfnParameter(stack, name, description=description)

    consumer = ExactlyOnceConsumer(
        stack,
        "Orders",
        handler="app.handler",
        code=lambda_.Code.from_cfn_parameters(
            bucket_name_param=parameter("CodeBucket", "The bucket of the function's code"),
            object_key_param=parameter("CodeKey", "The zip in that bucket"),
        ),
        tables={
            name: dynamodb.TableV2.from_table_name(
                stack, name, parameter(f"{name.capitalize()}Table", f"The table {name}").value_as_string
            )
            for name in KEYS
        },
        keys=KEYS,
        metrics_namespace=f"Oneslot/{Aws.STACK_NAME}",
    )
    consumer.add_alarms()
    consumer.add_outputs()
    made: dict[str, Any] = app.synth().get_stack_by_name("Consumer").template
    return made


if __name__ == "__main__":
    FILE.write_text(json.dumps(template(), indent=1) + "\n", encoding="utf-8")
