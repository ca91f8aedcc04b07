"""Injected faults: a call is performed now, later or never, and its caller sees an answer, an error or nothing, or dies.

The SDK's own retries are included. After a silence it sends the same request again, unseen by the code under test, which
sees an error only when all attempts fail.
"""

from __future__ import annotations

from dataclasses import dataclass

from oneslot.explorer.world import TRANSIENT_CONFLICT, UNANSWERED, ApiCall, error_text

NOW, LATER, NEVER = "now", "later", "never"
ANSWERED, SILENCE, DEATH = "answered", "silence", "death"


@dataclass(frozen=True, slots=True)
class Choice:
    """One fate of a call.

    Attributes:
        name: its name in a path.
        performed: NOW, LATER (it is in the network and lands at any later time) or NEVER.
        seen: ANSWERED (by the service, or with `observation`), SILENCE (the SDK sends it again) or DEATH.
        observation: the answer that the caller sees instead of the service's.
        conflict: the item of a transaction that another transaction holds, as the service answers.
        is_fault: whether it counts against the budget.
    """

    name: str
    performed: str = NOW
    seen: str = ANSWERED
    observation: str | None = None
    conflict: int | None = None
    is_fault: bool = True


PERFORMED = Choice("performed", is_fault=False)

CRASHES = (
    Choice("crash before it is sent", NEVER, DEATH),
    Choice("crash, and the request is on its way", LATER, DEATH),
)
LOST = (
    Choice("response lost; the SDK sends it again", NOW, SILENCE),
    Choice("no answer; the SDK sends it again, and the first one lands late", LATER, SILENCE),
)
READS = ("get_item", "batch_get_item", "query", "scan")
QUEUE_CALLS = ("send_message", "change_message_visibility")


def error_choice(code: str, performed: str = NEVER) -> Choice:
    """Return an error after all of the SDK's attempts, whether or not the service performs the call."""
    text = error_text({"Error": {"Code": code, "Message": "injected"}})
    landing = {NEVER: "", NOW: ", and yet performed", LATER: ", and yet the request is on its way"}[performed]
    return Choice(f"{code}{landing}", performed, ANSWERED, text)


def refused_transaction(code: str, item: int, items: int) -> Choice:
    """Return the cancellation of a transaction of `items` items, with this code at one of them (from 0)."""
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


def all_faults(request: ApiCall) -> tuple[Choice, ...]:
    """Return every fault of a call, one of each kind that the code can tell apart."""
    operation, parameters = request.parts
    if operation in READS:
        return (CRASHES[0], THROTTLED, DENIED)
    if operation in QUEUE_CALLS:
        return (*CRASHES, *LOST, DENIED)
    if operation == "transact_write_items":
        items = len(parameters["TransactItems"])
        conflicts: tuple[Choice, ...] = tuple(
            Choice(f"TransactionConflict at item {item + 1} of {items}", NEVER, ANSWERED, conflict=item)
            for item in range(items)
        )
    else:
        conflicts = (IN_CONFLICT,)
    return (*CRASHES, *LOST, *conflicts, THROTTLED, SERVER_ERROR, TIMED_OUT, DENIED)


def mild_faults(request: ApiCall) -> tuple[Choice, ...]:
    """Return the faults of a write that one delivery must survive (E1): transient errors and lost answers."""
    operation, parameters = request.parts
    if operation in READS:
        return ()  # the SDK repeats a read; if that fails, the record fails and its message is redelivered
    if operation in QUEUE_CALLS:
        return LOST
    errors = (error_choice(code, when) for code in TRANSIENT_CODES for when in (NEVER, NOW))
    mild = [*LOST, TIMED_OUT, SERVER_ERROR, *errors]
    if operation == "transact_write_items":
        items = len(parameters["TransactItems"])
        mild += [refused_transaction(code, item, items) for code in TRANSIENT_REASONS for item in range(items)]
    return tuple(mild)
