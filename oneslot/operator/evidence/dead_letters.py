"""The dead letters of a stack, each under the id that its consumer finds, unless that id must not be shown."""

from functools import cache
from typing import Any

from oneslot.operator.target import Target, is_content_based
from oneslot.runtime.sqs import dead_letters
from oneslot.runtime.sqs.dead_letters import DeadLetter, Reading, peek, waiting_behind
from oneslot.wording import counted


def read_dead_letters(target: Target) -> Reading:
    """Read the dead-letter queue of a stack in batches; what is not deleted is visible again afterwards."""
    url = target.outputs.dead_letter_queue_url
    return Reading(target.sqs, url, surroundings=target.surroundings, **_rules(target))


def list_dead_letters(target: Target) -> list[DeadLetter]:
    """Return every dead letter that the queue of a stack shows, and make all of them visible again."""
    return peek(target.sqs, target.outputs.dead_letter_queue_url, **_rules(target))


def _rules(target: Target) -> dict[str, Any]:
    """Return how the consumer identifies a message."""
    return {
        "withheld": target.declaration.is_private,
        "content_based": cache(lambda: is_content_based(target)),
        "identity": target.declaration.tool("identity"),
    }


def count_hidden(target: Target, seen: int) -> int:
    """Return about how many dead letters are hidden from a reader who has just seen `seen`."""
    return waiting_behind(target.sqs, target.outputs.dead_letter_queue_url, seen, target.surroundings)


def count_in_flight(target: Target) -> int:
    """Return about how many dead letters readers hide now."""
    return dead_letters.in_flight(target.sqs, target.outputs.dead_letter_queue_url, target.surroundings)


def format_hidden(hidden: int) -> list[str]:
    """Return a sentence about dead letters that a reader could not see; none if there are none."""
    if not hidden:
        return []
    some = counted(hidden, "dead letter is", "dead letters are")
    return [
        f"About {some} not shown: another reader hides them for up to five minutes, or they wait behind others of their "
        "group on a FIFO queue. Look again later; on a FIFO queue redrive or drop the shown ones first."
    ]
