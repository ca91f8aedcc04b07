"""The relay: a function that sends what decisions sent, by the ledger's stream, and each minute by its index of what waits."""

import json
import re
from collections.abc import Mapping

from aws_cdk import Duration, Token
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as events_targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from oneslot.cdk.function import ConsumerFunction, FunctionProperties
from oneslot.cdk.metrics import OLDEST_UNSENT
from oneslot.cdk.numbers import ContradictorySettings
from oneslot.cdk.resources import require_variable_name
from oneslot.cdk.rights import accept_wildcards, allow, document, title, use_key
from oneslot.cdk.tables import UNSENT_INDEX, key_of

Target = sqs.IQueue | sns.ITopic | events.IEventBus

HANDLER = "oneslot.runtime.sends.lambda_relay.handler"
ONLY_UNSENT = {"dynamodb": {"NewImage": {"unsent": {"N": [{"exists": True}]}}}}
"""The stream's records that hold messages: Lambda passes over the others and bills none."""
TIMEOUT_SECONDS = 60
"""As long as the time between two looks. The relay ends before, and marks what it has sent."""
ROWS = 100
"""The rows of one invocation. It marks them in tens, so a crash sends ten again at most."""
EXECUTIONS_PER_SHARD = 2
"""A new table has four shards: eight executions, as many as the consumer's."""
RECORD_AGE_HOURS = 23
"""DynamoDB keeps a record for 24. After an outage the relay still tries what came before it."""
CRASHES = 2
"""How often a batch is repeated whose invocation crashes. It would hold its shard, and the looks find its rows."""

FORMS = (
    r"https?://[^/]+/\d{12}/[\w-]{1,80}(\.fifo)?",
    r"arn:[^:]+:sns:[^:]+:\d{12}:[\w-]{1,256}(\.fifo)?",
    r"arn:[^:]+:events:[^:]+:\d{12}:event-bus/[\w./-]{1,256}",
)
"""What the runtime takes for a target, written here as text; a test compares them."""


def send_variables(targets: Mapping[str, Target]) -> dict[str, str]:
    """Return the environment variable of each target.

    Raises:
        ContradictorySettings: a name fits no variable, or an address takes no message, such as a subscription's ARN.
    """
    for name, target in targets.items():
        require_variable_name("target", name)
        address = _address(target)
        if not Token.is_unresolved(address) and not any(re.fullmatch(form, address) for form in FORMS):
            raise ContradictorySettings(
                f"the target {name!r} is {address}, which takes no message; pass a queue, a topic or an event bus"
            )
    return {f"ONESLOT_SEND_{name.upper()}": _address(target) for name, target in targets.items()}


class RelayFunction(Construct):
    """The function, its mapping and its schedule. The log of its looks is the metric `OLDEST_UNSENT` in `namespace`."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        properties: FunctionProperties,
        *,
        ledger: dynamodb.ITable | dynamodb.ITableV2,
        targets: Mapping[str, Target],
        environment: Mapping[str, str],
        namespace: str,
    ) -> None:
        super().__init__(scope, construct_id)
        stream = ledger.table_stream_arn or ""  # `check_ledger` refuses a ledger without one

        def rights(log_group: logs.ILogGroup) -> dict[str, iam.PolicyDocument]:
            used = {each.node.path: use_key(each) for each in (properties.key, key_of(ledger)) if each}
            return {
                "Ledger": document(
                    allow(["dynamodb:GetItem", "dynamodb:UpdateItem"], ledger.table_arn),
                    allow(["dynamodb:Scan"], f"{ledger.table_arn}/index/{UNSENT_INDEX}"),
                ),
                "Stream": document(
                    allow(["dynamodb:DescribeStream", "dynamodb:GetRecords", "dynamodb:GetShardIterator"], stream),
                    allow(["dynamodb:ListStreams"], "*"),
                ),
                "Logs": document(allow(["logs:CreateLogStream", "logs:PutLogEvents"], log_group.log_group_arn)),
                **({"Key": document(*used.values())} if used else {}),
                **{f"To{title(name)}": document(*_send_rights(target)) for name, target in targets.items()},
            }

        relay = ConsumerFunction(
            self,
            "Relay",
            properties,
            handler=HANDLER,
            description="Sends the messages that follow a commit, from the ledger's stream",
            environment={**environment, "ONESLOT_UNSENT_INDEX": UNSENT_INDEX},
            rights=rights,
            timeout_seconds=TIMEOUT_SECONDS,
        )
        accept_wildcards(relay.role, {"*": "Lambda lists streams, and the call takes no resource"})
        self.function, self.log_group = relay.function, relay.log_group
        lambda_.EventSourceMapping(
            self,
            "Mapping",
            target=self.function,
            event_source_arn=stream,
            starting_position=lambda_.StartingPosition.TRIM_HORIZON,
            batch_size=ROWS,
            parallelization_factor=EXECUTIONS_PER_SHARD,
            filters=[{"pattern": json.dumps(ONLY_UNSENT)}],
            report_batch_item_failures=True,
            bisect_batch_on_error=True,
            retry_attempts=CRASHES,
            max_record_age=Duration.hours(RECORD_AGE_HOURS),
        )
        events.Rule(
            self,
            "Looks",
            schedule=events.Schedule.rate(Duration.seconds(TIMEOUT_SECONDS)),
            targets=[events_targets.LambdaFunction(self.function, retry_attempts=0)],
        )
        logs.MetricFilter(
            self,
            OLDEST_UNSENT,
            log_group=relay.log_group,
            filter_pattern=logs.FilterPattern.number_value("$.oldest_seconds", ">=", 0),
            metric_namespace=namespace,
            metric_name=OLDEST_UNSENT,
            metric_value="$.oldest_seconds",
        )


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
