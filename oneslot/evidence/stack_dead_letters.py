"""The dead letters of a stack, each under the identity that its consumer finds."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache

from oneslot.evidence.consumer_configuration import is_content_based
from oneslot.runtime.sqs.dead_letters import DeadLetter, Reading, peek, reading
from oneslot.target import Target


def reading_of(target: Target) -> AbstractContextManager[Reading]:
    """Read the dead-letter queue of a stack."""
    return reading(target.sqs, target.outputs.dead_letter_queue_url, cache(lambda: is_content_based(target)))


def letters_of(target: Target) -> list[DeadLetter]:
    """Read a stack's whole dead-letter queue and put every message back in sight at once."""
    return peek(target.sqs, target.outputs.dead_letter_queue_url, cache(lambda: is_content_based(target)))
