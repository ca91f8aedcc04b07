"""The faults of a ledger's calls: one of each kind that its code can tell apart, and those that one delivery must survive."""

from oneslot.explorer.faults import ANSWERED, CRASHES, LATER, LOST, NEVER, NOW, TIMED_OUT, Choice, error_choice
from oneslot.explorer.world import ApiCall, error_text

READS = ("get_item", "batch_get_item", "query", "scan")
QUEUE_CALLS = ("send_message", "change_message_visibility")

THROTTLED = error_choice("ProvisionedThroughputExceededException")
DENIED = error_choice("AccessDeniedException")
SERVER_ERROR = error_choice("InternalServerError", LATER)
IN_CONFLICT = error_choice("TransactionConflictException")

TRANSIENT_CODES = (
    "TransactionConflictException",
    "TransactionInProgressException",
    "ProvisionedThroughputExceededException",
    "ThrottlingException",
    "RequestLimitExceeded",
    "InternalServerError",
)
TRANSIENT_REASONS = ("TransactionConflict", "ProvisionedThroughputExceeded", "ThrottlingError")


def refused_transaction(code: str, item: int, items: int) -> Choice:
    """Return the cancellation of a transaction of `items` items, with this code at one of them (from 0)."""
    reasons: list[dict[str, str]] = [{"Code": "None"} for _ in range(items)]
    reasons[item] = {"Code": code, "Message": "injected"}
    text = error_text(
        {"Error": {"Code": "TransactionCanceledException", "Message": "injected"}, "CancellationReasons": reasons}
    )
    return Choice(f"cancelled: {code} at item {item + 1} of {items}", NEVER, ANSWERED, text)


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
