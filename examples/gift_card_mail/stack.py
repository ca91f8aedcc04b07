"""The example's CDK stack: queue → issue → ledger, cards and outbox; the outbox's stream → mail → SES."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Any

import jsii
from aws_cdk import CfnOutput, CfnParameter, DefaultStackSynthesizer, Duration, RemovalPolicy, Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from stacks.shared.lambda_asset import SOURCE, code_of, runtime_files
from stacks.shared.vendoring import vendored_files

RUNTIME = Path(__file__).with_name("runtime")
PACKAGE = "examples.gift_card_mail.runtime"

TIMEOUT_SECONDS = 30
LOCK_TIMEOUT_SECONDS = 60
"""Longer than one invocation of `mail` can last, so no second one sends while the first still may."""
MAXIMUM_RECEIVES = 10
QUEUE_RETENTION_DAYS, DEAD_LETTER_RETENTION_DAYS, LEDGER_RETENTION_DAYS = 4, 14, 30


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
        self.dead_letters = self._queue("DeadLetters", retention_period=Duration.days(DEAD_LETTER_RETENTION_DAYS))
        self.undelivered = self._queue("Undelivered", retention_period=Duration.days(DEAD_LETTER_RETENTION_DAYS))
        self.orders = self._queue(
            "Orders",
            retention_period=Duration.days(QUEUE_RETENTION_DAYS),
            visibility_timeout=Duration.seconds(TIMEOUT_SECONDS),
            dead_letter_queue=sqs.DeadLetterQueue(queue=self.dead_letters, max_receive_count=MAXIMUM_RECEIVES),
        )
        self.ledger = self._table("Ledger", "message_id", time_to_live_attribute="expires_at")
        self.cards = self._table("Cards", "card_id")
        self.outbox = self._table("Outbox", "mail_id", dynamo_stream=dynamodb.StreamViewType.NEW_IMAGE)
        self.code = code_of(_files(), RUNTIME)
        self._issue()
        self.mail_role = self._mail(sender.value_as_string)
        for name, value in {
            "QueueUrl": self.orders.queue_url,
            "DeadLetterQueueUrl": self.dead_letters.queue_url,
            "LedgerTableName": self.ledger.table_name,
            "CardsTableName": self.cards.table_name,
            "OutboxTableName": self.outbox.table_name,
        }.items():
            CfnOutput(self, name, value=value)

    def _issue(self) -> None:
        function = self._function(
            "Issue",
            "issue.handler",
            {
                "CARDS_TABLE": self.cards.table_name,
                "OUTBOX_TABLE": self.outbox.table_name,
                "QUEUE_URL": self.orders.queue_url,
                "DEAD_LETTER_QUEUE_URL": self.dead_letters.queue_url,
            },
            [
                _allow(["dynamodb:UpdateItem"], self.ledger.table_arn),
                _allow(["dynamodb:PutItem"], self.cards.table_arn),
                _allow(["dynamodb:PutItem"], self.outbox.table_arn),
                _allow(
                    ["sqs:" + call for call in _CONSUME],
                    self.orders.queue_arn,
                ),
                _allow(["sqs:SendMessage"], self.dead_letters.queue_arn),
            ],
        )
        lambda_.EventSourceMapping(
            self,
            "OrdersToIssue",
            target=function,
            event_source_arn=self.orders.queue_arn,
            batch_size=10,
            report_batch_item_failures=True,
        )

    def _mail(self, sender: str) -> iam.IRole:
        stream = str(self.outbox.table_stream_arn)
        identities = self.format_arn(service="ses", resource="identity", resource_name="*")
        function = self._function(
            "Mail",
            "mail.handler",
            {"SENDER": sender, "LOCK_TIMEOUT_SECONDS": str(LOCK_TIMEOUT_SECONDS)},
            [
                _allow(["dynamodb:UpdateItem"], self.ledger.table_arn),
                _allow(["dynamodb:DescribeStream", "dynamodb:GetRecords", "dynamodb:GetShardIterator"], stream),
                _allow(["sqs:SendMessage"], self.undelivered.queue_arn),
                # The address is a parameter, so the identity is not known here; the condition narrows it to the sender.
                _allow(["ses:SendEmail"], identities, {"StringEquals": {"ses:FromAddress": sender}}),
            ],
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
        return _role_of(function)

    def _function(
        self, name: str, handler: str, environment: dict[str, str], rights: list[iam.PolicyStatement]
    ) -> lambda_.Function:
        log_group = logs.LogGroup(
            self, f"{name}Log", retention=logs.RetentionDays.ONE_MONTH, removal_policy=RemovalPolicy.DESTROY
        )
        rights = [*rights, _allow(["logs:CreateLogStream", "logs:PutLogEvents"], log_group.log_group_arn)]
        role = iam.Role(
            self,
            f"{name}Role",
            assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
            inline_policies={name: iam.PolicyDocument(statements=rights)},
        )
        return lambda_.Function(
            self,
            name,
            code=self.code,
            handler=f"{PACKAGE}.{handler}",
            runtime=lambda_.Runtime.PYTHON_3_14,
            architecture=lambda_.Architecture.ARM_64,
            timeout=Duration.seconds(TIMEOUT_SECONDS),
            memory_size=512,
            role=role,
            log_group=log_group,
            environment={
                "LEDGER_TABLE": self.ledger.table_name,
                "LEDGER_RETENTION_SECONDS": str(LEDGER_RETENTION_DAYS * 86_400),
                **environment,
            },
        )

    def _queue(self, name: str, **properties: Any) -> sqs.Queue:
        return sqs.Queue(self, name, encryption=sqs.QueueEncryption.SQS_MANAGED, enforce_ssl=True, **properties)

    def _table(self, name: str, key: str, **properties: Any) -> dynamodb.TableV2:
        return dynamodb.TableV2(
            self,
            name,
            partition_key=dynamodb.Attribute(name=key, type=dynamodb.AttributeType.STRING),
            billing=dynamodb.Billing.on_demand(),
            point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=True
            ),
            removal_policy=RemovalPolicy.DESTROY,
            **properties,
        )


@jsii.implements(lambda_.IEventSourceDlq)
class _Destination:
    """The destination of records whose retries ran out. CDK's own class would grant more than sending."""

    def __init__(self, queue: sqs.Queue) -> None:
        self._queue = queue

    def bind(self, *_: Any) -> lambda_.DlqDestinationConfig:
        """Return the queue's ARN. CDK calls this."""
        return lambda_.DlqDestinationConfig(destination=self._queue.queue_arn)


_CONSUME = ("ReceiveMessage", "DeleteMessage", "GetQueueAttributes", "ChangeMessageVisibility")


def _role_of(function: lambda_.Function) -> iam.IRole:
    if function.role is None:
        raise TypeError("the function was made with a role")
    return function.role


def _files() -> dict[PurePosixPath, bytes]:
    """Return `oneslot.runtime`, the packages that it needs, and this example's code under its full name."""
    library = {**vendored_files(SOURCE / "requirements.txt"), **runtime_files()}
    here = PurePosixPath(*PACKAGE.split("."))
    own = {here / path.name: path.read_bytes() for path in sorted(RUNTIME.glob("*.py"))}
    return {**library, **own, here.parent / "__init__.py": b""}


def _allow(actions: list[str], resource: str, conditions: dict[str, Any] | None = None) -> iam.PolicyStatement:
    return iam.PolicyStatement(actions=actions, resources=[resource], conditions=conditions)
