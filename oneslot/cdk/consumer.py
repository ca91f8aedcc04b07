"""`ExactlyOnceConsumer`: a queue, the function that consumes it, and the ledger of what took effect."""

import itertools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from aws_cdk import CfnOutput, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from oneslot.cdk.alarms import conditions, define_alarms, relay_conditions
from oneslot.cdk.asset import lambda_code
from oneslot.cdk.function import ConsumerFunction, FunctionProperties, deploy_gradually, event_source
from oneslot.cdk.metrics import ConsumerMetrics, count_deliveries
from oneslot.cdk.numbers import (
    FOREVER,
    ContradictorySettings,
    Numbers,
    Thresholds,
    late_alarms,
    refuse,
    refused_on_fifo,
)
from oneslot.cdk.queues import find_queues, mixed_queues, new_queues, numbers_of
from oneslot.cdk.relay import RelayFunction, Target, send_variables
from oneslot.cdk.resources import path_name, require_variable_name, unique_name
from oneslot.cdk.rights import TableRights, consumer_rights, use_key
from oneslot.cdk.tables import check_ledger, key_declaration, key_of, new_ledger

Table = dynamodb.ITable | dynamodb.ITableV2

LEDGER = "ledger"
MOST_TABLES = 40
"""Tables of effects: near 46 a role's inline policies pass IAM's 10,240 characters, near 48 the environment Lambda's 4 KB."""
LONGEST_NAME = 60
"""Characters of a queue's name before the stack's id: SQS allows 80."""
LONGEST_NAMESPACE = 200
"""Characters of a construct's path in its metrics' namespace: CloudWatch allows 255."""


