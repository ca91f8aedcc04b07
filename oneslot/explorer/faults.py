"""What may become of one API call: the service performs it now, later or never, and the caller sees an answer, an error,
nothing at all, or dies.

The SDK's own retries are part of this: after a silence it sends the same request again, and the code under test notices
nothing; only when all of its attempts fail does the code see an error.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from oneslot.explorer.world import TRANSIENT_CONFLICT, UNANSWERED, Request, error_text

NOW, LATER, NEVER = "now", "later", "never"
ANSWERED, SILENCE, DEATH = "answered", "silence", "death"


@dataclass(frozen=True, slots=True)
class Choice:
    """One thing that may become of a call.

    Attributes:
        name: how a path names it.
        performed: NOW, LATER (it is in the network, and lands at any later time) or NEVER.
        seen: ANSWERED (by the service, or with `observation`), SILENCE (the SDK sends it again) or DEATH.
        observation: what the caller sees instead of the service's answer.
        conflict: the item of a transaction that another transaction holds; the service answers so.
        is_fault: whether it counts against the budget.
    """

    name: str
    performed: str = NOW
    seen: str = ANSWERED
    observation: str | None = None
    conflict: int | None = None
    is_fault: bool = True


PERFORMED = Choice("performed", is_fault=False)

_CRASHES = (
    Choice("crash before it is sent", NEVER, DEATH),
    Choice("crash, and the request is on its way", LATER, DEATH),
)
_LOST = (
    Choice("response lost; the SDK sends it again", NOW, SILENCE),
    Choice("no answer; the SDK sends it again, and the first one lands late", LATER, SILENCE),
)
READS = ("get_item", "batch_get_item", "query", "scan")
QUEUE_CALLS = ("send_message", "change_message_visibility")


def error_choice(code: str, performed: str = NEVER) -> Choice:
    """The service answers with this error, after all of the SDK's attempts, whether or not it performs the call."""
    text = error_text({"Error": {"Code": code, "Message": "injected"}})
    landing = {NEVER: "", NOW: ", and yet performed", LATER: ", and yet the request is on its way"}[performed]
    return Choice(f"{code}{landing}", performed, ANSWERED, text)


def refused_transaction(code: str, item: int, items: int) -> Choice:
    """The whole transaction of so many items is cancelled with this code at one of them, counted from 0."""
    reasons: list[dict[str, str]] = [{"Code": "None"} for _ in range(items)]
    reasons[item] = {"Code": code, "Message": "injected"}
    text = error_text(
        {"Error": {"Code": "TransactionCanceledException", "Message": "injected"}, "CancellationReasons": reasons}
    )
    return Choice(f"cancelled: {code} at item {item + 1} of {items}", NEVER, ANSWERED, text)


THROTTLED = error_choice("ProvisionedThroughputExceededException")
DENIED = error_choice("AccessDeniedException")
SERVER_ERROR = error_choice("InternalServerError", LATER)
TIMED_OUT = Choice("all attempts time out, and the last one is on its way", LATER, ANSWERED, UNANSWERED)
IN_CONFLICT = error_choice(TRANSIENT_CONFLICT)

TRANSIENT_CODES = (
    "TransactionConflictException",
    "TransactionInProgressException",
    "ProvisionedThroughputExceededException",
    "ThrottlingException",
    "RequestLimitExceeded",
    "InternalServerError",
)
TRANSIENT_REASONS = ("TransactionConflict", "ProvisionedThroughputExceeded", "ThrottlingError")


def all_faults(request: Request) -> tuple[Choice, ...]:
    """Every fault of the issue's list, one representative where the code cannot tell two apart."""
    operation, parameters = request.parts
    if operation in READS:
        return (_CRASHES[0], THROTTLED, DENIED)
    if operation in QUEUE_CALLS:
        return (*_CRASHES, *_LOST, DENIED)
    if operation == "transact_write_items":
        items = len(parameters["TransactItems"])
        conflicts: tuple[Choice, ...] = tuple(
            Choice(f"TransactionConflict at item {item + 1} of {items}", NEVER, ANSWERED, conflict=item)
            for item in range(items)
        )
    else:
        conflicts = (IN_CONFLICT,)
    return (*_CRASHES, *_LOST, *conflicts, THROTTLED, SERVER_ERROR, TIMED_OUT, DENIED)


def mild_faults(request: Request) -> tuple[Choice, ...]:
    """Faults of a write that one delivery must survive by itself (E1): every transient error, and every lost answer."""
    operation, parameters = request.parts
    if operation in READS:
        return ()  # the SDK repeats a read; where that does not mend it, the record fails and its message comes again
    if operation in QUEUE_CALLS:
        return _LOST
    errors = (error_choice(code, when) for code in TRANSIENT_CODES for when in (NEVER, NOW))
    mild = [*_LOST, TIMED_OUT, SERVER_ERROR, *errors]
    if operation == "transact_write_items":
        items = len(parameters["TransactItems"])
        mild += [refused_transaction(code, item, items) for code in TRANSIENT_REASONS for item in range(items)]
    return tuple(mild)


def raising_faults(request: Request) -> tuple[Choice, ...]:
    """A denied read, or a slot that the domain cannot read: an exception in the decision; and throttling of writes."""
    operation, _ = request.parts
    if operation != "query":
        return (THROTTLED,)
    slot: dict[str, Any] = {"practice": {"S": "A81001"}, "slot_id": {"S": "malformed"}}
    text = json.dumps({"answer": {"Items": [slot], "Count": 1}}, sort_keys=True)
    return (DENIED, Choice("the answer holds a malformed slot", NEVER, ANSWERED, text))


def domain_faults(request: Request) -> tuple[Choice, ...]:
    """The same, and a crash or a timeout of what is written."""
    operation, _ = request.parts
    return raising_faults(request) if operation in READS else (_CRASHES[0], TIMED_OUT)
