"""A paused consumer: its event source mapping is off, and the mapping's tags say since when, by whom and why.

The tags are set before the mapping is off, and removed when it is on.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from oneslot.errors import MappingNotFound
from oneslot.local.mapping.event_source_mapping import ASKED, PAUSED_AT, RESTART, STARTED, unstarted
from oneslot.operator.evidence.operator_log import BEGUN, DONE, OperatorLog
from oneslot.operator.target import Target
from oneslot.runtime.failures import error_code

PAUSED_BY, PAUSED_BECAUSE = "oneslot:paused-by", "oneslot:paused-because"
TAGS = (PAUSED_AT, PAUSED_BY, PAUSED_BECAUSE)
OFF = ("Disabled", "Disabling")
PAUSE, RESUME = "pause", "resume"
NAMESPACE, METRIC = "Oneslot", "Paused"
"""The metric that the construct's alarm `paused` watches; a test compares the two."""
TAG_LENGTH = 256
_NOT_IN_TAGS = re.compile(r"[^\w\s.:/=+\-@]")


@dataclass(frozen=True, slots=True)
class MappingState:
    """The mapping of a stack.

    Attributes:
        off: whether it takes no messages, or soon will not.
        stopped: whether it takes none: AWS has finished switching it off.
        tags: `TAGS`; none if it was switched off without `oneslot pause`.
        problems: that the local function does not start, as a sentence; none if it does.
    """

    arn: str
    off: bool
    stopped: bool
    tags: Mapping[str, str]
    problems: Sequence[str] = ()

    def sentence(self, target: Target) -> str:
        """Return since when, by whom and why it is off, and how to end that."""
        if not self.tags:
            return f"PAUSED: the mapping is off, and no tag says why. Start it: {target.command('resume --yes')}."
        since, who, why = (self.tags.get(tag, "unknown") for tag in TAGS)
        return f"PAUSED since {since} by {who}: {why}. End it: {target.command('resume --yes')}."

    def document(self) -> dict[str, object]:
        """Return the state as JSON."""
        since, who, why = (self.tags.get(tag) for tag in TAGS)
        return {"paused": self.off, "since": since, "who": who, "reason": why}


def find_mapping_state(target: Target) -> tuple[MappingState | None, Sequence[str]]:
    """Return the mapping's state, and its problems; None and a sentence if it cannot be read."""
    try:
        return (state := read_mapping_state(target)), state.problems
    except MappingNotFound as error:
        return None, [str(error)]
    except ClientError as error:
        return None, [f"It is not known whether the consumer is paused: {error_code(error)}."]


def read_mapping_state(target: Target) -> MappingState:
    """Return the state of the stack's mapping. Raises `OneslotError` if it is gone."""
    mapping_id = target.outputs.event_source_mapping_id
    try:
        mapping = target.functions.get_event_source_mapping(UUID=mapping_id)
    except ClientError as error:
        if error.response["Error"]["Code"] != "ResourceNotFoundException":
            raise
        raise MappingNotFound(
            f"The event source mapping {mapping_id} of {target.stack_name} is not found, so nothing consumes its queue. "
            "See `oneslot docs runbooks#stalled`."
        ) from error
    arn = mapping["EventSourceMappingArn"]
    found = target.functions.list_tags(Resource=arn).get("Tags", {})
    tags = {name: found[name] for name in TAGS if name in found}
    if target.local:
        # The local mapping is always disabled, because a poller of ours takes its place. That one follows the tag.
        said = found.get(RESTART, STARTED)
        problems = [] if said in (ASKED, STARTED) else [unstarted(said, target.local.log_file)]
        return MappingState(arn, PAUSED_AT in tags, PAUSED_AT in tags, tags, problems)
    return MappingState(arn, mapping["State"] in OFF, mapping["State"] == OFF[0], tags)


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
