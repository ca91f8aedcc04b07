"""The example's CDK app, held to the AWS Solutions rules."""

from __future__ import annotations

import json
from pathlib import Path

from oneslot.cdk.rules import accept, accept_wildcards  # first: this package chooses the Node.js that CDK starts

from aws_cdk import App, Validations  # isort: skip
from cdk_nag import AwsSolutionsChecks  # isort: skip

from examples.gift_card_mail.stack import GiftCardMailStack

FLAGS = Path(__file__).resolve().parents[2] / "cdk.json"


def build(outdir: str | None = None) -> App:
    """Return the app with its stack, ready for `synth()`."""
    app = App(outdir=outdir, context=json.loads(FLAGS.read_text(encoding="utf-8"))["context"])
    stack = GiftCardMailStack(app, "GiftCardMail")
    accept_wildcards(
        stack.mail_role,
        {
            "arn:<AWS::Partition>:ses:<AWS::Region>:<AWS::AccountId>:identity/*": (
                "the sending identity is a parameter; a condition allows the one sender's address only"
            ),
            "*": "listing streams takes no resource",
        },
    )
    accept(stack.undelivered, {"AwsSolutions-SQS3": "it is the dead-letter queue of the stream"})
    Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    return app
