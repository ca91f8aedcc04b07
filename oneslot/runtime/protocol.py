"""The protocol's words: what a ledger can do with a message, and what each step can answer.

    free ──claim──▶ IN_PROGRESS (leased, fenced by `claimed_by`) ──commit──▶ COMPLETE, for ever
                        ▲   │ the lease ends, or release
                        └───┘ claim by another

A claim is one conditional write. A commit is one transaction that completes the ledger's row and performs every effect, or
does nothing. No crash can therefore leave one without the other. The fence is a value that is set rather than counted: a
claim that lands late, after its own retry, changes nothing that its owner relies on.

`attempt.py` takes the steps in order; `stores/` holds the ledgers that implement them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from oneslot.runtime.effects import Effects, Item, Result, Write
from oneslot.runtime.surroundings import Surroundings
from oneslot.runtime.values import from_json

IN_PROGRESS = "IN_PROGRESS"
COMPLETE = "COMPLETE"

UNSENT = "unsent"
"""The number of messages that a COMPLETE row holds in `sends`. A relay takes out what it has sent, and at last both."""

SENDER = "sender"
"""The consumer whose relay sends them."""

ANY_CONTENT = ""
"""The digest in a COMPLETE row that was put for an id alone, without its content: it answers a copy of any content."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to decide one message until `lease_until` (epoch ms), or until another consumer takes over after it."""

    message_id: str
    claimed_by: str
    consumption_count: int
    lease_until: int


@dataclass(frozen=True, slots=True)
class Duplicate:
    """The message is complete; `result` is its recorded answer."""

    result: Result
    consumption_count: int
    claimed_by: str

    @property
    def answer(self) -> Answer:
        """The answer that each further delivery gets."""
        return Answer(self.result, True, self.consumption_count, self.claimed_by)


@dataclass(frozen=True, slots=True)
class Busy:
    """Another consumer holds the message for this many more milliseconds."""

    milliseconds: int


@dataclass(frozen=True, slots=True)
class Conflict:
    """The ledger knows this message id with another content."""


@dataclass(frozen=True, slots=True)
class Committed:
    """All effects are written and the row is complete; every duplicate will get this `result`."""

    result: Result


@dataclass(frozen=True, slots=True)
class Fenced:
    """Another consumer took over; nothing of this claim was written."""

    claim: Claim


@dataclass(frozen=True, slots=True)
class Taken:
    """A condition of the effects no longer holds; nothing was written. Read and decide again, under the same claim.

    `instead` makes the effects that take their place, where each write that was refused has an `otherwise`.
    """

    instead: Callable[[], Effects] | None = None


@dataclass(frozen=True, slots=True)
class Exists:
    """The effect happened before; `item` is what it left."""

    item: Item


@dataclass(frozen=True, slots=True)
class Answer:
    """The request has taken effect: in this delivery, or (`duplicate`) in an earlier one."""

    result: Result
    duplicate: bool
    consumption_count: int
    claimed_by: str


Outcome = Answer | Busy | Conflict | Fenced
"""The end of one attempt at one message."""


def conflicts(kept: str, status: str, digest: str) -> bool:
    """Return whether a copy with this digest has another content than its row, of which `kept` is the digest."""
    return kept != digest and (kept, status) != (ANY_CONTENT, COMPLETE)


def refused_claim(
    row: Item, message_id: str, claimed_by: str, digest: str, now: int
) -> Claim | Duplicate | Busy | Conflict:
    """Return the answer to a claim that a row refuses."""
    if conflicts(row["payload_hash"], row["status"], digest):
        return Conflict()
    if row["status"] == COMPLETE:
        return Duplicate(from_json(row["result"]), row["consumption_count"], row["claimed_by"])
    if row["claimed_by"] == claimed_by:  # granted before; the answer was lost and the call was made again
        return Claim(message_id, claimed_by, row["consumption_count"], row["lease_until"])
    return Busy(max(0, row["lease_until"] - now))


def refused_commit(row: Item, claim: Claim) -> Committed | Duplicate | Fenced:
    """Return the answer to a commit that a row refuses."""
    if row.get("status") != COMPLETE:
        return Fenced(claim)
    result = from_json(row["result"])
    if row["claimed_by"] == claim.claimed_by:  # our own commit, whose answer was lost
        return Committed(result)
    return Duplicate(result, row["consumption_count"], row["claimed_by"])


def taken(failed: Sequence[tuple[Write, Callable[[], Item]]]) -> Taken:
    """Return the outcome for the writes whose conditions failed, each with what returns the item found.

    The first one answers, if each of them has an `otherwise`.
    """
    answers = [(write.otherwise, found) for write, found in failed]
    otherwise, found = answers[0]
    if otherwise is None or any(each is None for each, _ in answers):
        return Taken()
    return Taken(lambda: otherwise(found()))


class CommitRefused(Exception):
    """DynamoDB cancelled the transaction for a reason that a retry in place does not cure."""


class Message(Protocol):
    """The part of a message that the ledger reads; the decision may read more."""

    @property
    def message_id(self) -> str:
        """The id that the message itself carries."""

    @property
    def payload_hash(self) -> str:
        """A digest of the content: the same id with another digest is a conflict."""


M = TypeVar("M", bound=Message)


class Store(Protocol):
    """The four steps. Times are epoch milliseconds. Each step is one atomic write."""

    surroundings: Surroundings

    def claim(self, message_id: str, payload_hash: str, lease_until: int) -> Claim | Duplicate | Busy | Conflict:
        """Take the right to work on the message until `lease_until`, or say why that is refused."""

    def commit(self, claim: Claim, effects: Effects) -> Committed | Duplicate | Exists | Fenced | Taken:
        """Complete the row and perform all effects, or do nothing and say why."""

    def release(self, claim: Claim) -> bool:
        """End the lease now; the row and its count stay. False if the claim was lost."""

    def extend(self, claim: Claim, lease_until: int) -> bool:
        """Hold the claim until `lease_until` at least. False if it was released or lost.

        It never shortens a lease: an extension may land late, behind a longer one.
        """
