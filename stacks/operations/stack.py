"""The operations stack: alarms and a dashboard over a stage. Composition only.

It is a stack of its own: the engineer on call can change a threshold without touching the stack that holds the data.
"""

from aws_cdk import DefaultStackSynthesizer, Stack
from constructs import Construct

from oneslot.cdk.alarms import conditions, define_alarms
from stacks.operations.dashboard import Dashboard
from stacks.settings import THRESHOLDS, Settings
from stacks.shared.deployed import Deployed
from stacks.shared.measures import measures
from stacks.shared.resources import named_topic


class OperationsStack(Stack):
    """Alarms and a dashboard.

    It reads the appointments stack and changes nothing in it.
    """

    def __init__(self, scope: Construct, construct_id: str, *, settings: Settings, appointments: str) -> None:
        super().__init__(
            scope,
            construct_id,
            description="Oneslot: is it keeping up, is it right, what is failing",
            synthesizer=DefaultStackSynthesizer(generate_bootstrap_version_rule=False),
        )
        deployed = Deployed(self, appointments, settings.fifo)
        watched = measures(deployed, settings.stage)
        topic = named_topic(self, "Topic", settings.alarm_topic_arn)
        alarms = define_alarms(self, conditions(watched, THRESHOLDS, settings.numbers), topic)
        Dashboard(
            self,
            "Operations",
            stage=settings.stage,
            measures=watched,
            alarms=alarms,
            oldest_message_seconds=THRESHOLDS.alarm_oldest_message_seconds,
            audit=settings.audit,
        )
