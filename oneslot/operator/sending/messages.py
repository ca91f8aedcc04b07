"""A message for the queue, and the part of it that the archive keeps, which is not personal."""

from collections.abc import Mapping
from dataclasses import dataclass, field

REQUEST = "request"
MALFORMED = "malformed"
# SQS's limit for the name of a message group.
LONGEST_GROUP = 128


@dataclass(frozen=True, slots=True)
class Archived:
    """The archived part of one request, without personal data.

    Attributes:
        message_id: its id; None if it has no valid one, or one with an NHS number.
        kind: `request` or `malformed`.
        malformation: the kind of a malformed message, e.g. `times_in_wrong_order`; None for a request.
        payload_hash: the digest of its content, as the ledger keeps it; None if the body is not a JSON object.
    """

    message_id: str | None
    kind: str = REQUEST
    malformation: str | None = None
    payload_hash: str | None = None


@dataclass(frozen=True, slots=True)
class RequestCopy:
    """One copy of a request. `group` is its practice, by which SQS shares the queue fairly; `problem` says why it has no id."""

    body: str
    request: Archived
    number: int  # of the request, from 0 in the order of generation; its copies share it
    group: str | None = None
    attributes: Mapping[str, str] = field(default_factory=dict)
    problem: str | None = None

    def __repr__(self) -> str:  # the body names a patient
        return f"RequestCopy(number={self.number}, request={self.request!r})"


def group_of(practice: object) -> str | None:
    """Return the message group for a body's `practice`; None if SQS would refuse it, so that the consumer can quarantine it."""
    fits = isinstance(practice, str) and practice.isascii() and practice.isalnum() and len(practice) <= LONGEST_GROUP
    return str(practice) if fits else None
