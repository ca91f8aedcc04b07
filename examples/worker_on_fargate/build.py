"""The example's CDK app, held to the AWS Solutions rules."""

from __future__ import annotations

import json
from pathlib import Path

from oneslot.cdk.rules import accept_wildcards  # first: this package chooses the Node.js that CDK starts

from aws_cdk import App, Validations  # isort: skip
from cdk_nag import AwsSolutionsChecks  # isort: skip

from examples.worker_on_fargate.stack import Scale, WorkerStack

FLAGS = Path(__file__).resolve().parents[2] / "cdk.json"


def build(outdir: str | None = None, scale: Scale | None = None) -> App:
    """Return the app with its stack, ready for `synth()`."""
    app = App(outdir=outdir, context=json.loads(FLAGS.read_text(encoding="utf-8"))["context"])
    stack = WorkerStack(app, "OneslotWorker", scale=scale or Scale())
    here, named = (
        "<AWS::Partition>:{}:<AWS::Region>:<AWS::AccountId>",
        "the named stack's resources begin with its name",
    )
    accept_wildcards(
        stack.task_role,
        {
            f"arn:{here.format(service)}:{resource}": named
            for service, resource in (
                ("dynamodb", "table/<OneslotStack>-*"),
                ("sqs", "<OneslotStack>-*"),
                ("lambda", "function:<OneslotStack>-*"),
                ("cloudformation", "stack/<OneslotStack>/*"),
            )
        },
    )
    accept_wildcards(stack.execution_role, {"*": "CDK's right to sign in to ECR takes no resource"})
    Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    return app
