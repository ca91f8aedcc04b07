"""The appointments stack: queue → consumer → tables. Composition only."""

from __future__ import annotations

from aws_cdk import CfnOutput, DefaultStackSynthesizer, Stack
from aws_cdk import aws_kms as kms
from constructs import Construct

from stacks.appointments.consumer import Consumer, EventSource
from stacks.appointments.request_queue import RequestQueue
from stacks.appointments.tables import Tables
from stacks.context import given_settings
from stacks.settings import Settings
from stacks.shared.deployed import QUEUE_OUTPUTS, output_name
from stacks.shared.resources import customer_managed_key


class AppointmentsStack(Stack):
    """The queue, the consumer and the tables of one stage. The command line finds them by the outputs."""

    def __init__(self, scope: Construct, construct_id: str, *, settings: Settings) -> None:
        super().__init__(
            scope,
            construct_id,
            description="Oneslot: every appointment request gets exactly one slot",
            # The rule would only check the bootstrap's version, through a parameter that the embedded AWS lacks.
            synthesizer=DefaultStackSynthesizer(generate_bootstrap_version_rule=False),
            termination_protection=settings.retain_data,
        )
        key = self._key(settings)
        tables = Tables(self, "Tables", settings=settings, key=key)
        requests = RequestQueue(self, "Requests", settings=settings, key=key)
        consumer = Consumer(self, "Consumer", settings=settings, tables=tables, requests=requests, key=key)
        source = EventSource(self, "EventSource", settings=settings, queue=requests.queue, function=consumer.target)
        outputs = {
            "QueueUrl": requests.queue.queue_url,
            "QueueArn": requests.queue.queue_arn,
            "QueueName": requests.queue.queue_name,
            "DeadLetterQueueUrl": requests.dead_letter_queue.queue_url,
            "DeadLetterQueueArn": requests.dead_letter_queue.queue_arn,
            "DeadLetterQueueName": requests.dead_letter_queue.queue_name,
            "LedgerTableName": tables.ledger.table_name,
            "SlotsTableName": tables.slots.table_name,
            "AppointmentsTableName": tables.appointments.table_name,
            "ConsumerFunctionName": consumer.function.function_name,
            "ConsumerLogGroupName": consumer.log_group.log_group_name,
            "EventSourceMappingId": source.mapping.event_source_mapping_id,
        }
        outputs |= {output_name(name, fifo=settings.fifo): outputs[name] for name in QUEUE_OUTPUTS}
        if key:
            outputs["KeyArn"] = key.key_arn  # producers and consumers need rights on it
        if given := given_settings(settings):
            outputs["GivenSettings"] = given  # the next deployment needs them again
        for name, value in outputs.items():
            CfnOutput(self, name, value=value)

    def _key(self, settings: Settings) -> kms.Key | None:
        if not settings.customer_managed_keys:
            return None
        return customer_managed_key(self, "Key", settings=settings, description="Oneslot: requests and appointments")
