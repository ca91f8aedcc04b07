"""The example's CDK stack: queue → issue → ledger, cards and outbox; the outbox's stream → mail → SES."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Any

import jsii
from aws_cdk import CfnParameter, DefaultStackSynthesizer, Duration, RemovalPolicy, Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from oneslot.cdk import ExactlyOnceConsumer, TableRights, new_table
from oneslot.cdk.asset.code import code_of, runtime_files
from oneslot.cdk.roles import allow

RUNTIME = Path(__file__).with_name("runtime")
PACKAGE = "examples.gift_card_mail.runtime"

TIMEOUT_SECONDS = 30
LOCK_TIMEOUT_SECONDS = 60
"""Longer than one invocation of `mail` can last, so no second one sends while the first still may."""
DEAD_LETTER_RETENTION_DAYS = 14


class GiftCardMailStack(Stack):
    """One stack. Its parameter `Sender` is an address or domain that SES has verified."""

    def __init__(self, scope: Construct, construct_id: str) -> None:
        super().__init__(
            scope,
            construct_id,
            description="An example of Oneslot: gift cards, and the mails about them",
            synthesizer=DefaultStackSynthesizer(generate_bootstrap_version_rule=False),
        )
        sender = CfnParameter(self, "Sender", description="The mails' From address, verified in SES")
        self.cards = new_table(self, "Cards", "card_id", retain_data=False)
        self.outbox = new_table(
            self, "Outbox", "mail_id", retain_data=False, dynamo_stream=dynamodb.StreamViewType.NEW_IMAGE
        )
        self.undelivered = sqs.Queue(
            self,
            "Undelivered",
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            retention_period=Duration.days(DEAD_LETTER_RETENTION_DAYS),
        )
        self.code = code_of(_files(), RUNTIME)
        self.orders = ExactlyOnceConsumer(
            self,
            "Orders",
            code=self.code,
            handler=f"{PACKAGE}.issue.handler",
            tables={
                "cards": TableRights(table=self.cards, actions=["dynamodb:PutItem"]),
                "outbox": TableRights(table=self.outbox, actions=["dynamodb:PutItem"]),
            },
            retain_data=False,
        )
        self.mail_role = self._mail(sender.value_as_string)
        self.orders.add_outputs()

    def _mail(self, sender: str) -> iam.Role:
        stream = str(self.outbox.table_stream_arn)
        identities = self.format_arn(service="ses", resource="identity", resource_name="*")
        log_group = logs.LogGroup(
            self, "MailLog", retention=logs.RetentionDays.ONE_MONTH, removal_policy=RemovalPolicy.DESTROY
        )
        rights = [
            allow(["dynamodb:UpdateItem"], self.orders.ledger.table_arn),
            allow(["dynamodb:DescribeStream", "dynamodb:GetRecords", "dynamodb:GetShardIterator"], stream),
            allow(["dynamodb:ListStreams"], "*"),  # the mapping asks; the call takes no resource
            allow(["sqs:SendMessage"], self.undelivered.queue_arn),
            # The address is a parameter, so the identity is not known here; the condition narrows it to the sender.
            allow(["ses:SendEmail"], identities, only={"StringEquals": {"ses:FromAddress": sender}}),
            allow(["logs:CreateLogStream", "logs:PutLogEvents"], log_group.log_group_arn),
        ]
        role = iam.Role(
            self,
            "MailRole",
            assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
            inline_policies={"Mail": iam.PolicyDocument(statements=rights)},
        )
        function = lambda_.Function(
            self,
            "Mail",
            code=self.code,
            handler=f"{PACKAGE}.mail.handler",
            runtime=lambda_.Runtime.PYTHON_3_14,
            architecture=lambda_.Architecture.ARM_64,
            timeout=Duration.seconds(TIMEOUT_SECONDS),
            memory_size=512,
            role=role,
            log_group=log_group,
            environment={
                "ONESLOT_LEDGER_TABLE": self.orders.ledger.table_name,
                "ONESLOT_LEDGER_RETENTION_SECONDS": str(self.orders.numbers.ledger_retention_seconds),
                "SENDER": sender,
                "LOCK_TIMEOUT_SECONDS": str(LOCK_TIMEOUT_SECONDS),
            },
        )
        lambda_.EventSourceMapping(
            self,
            "OutboxToMail",
            target=function,
            event_source_arn=stream,
            starting_position=lambda_.StartingPosition.TRIM_HORIZON,
            batch_size=10,
            bisect_batch_on_error=True,
            report_batch_item_failures=True,
            retry_attempts=20,
            on_failure=_Destination(self.undelivered),
        )
        return role


@jsii.implements(lambda_.IEventSourceDlq)
class _Destination:
    """The destination of records whose retries ran out. CDK's own class would grant more than sending."""

    def __init__(self, queue: sqs.Queue) -> None:
        self._queue = queue

    def bind(self, *_: Any) -> lambda_.DlqDestinationConfig:
        """Return the queue's ARN. CDK calls this."""
        return lambda_.DlqDestinationConfig(destination=self._queue.queue_arn)


def _files() -> dict[PurePosixPath, bytes]:
    """Return `oneslot.runtime`, and this example's code under its full name."""
    here = PurePosixPath(*PACKAGE.split("."))
    own = {here / path.name: path.read_bytes() for path in sorted(RUNTIME.glob("*.py"))}
    return {**runtime_files(), **own, here.parent / "__init__.py": b""}
