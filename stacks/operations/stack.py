"""The operations stack: alarms and a dashboard over a stage. Composition only.

It is a stack of its own: the engineer on call can change a threshold without touching the stack that holds the data.
"""

from __future__ import annotations

from aws_cdk import DefaultStackSynthesizer, Stack
from constructs import Construct

from stacks.operations.conditions import conditions
from stacks.operations.dashboard import Dashboard
from stacks.settings import Settings
from stacks.shared.alarms import Alarms, named_topic
from stacks.shared.deployed import Deployed
from stacks.shared.measures import Measures


class OperationsStack(Stack):
    """Alarms and a dashboard. It reads the appointments stack and changes nothing in it."""

    def __init__(self, scope: Construct, construct_id: str, *, settings: Settings, appointments: str) -> None:
        super().__init__(
            scope,
            construct_id,
            description="Oneslot: is it keeping up, is it right, what is failing",
            synthesizer=DefaultStackSynthesizer(generate_bootstrap_version_rule=False),
        )
        measures = Measures(Deployed(self, appointments, settings.fifo), settings.stage)
        topic = named_topic(self, "Topic", settings=settings)
        alarms = Alarms(self, "Alarms", conditions=conditions(measures, settings), topic=topic)
        Dashboard(self, "Operations", settings=settings, measures=measures, alarms=alarms.alarms)
