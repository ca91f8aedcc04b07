"""A paused consumer: its event source mapping is off. The mapping's tags say since when, by whom and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from botocore.exceptions import ClientError

from oneslot.errors import MappingNotFound
from oneslot.local.mapping.event_source_mapping import PAUSED_AT
from oneslot.operator.target import Target
from oneslot.runtime.stores.expressions import error_code

PAUSED_BY, PAUSED_BECAUSE = "oneslot:paused-by", "oneslot:paused-because"
TAGS = (PAUSED_AT, PAUSED_BY, PAUSED_BECAUSE)
OFF = ("Disabled", "Disabling")


@dataclass(frozen=True, slots=True)
class MappingState:
    """The mapping of a stack.

    Attributes:
        off: whether it takes no messages, or soon will not.
        stopped: whether it takes none: AWS has finished switching it off.
        tags: `TAGS`; none if it was switched off without `oneslot pause`.
    """

    arn: str
    off: bool
    stopped: bool
    tags: Mapping[str, str]

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


def find_mapping_state(target: Target) -> tuple[MappingState | None, list[str]]:
    """Return the mapping's state; None and a sentence if it cannot be read."""
    try:
        return read_mapping_state(target), []
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
        return MappingState(arn, PAUSED_AT in tags, PAUSED_AT in tags, tags)
    return MappingState(arn, mapping["State"] in OFF, mapping["State"] == OFF[0], tags)
