"""The settings of a deployed consumer that the evidence depends on, read from its environment variables."""

from __future__ import annotations

from datetime import datetime

from botocore.exceptions import ClientError

from oneslot.errors import InvalidRetention
from oneslot.operator.target import Target

RETENTION_VARIABLE = "ONESLOT_LEDGER_RETENTION_SECONDS"
FORGOTTEN_VARIABLE = "LEDGER_FORGOTTEN_BEFORE"
CONTENT_BASED_VARIABLE = "CONTENT_BASED_DEDUPLICATION"
FOREVER = "forever"
"""The value of `ONESLOT_LEDGER_RETENTION_SECONDS` for rows that never expire."""


def ledger_retention_seconds(target: Target) -> int | None:
    """Return the seconds for which the consumer keeps a ledger row; None for ever. Raises `OneslotError` without a setting."""
    text = _variable(target, RETENTION_VARIABLE)
    if text == FOREVER:
        return None
    if not text.isdecimal():
        raise InvalidRetention(
            f"The function {target.outputs.consumer_function_name} has no {RETENTION_VARIABLE}. "
            "Name a stack whose consumer is Oneslot's."
        )
    return int(text)


def ledger_forgotten_before(target: Target, now_ms: int) -> int:
    """Return the epoch ms before which the ledger kept its rows for a shorter time than now; 0 if it always kept them so.

    Raises `OneslotError` for a setting that is not a time, or a time in the future.
    """
    text = _variable(target, FORGOTTEN_VARIABLE)
    if not text:
        return 0
    try:
        before = datetime.fromisoformat(text)
    except ValueError:
        before = None
    if before is None or before.tzinfo is None:
        raise InvalidRetention(
            f"The consumer's {FORGOTTEN_VARIABLE} is {text}, which is not a time such as 2026-11-23T14:00:00Z. "
            "Deploy with a valid ledger_forgotten_before."
        )
    moment = round(before.timestamp() * 1000)
    if moment > now_ms:
        raise InvalidRetention(
            f"The consumer's {FORGOTTEN_VARIABLE} is {text}, which is in the future, so no missing row would be reported. "
            "Deploy with the time at which the longer retention began (ledger_forgotten_before)."
        )
    return moment


def is_content_based(target: Target) -> bool:
    """Return whether the consumer identifies messages without an id by their content; False if AWS refuses the answer."""
    try:
        return _variable(target, CONTENT_BASED_VARIABLE) == "true"
    except ClientError:
        return False


def _variable(target: Target, name: str) -> str:
    return target.function_variables().get(name, "")
