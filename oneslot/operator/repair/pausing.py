"""Pause and resume a consumer, by its event source mapping. The tags are set before it is off, and removed when it is on."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from oneslot.local.mapping.event_source_mapping import PAUSED_AT
from oneslot.operator.evidence.operator_log import BEGUN, DONE, OperatorLog
from oneslot.operator.evidence.pause import PAUSED_BECAUSE, PAUSED_BY, TAGS, MappingState
from oneslot.operator.target import Target

PAUSE, RESUME = "pause", "resume"
NAMESPACE, METRIC = "Oneslot", "Paused"
"""The metric that the construct's alarm `paused` watches; a test compares the two."""
TAG_LENGTH = 256
_NOT_IN_TAGS = re.compile(r"[^\w\s.:/=+\-@]")


def pause(target: Target, mapping: MappingState, reason: str, log: OperatorLog) -> list[str]:
    """Switch the mapping off, with the reason. Return what could not be done beside it."""
    log.write(PAUSE, {"reason": reason}, BEGUN)
    now = datetime.fromtimestamp(target.surroundings.now_ms() / 1000, UTC)
    who = log.who.get("arn") or f"{log.who['user']}@{log.who['host']}"
    tags = {PAUSED_AT: f"{now:%Y-%m-%dT%H:%M:%SZ}", PAUSED_BY: tag_text(who), PAUSED_BECAUSE: tag_text(reason)}
    target.functions.tag_resource(Resource=mapping.arn, Tags=tags)
    _switch(target, on=False)
    problems = report(target, paused=True)
    log.write(PAUSE, {"reason": reason}, DONE)
    return problems


def resume(target: Target, mapping: MappingState, log: OperatorLog) -> list[str]:
    """Switch the mapping on. Return what could not be done beside it."""
    log.write(RESUME, {"paused": dict(mapping.tags)}, BEGUN)
    _switch(target, on=True)
    target.functions.untag_resource(Resource=mapping.arn, TagKeys=list(TAGS))
    problems = report(target, paused=False)
    log.write(RESUME, {"paused": dict(mapping.tags)}, DONE)
    return problems


def tag_text(text: str) -> str:
    """Return the text as a tag takes it: characters that AWS refuses become spaces."""
    return " ".join(_NOT_IN_TAGS.sub(" ", text).split())[:TAG_LENGTH]


def _switch(target: Target, *, on: bool) -> None:
    if target.local is None:
        target.functions.update_event_source_mapping(UUID=target.outputs.event_source_mapping_id, Enabled=on)


def report(target: Target, *, paused: bool) -> list[str]:
    """Set the metric behind the alarm, which keeps its state until the next value. The local stack has no alarms."""
    if target.local:
        return []
    dimension = {"Name": "FunctionName", "Value": target.outputs.consumer_function_name}
    try:
        boto3.client("cloudwatch").put_metric_data(
            Namespace=NAMESPACE,
            MetricData=[{"MetricName": METRIC, "Dimensions": [dimension], "Value": int(paused)}],
        )
    except (BotoCoreError, ClientError) as error:
        return [
            f"The alarm `paused` does not know of it: {type(error).__name__} from PutMetricData. "
            "Get the right cloudwatch:PutMetricData, and run the command again."
        ]
    return []
