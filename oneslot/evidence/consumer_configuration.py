"""What the deployed consumer is told by its environment, as far as the command line must know it."""

from __future__ import annotations

from datetime import datetime

from botocore.exceptions import ClientError

from booking.configuration import FOREVER
from oneslot.errors import OneslotError
from oneslot.target import Target

RETENTION_VARIABLE = "LEDGER_RETENTION_SECONDS"
FORGOTTEN_VARIABLE = "LEDGER_FORGOTTEN_BEFORE"
CONTENT_BASED_VARIABLE = "CONTENT_BASED_DEDUPLICATION"


def ledger_retention_seconds(target: Target) -> int | None:
    """How long the consumer keeps a ledger's row, as it is configured; None for ever. Raises `OneslotError` if it is not."""
    given = _variable(target, RETENTION_VARIABLE)
    if given == FOREVER:
        return None
    if not given.isdecimal():
        raise OneslotError(
            f"The function {target.outputs.consumer_function_name} has no {RETENTION_VARIABLE}: is it Oneslot's consumer?"
        )
    return int(given)


def ledger_forgotten_before(target: Target, now_ms: int) -> int:
    """The moment before which the ledger kept a row for less than it does now, as it is configured: epoch ms, 0 for none.

    Raises `OneslotError` for one that is no moment, or is still to come.
    """
    given = _variable(target, FORGOTTEN_VARIABLE)
    if not given:
        return 0
    try:
        before = datetime.fromisoformat(given)
    except ValueError:
        before = None
    if before is None or before.tzinfo is None:
        raise OneslotError(
            f"The consumer's {FORGOTTEN_VARIABLE} is {given}, which is no moment such as 2026-11-23T14:00:00Z."
        )
    moment = round(before.timestamp() * 1000)
    if moment > now_ms:
        raise OneslotError(
            f"The consumer's {FORGOTTEN_VARIABLE} is {given}, which is still to come: until then no row at all would be "
            "missed. Deploy with the moment from which the ledger keeps its rows for longer (ledger_forgotten_before)."
        )
    return moment


def is_content_based(target: Target) -> bool:
    """Whether the consumer identifies messages without an id by their content; not, if it may not be asked."""
    try:
        return _variable(target, CONTENT_BASED_VARIABLE) == "true"
    except ClientError:
        return False


def _variable(target: Target, name: str) -> str:
    about = target.functions.get_function_configuration(FunctionName=target.outputs.consumer_function_name)
    return str(about.get("Environment", {}).get("Variables", {}).get(name, ""))
