"""The relay: a function on the ledger's stream that sends what decisions sent, and the queue of what it had to set aside."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import jsii
from aws_cdk import Duration
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from oneslot.cdk.function import ConsumerFunction, Network
from oneslot.cdk.numbers import ContradictorySettings, Numbers
from oneslot.cdk.resources import removal_policy, require_variable_name, title
from oneslot.cdk.rights import use_key
from oneslot.cdk.roles import allow, document
from oneslot.cdk.rules import accept, accept_wildcards
from oneslot.cdk.tables import key_of

Target = sqs.IQueue | sns.ITopic | events.IEventBus

HANDLER = "oneslot.runtime.sends.lambda_relay.handler"
ONLY_UNSENT = {"dynamodb": {"NewImage": {"unsent": {"N": [{"exists": True}]}}}}
"""The stream's records that hold messages: Lambda passes over the others and bills none."""
RETRIED_HOURS = 1
"""How long a record is retried, while those behind it in its shard wait. Then its messages wait in the ledger."""


def send_variables(targets: Mapping[str, Target]) -> dict[str, str]:
    """Return the environment variable of each target. Raises `ContradictorySettings` for a name that fits none."""
    for name in targets:
        require_variable_name("target", name)
    return {f"ONESLOT_SEND_{name.upper()}": _address(target) for name, target in targets.items()}


class RelayFunction(Construct):
    """The function, its mapping, and `failures`, which has a note of each batch that could not be sent in time."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        code: lambda_.Code,
        ledger: dynamodb.ITable | dynamodb.ITableV2,
        targets: Mapping[str, Target],
        environment: Mapping[str, str],
        numbers: Numbers,
        retain: bool,
        key: kms.IKey | None,
        network: Network,
    ) -> None:
        """Define the resources. Raises `ContradictorySettings` if the ledger has no stream."""
        super().__init__(scope, construct_id)
        stream = ledger.table_stream_arn
        if not stream:
            raise ContradictorySettings(
                f"existing_ledger {ledger.node.path} shows no stream, by which the relay learns what to send; give it a "
                "stream of new images, and import it with its table_stream_arn"
            )
        self.failures = sqs.Queue(
            self,
            "Failures",
            retention_period=Duration.seconds(numbers.dead_letter_retention_seconds),
            encryption=sqs.QueueEncryption.KMS if key else sqs.QueueEncryption.SQS_MANAGED,
            encryption_master_key=key,
            enforce_ssl=True,
            removal_policy=removal_policy(retain=retain),
        )
        accept(self.failures, {"AwsSolutions-SQS3": "it takes what the stream's mapping could not deliver"})

        def rights(log_group: logs.ILogGroup) -> dict[str, iam.PolicyDocument]:
            keys = [allowed for allowed in (key, key_of(ledger)) if allowed]
            used = [use_key(each) for each in {each.node.path: each for each in keys}.values()]
            return {
                "Ledger": document(allow(["dynamodb:UpdateItem"], ledger.table_arn)),
                "Stream": document(
                    allow(["dynamodb:DescribeStream", "dynamodb:GetRecords", "dynamodb:GetShardIterator"], stream),
                    allow(["dynamodb:ListStreams"], "*"),
                ),
                "Failures": document(allow(["sqs:SendMessage"], self.failures.queue_arn)),
                "Logs": document(allow(["logs:CreateLogStream", "logs:PutLogEvents"], log_group.log_group_arn)),
                **({"Key": document(*used)} if used else {}),
                **{f"To{title(name)}": document(*_send_rights(target)) for name, target in targets.items()},
            }

        relay = ConsumerFunction(
            self,
            "Relay",
            code=code,
            handler=HANDLER,
            description="Sends the messages that follow a commit, from the ledger's stream",
            environment=environment,
            rights=rights,
            numbers=numbers,
            published=False,
            snap_start=False,
            retain=retain,
            key=key,
            network=network,
        )
        accept_wildcards(relay.role, {"*": "Lambda lists streams, and the call takes no resource"})
        self.function = relay.function
        lambda_.EventSourceMapping(
            self,
            "Mapping",
            target=self.function,
            event_source_arn=stream,
            starting_position=lambda_.StartingPosition.TRIM_HORIZON,
            batch_size=10,  # a crash sends at most these rows again
            # The records of one row stay in order. A row that cannot be sent blocks a tenth of its shard.
            parallelization_factor=10,
            filters=[{"pattern": json.dumps(ONLY_UNSENT)}],
            report_batch_item_failures=True,
            bisect_batch_on_error=True,
            max_record_age=Duration.hours(RETRIED_HOURS),
            on_failure=_Destination(self.failures),
        )


@jsii.implements(lambda_.IEventSourceDlq)
class _Destination:
    """The destination of records whose time ran out. CDK's own class would grant more than sending."""

    def __init__(self, queue: sqs.Queue) -> None:
        self._queue = queue

    def bind(self, *_: Any) -> lambda_.DlqDestinationConfig:
        """Return the queue's ARN. CDK calls this."""
        return lambda_.DlqDestinationConfig(destination=self._queue.queue_arn)


def _address(target: Target) -> str:
    """Return what the runtime takes: a queue's URL, or an ARN."""
    names = ("queue_url", "topic_arn", "event_bus_arn")
    return next(str(getattr(target, name)) for name in names if hasattr(target, name))


def _send_rights(target: Target) -> list[iam.PolicyStatement]:
    actions = {"queue_arn": "sqs:SendMessage", "topic_arn": "sns:Publish", "event_bus_arn": "events:PutEvents"}
    name, action = next((name, action) for name, action in actions.items() if hasattr(target, name))
    queue_key, topic_key = (getattr(target, name, None) for name in ("encryption_master_key", "master_key"))
    return [
        allow([action], getattr(target, name)),
        *([use_key(queue_key)] if queue_key else []),
        *([use_key(topic_key, "sns")] if topic_key else []),
    ]
