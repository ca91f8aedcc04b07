"""What goes to the queue, and what the archive may keep of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

REQUEST = "request"
MALFORMED = "malformed"
# SQS takes no longer name of a group.
LONGEST_GROUP = 128


@dataclass(frozen=True, slots=True)
class Archived:
    """What the archive of accepted requests says of one request. Nothing of it is personal.

    Attributes:
        message_id: its identity; None where it has none that is fit to be written down.
        kind: `request` or `malformed`.
        fault: what is wrong with a malformed one, e.g. `times_in_wrong_order`; None for a request.
        payload_hash: the digest of its content that the ledger keeps; None where there is no content to digest.
        copies: how often the producer sends it.
    """

    message_id: str | None
    kind: str = REQUEST
    fault: str | None = None
    payload_hash: str | None = None
    copies: int = 1


@dataclass(frozen=True, slots=True)
class Message:
    """One message for the queue: one copy of a request. `group` is its practice, by which SQS shares the queue fairly."""

    body: str
    request: Archived
    number: int  # of the request, counted from 0 in the order of generation: its copies have the same
    group: str | None = None
    attributes: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:  # the body names a patient
        return f"Message(number={self.number}, request={self.request!r})"


def group_of(practice: object) -> str | None:
    """The group for a body's `practice`, whatever it holds; None where SQS would refuse it: that is for the consumer to say."""
    fits = isinstance(practice, str) and practice.isascii() and practice.isalnum() and len(practice) <= LONGEST_GROUP
    return str(practice) if fits else None
