"""What the deployed consumer is told by its environment, as far as the command line must know it."""

from __future__ import annotations

from botocore.exceptions import ClientError

from configuration import FOREVER
from oneslot.errors import OneslotError
from oneslot.target import Target

RETENTION_VARIABLE = "LEDGER_RETENTION_SECONDS"
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


def is_content_based(target: Target) -> bool:
    """Whether the consumer identifies messages without an id by their content; not, if it may not be asked."""
    try:
        return _variable(target, CONTENT_BASED_VARIABLE) == "true"
    except ClientError:
        return False


def _variable(target: Target, name: str) -> str:
    about = target.functions.get_function_configuration(FunctionName=target.outputs.consumer_function_name)
    return str(about.get("Environment", {}).get("Variables", {}).get(name, ""))
