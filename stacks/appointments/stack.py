"""The appointments stack: queue → consumer → tables. Composition only."""

from pathlib import Path

from aws_cdk import CfnElement, CfnOutput, DefaultStackSynthesizer, Stack
from constructs import Construct

from oneslot.cdk import ExactlyOnceConsumer
from oneslot.cdk.resources import name_in_this_stack
from stacks.appointments.tables import AppointmentTables
from stacks.context import given_settings
from stacks.settings import Settings
from stacks.shared.deployed import output_name
from stacks.shared.measures import SERVICE, namespace
from stacks.shared.resources import customer_managed_key

SOURCE = Path(__file__).resolve().parents[2] / "lambda_src"
LOG_LEVEL = "INFO"

CONSUMER = "Default"
"""CDK leaves this id out of logical ids. So they are those of the stacks that were deployed before the construct existed."""
LEDGER = "TablesLedgerF9806C8B"
"""The ledger's logical id, from the same time. With another one CloudFormation would make a new, empty table."""


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
        key = None
        if settings.customer_managed_keys:
            key = customer_managed_key(
                self, "Key", description="Oneslot: requests and appointments", retain=settings.retain_data
            )
        tables = AppointmentTables(self, "Tables", numbers=settings.numbers, retain_data=settings.retain_data, key=key)
        consumer = ExactlyOnceConsumer(
            self,
            CONSUMER,
            entry=SOURCE,
            handler="handler.lambda_handler",
            description="Gives every appointment request exactly one slot",
            tables=tables.rights(),
            numbers=settings.numbers,
            fifo=settings.fifo,
            queue_name=name_in_this_stack("requests"),
            environment=_environment(settings),
            key=key,
            retain_data=settings.retain_data,
            group_commit=settings.group_commit,
            snap_start=settings.snap_start,
            gradual_deployment=settings.gradual_deployment,
            count_outcomes=False,  # the handler emits them
            metrics_namespace=namespace(settings.stage),
            metrics_dimensions={"service": SERVICE},
        )
        _keep_logical_id(consumer.ledger.node.default_child, LEDGER)
        consumer.add_outputs()
        outputs: dict[str, str] = {}
        for name, queue in {"Queue": consumer.queue, "DeadLetterQueue": consumer.dead_letter_queue}.items():
            said = {f"{name}Arn": queue.queue_arn, f"{name}Name": queue.queue_name}
            outputs |= said
            if settings.fifo:
                said[f"{name}Url"] = queue.queue_url
                outputs |= {output_name(output, fifo=True): value for output, value in said.items()}
        if key:
            outputs["KeyArn"] = key.key_arn  # producers and consumers need rights on it
        if given := given_settings(settings):
            outputs["GivenSettings"] = given  # the next deployment needs them again
        for name, value in outputs.items():
            CfnOutput(self, name, value=value)


def _environment(settings: Settings) -> dict[str, str]:
    """Return the function's environment beside what the construct sets."""
    return {
        # For the audit and `oneslot check`, which look for missing rows; the function does not read it.
        **({"LEDGER_FORGOTTEN_BEFORE": before} if (before := settings.ledger_forgotten_before) else {}),
        "CANDIDATE_SLOTS": str(settings.candidate_slots),
        "CONTENT_BASED_DEDUPLICATION": str(settings.content_based_deduplication).lower(),
        "GROUP_COMMIT": str(settings.group_commit).lower(),
        "POWERTOOLS_SERVICE_NAME": SERVICE,
        "POWERTOOLS_METRICS_NAMESPACE": namespace(settings.stage),
        "POWERTOOLS_LOG_LEVEL": LOG_LEVEL,
    }


def _keep_logical_id(resource: object, logical_id: str) -> None:
    if not isinstance(resource, CfnElement):
        raise TypeError(f"{resource} is not a CloudFormation resource")
    resource.override_logical_id(logical_id)