class ExactlyOnceConsumer(Construct):
    """A queue whose messages take effect exactly once, in tables that the function's decisions name.

    The defaults are safe: encryption everywhere, TLS only, partial batch responses, a dead-letter queue that keeps messages
    for 14 days, a ledger that outlives every copy of a message, data that outlives the stack, and the rights of the calls
    that the library makes, on these resources alone.

    Attributes:
        queue, dead_letter_queue: new ones, or the existing ones.
        ledger: one row for each message. The only table whose rows expire, unless they are kept for ever.
        function, log_group: the consumer, and its delivery log.
        mapping: feeds the function from the queue.
        metrics: every metric of these.
        relay: sends what decisions send; None without `sends`.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        handler: str,
        tables: Mapping[str, Table | TableRights],
        keys: Mapping[str, str | tuple[str, str]] | None = None,
        sends: Mapping[str, Target] | None = None,
        entry: str | Path | None = None,
        code: lambda_.Code | None = None,
        numbers: Numbers | None = None,
        fifo: bool = False,
        queue_name: str | None = None,
        existing_queue: sqs.IQueue | None = None,
        existing_dead_letter_queue: sqs.IQueue | None = None,
        existing_ledger: Table | None = None,
        environment: Mapping[str, str] | None = None,
        description: str = "Consumes a queue; each message takes effect once",
        layers: Sequence[lambda_.ILayerVersion] | None = None,
        tracing: lambda_.Tracing | None = None,
        vpc: ec2.IVpc | None = None,
        vpc_subnets: ec2.SubnetSelection | None = None,
        security_groups: Sequence[ec2.ISecurityGroup] | None = None,
        key: kms.IKey | None = None,
        retain_data: bool = True,
        group_commit: bool = False,
        snap_start: bool = False,
        gradual_deployment: bool = False,
        count_outcomes: bool = True,
        metrics_namespace: str | None = None,
        metrics_dimensions: Mapping[str, str] | None = None,
    ) -> None:
        """Define the resources.

        Args:
            handler: the function in `entry`, as Lambda writes it: `app.handler` is `handler` in `app.py`.
            tables: the name that a decision writes to → the table, with the rights to put and update, or `TableRights`.
            keys: the key of each imported table, which CDK does not know: its partition key's name, or with a sort key both.
            sends: the name that a decision sends to → a queue, a topic or an event bus. The ledger gets a stream, an index
                and a relay.
            entry: the folder with the handler. `oneslot.runtime` and the packages that its `requirements.txt` pins are added.
            code: an asset of your own in place of `entry`. It must have `oneslot.runtime`.
            numbers: timeouts, sizes and retentions, each with a default.
            fifo: keep the order within each message group.
            queue_name: the new queue's name; by default it is made from the stack's.
            existing_queue: a queue in place of a new one. It must have a dead-letter queue.
            existing_dead_letter_queue: that of an imported queue, which does not show its own.
            existing_ledger: a ledger in place of a new one. Consumers that share one need ids that never meet.
            environment: further environment variables of the function.
            layers: the function's layers.
            tracing: X-Ray's mode; CDK adds its rights.
            vpc, vpc_subnets, security_groups: the function's network, from which it must reach DynamoDB and SQS.
            key: encrypts queues, ledger, log and environment in place of AWS's own keys. The policy of an imported one must
                allow CloudWatch Logs to use it, and CloudFormation's role to create grants.
            retain_data: queues, ledger and log outlive the stack.
            group_commit: also allow the ledger's calls of `GroupCommit`.
            snap_start: start from a snapshot of the imported function; snapshots and restores are billed.
            gradual_deployment: give a new version a tenth of the batches for five minutes, and roll it back if they fail.
            count_outcomes: count the delivery log's lines by outcome; False if the function emits these metrics itself.
            metrics_namespace: where these metrics are; by default it is made from the construct's path.
            metrics_dimensions: the dimensions with which the function emits them.

        Raises:
            ContradictorySettings: the properties contradict each other.
            VendoringProblem: a package of the entry's `requirements.txt` is neither installed nor available.
        """
        super().__init__(scope, construct_id)
        self.numbers = numbers or Numbers()
        self.tables = {
            name: table if isinstance(table, TableRights) else TableRights(table=table)
            for name, table in tables.items()
        }
        variables = {**_table_variables(self.tables, keys or {}), **send_variables(sends or {})}
        refuse(mixed_queues(existing_queue, existing_dead_letter_queue, queue_name, fifo=fifo))
        if existing_queue:
            queues = find_queues(existing_queue, existing_dead_letter_queue)
            self.numbers = numbers_of(queues, self.numbers)
        else:
            name = queue_name or unique_name(self, LONGEST_NAME)
            queues = new_queues(self, name, self.numbers, fifo=fifo, retain=retain_data, key=key)
        self.queue, self.dead_letter_queue = queues.queue, queues.dead_letter_queue
        if self.queue.fifo and (sentence := next(refused_on_fifo(self.numbers), None)):
            raise ContradictorySettings(sentence)
        expires = self.numbers.ledger_retention_seconds is not None
        if existing_ledger:
            check_ledger(existing_ledger, expires=expires, sends=bool(sends))
        self.ledger: Table = existing_ledger or new_ledger(
            self, "Ledger", numbers=self.numbers, retain_data=retain_data, key=key, streams=bool(sends)
        )
        if (entry is None) == (code is None):
            raise ContradictorySettings(
                "the function's code is entry, a folder, or code, an asset, and exactly one of them is needed; pass one"
            )
        properties = FunctionProperties(
            code=code or lambda_code(str(entry), handler, self),
            numbers=self.numbers,
            retain=retain_data,
            key=key,
            layers=layers,
            tracing=tracing,
            vpc=vpc,
            vpc_subnets=vpc_subnets,
            security_groups=security_groups,
        )
        common = {
            "ONESLOT_LEDGER_TABLE": self.ledger.table_name,
            "ONESLOT_QUEUE_URL": self.queue.queue_url,  # by which a row names its consumer
            "ONESLOT_LEDGER_RETENTION_SECONDS": str(self.numbers.ledger_retention_seconds or FOREVER),
        }
        consumer = ConsumerFunction(
            self,
            "Consumer",
            properties,
            handler=handler,
            description=description,
            environment={
                **common,
                "ONESLOT_DEAD_LETTER_QUEUE_URL": self.dead_letter_queue.queue_url,
                **self.numbers.deferral_variables,
                **variables,
                **(environment or {}),
            },
            rights=lambda log_group: consumer_rights(
                ledger=self.ledger,
                tables=self.tables,
                queue=self.queue,
                dead_letter_queue=self.dead_letter_queue,
                log_group=log_group,
                keys=self._keys(key),
                group_commit=group_commit,
            ),
            published=gradual_deployment,
            snap_start=snap_start,
        )
        self.function, self.log_group = consumer.function, consumer.log_group
        self.mapping = event_source(self, self.numbers, self.queue, consumer.target)
        namespace = metrics_namespace or f"Oneslot/{path_name(self, LONGEST_NAMESPACE)}"
        self.relay = (
            RelayFunction(
                self,
                "Sends",
                properties,
                ledger=self.ledger,
                targets=sends,
                environment={**common, **send_variables(sends)},
                namespace=namespace,
            )
            if sends
            else None
        )
        self.metrics = ConsumerMetrics(
            queue_name=self.queue.queue_name,
            dead_letter_queue_name=self.dead_letter_queue.queue_name,
            function_name=self.function.function_name,
            table_names={
                LEDGER: self.ledger.table_name,
                **{name: rights.table.table_name for name, rights in self.tables.items()},
            },
            namespace=namespace,
            dimensions=metrics_dimensions or {},
        )
        if gradual_deployment and consumer.alias:
            deploy_gradually(self, consumer, consumer.alias, self.metrics)
        if count_outcomes:
            count_deliveries(Construct(self, "Counts"), self.log_group, self.metrics.namespace)

    def grant_send(self, principal: iam.IGrantable) -> iam.Grant:
        """Allow a producer to send messages to the queue, and nothing else."""
        if key := self.queue.encryption_master_key:
            key.grant(principal, "kms:Decrypt", "kms:GenerateDataKey")
        return iam.Grant.add_to_principal_or_resource(
            grantee=principal, actions=["sqs:SendMessage"], resource_arns=[self.queue.queue_arn], resource=self.queue
        )

    def grant_table(self, table: Table, *actions: str, index: str | None = None) -> iam.Grant:
        """Allow the function further actions, such as `dynamodb:GetItem`, on a table or on one of its indexes, and its key."""
        if key := key_of(table):
            self.function.add_to_role_policy(use_key(key))
        arn = f"{table.table_arn}/index/{index}" if index else table.table_arn
        return iam.Grant.add_to_principal(grantee=self.function, actions=list(actions), resource_arns=[arn])

    def add_outputs(self, prefix: str | None = None) -> None:
        """Add the stack's outputs by which the tools find this consumer.

        Args:
            prefix: begins each name, as the `outputs` of the consumer's `oneslot.toml` says. By default there is none, and for
                a further consumer of the stack it is the construct's id, with a number if another has the same letters.

        Raises:
            ContradictorySettings: the stack has outputs with this prefix.
        """
        stack = Stack.of(self)
        letters = re.sub("[^A-Za-z0-9]", "", self.node.id) or "Consumer"  # CloudFormation's alphabet for outputs
        choices = itertools.chain(("", letters), (f"{letters}{number}" for number in itertools.count(2)))
        if prefix is None:
            prefix = next(each for each in choices if not stack.node.try_find_child(f"{each}QueueUrl"))
        elif stack.node.try_find_child(f"{prefix}QueueUrl"):
            raise ContradictorySettings(
                f"the stack has an output {prefix}QueueUrl; pass another prefix to add_outputs()"
            )
        outputs = {
            "QueueUrl": self.queue.queue_url,
            "DeadLetterQueueUrl": self.dead_letter_queue.queue_url,
            "LedgerTableName": self.ledger.table_name,
            **{
                f"{name.title().replace('_', '')}TableName": rights.table.table_name
                for name, rights in self.tables.items()
            },
            "ConsumerFunctionName": self.function.function_name,
            "ConsumerLogGroupName": self.log_group.log_group_name,
            "EventSourceMappingId": self.mapping.event_source_mapping_id,
        }
        if self.relay:
            outputs["RelayFunctionName"] = self.relay.function.function_name
            outputs["RelayLogGroupName"] = self.relay.log_group.log_group_name
        for name, value in outputs.items():
            CfnOutput(stack, f"{prefix}{name}", value=value)

    def add_alarms(
        self, topic: sns.ITopic | None = None, thresholds: Thresholds | None = None
    ) -> list[cloudwatch.Alarm]:
        """Add one alarm for each condition that wakes someone. It notifies `topic` when it starts and when it ends.

        Raises:
            ContradictorySettings: a message would be deleted before the alarm on its age goes off.
        """
        limits = thresholds or Thresholds()
        refuse(late_alarms(limits, self.numbers))
        every = conditions(self.metrics, limits, self.numbers)
        if self.relay:
            every += relay_conditions(self.metrics.namespace)
        return define_alarms(self, every, topic)

    def metric_deliveries(self, outcome: str = "", **options: Any) -> cloudwatch.Metric:
        """Return the number of deliveries with this outcome of the library's, such as `duplicate`; of all without one.

        `options` of each metric are those of CDK's own, such as `period`, `statistic` or `label`.
        """
        return self.metrics.deliveries(outcome).with_(**options)

    def metric_dead_letters(self, **options: Any) -> cloudwatch.Metric:
        """Return the messages in the dead-letter queue."""
        return self.metrics.dead_letters().with_(**options)

    def metric_oldest_message_age(self, **options: Any) -> cloudwatch.Metric:
        """Return the seconds for which the queue's oldest message has waited."""
        return self.metrics.queue("ApproximateAgeOfOldestMessage").with_(**options)

    def _keys(self, key: kms.IKey | None) -> list[kms.IKey]:
        """Return each key that the consumer's data is encrypted with, once."""
        found = [
            key,
            self.queue.encryption_master_key,
            self.dead_letter_queue.encryption_master_key,
            key_of(self.ledger),
            *(key_of(rights.table) for rights in self.tables.values()),
        ]
        return list({each.node.path: each for each in found if each}.values())


def _table_variables(tables: Mapping[str, TableRights], keys: Mapping[str, str | tuple[str, str]]) -> dict[str, str]:
    """Return the environment variables of each table: its name, and its key where that is known."""
    if len(tables) > MOST_TABLES:
        raise ContradictorySettings(
            f"{len(tables)} tables need more than IAM's 10,240 characters of a role's policies, or Lambda's 4 KB of an "
            f"environment; name {MOST_TABLES} at most, and split the consumer"
        )
    for name in tables:
        if name == LEDGER:
            raise ContradictorySettings(
                f"a table of effects is called {LEDGER!r}, the name of the ledger itself; choose another name, or pass the "
                "ledger as existing_ledger"
            )
        require_variable_name("table", name)
    variables = {f"ONESLOT_TABLE_{name.upper()}": rights.table.table_name for name, rights in tables.items()}
    for name, rights in tables.items():
        given = keys.get(name, ())
        if key := (given if isinstance(given, str) else ",".join(given)) or key_declaration(rights.table):
            variables[f"ONESLOT_KEY_{name.upper()}"] = key
    return variables
