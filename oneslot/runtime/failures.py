"""What a log may say of an error: its name, its place, and the text of Oneslot's own errors. Other texts may quote a value."""

from __future__ import annotations

import sys
import traceback

from oneslot.runtime.effects import Unprocessable
from oneslot.runtime.stores.expressions import error_code

_LIBRARIES = sys.stdlib_module_names | {"aws_lambda_powertools", "boto3", "botocore", "oneslot", "redis", "urllib3"}


def name_of(error: BaseException) -> str:
    """Return an AWS error's code, or the class of any other error."""
    return error_code(error) or type(error).__name__


def place_of(error: BaseException) -> str | None:
    """Return the last file and line of the user's own code, else the call of AWS, else the last line. None without one."""
    last = yours = None
    for frame, line in traceback.walk_tb(error.__traceback__):
        last = f"{frame.f_code.co_filename}:{line}"
        if str(frame.f_globals.get("__name__")).partition(".")[0] not in _LIBRARIES:
            yours = last
    return yours or (last and getattr(error, "operation_name", last))


def own_text(error: BaseException) -> str | None:
    """Return the text of an error of Oneslot's own, which quotes no value; None for any other, and for one without text.

    The text of `Unprocessable` is the consumer's, and goes with the message to its dead-letter queue.
    """
    own = type(error).__module__.partition(".")[0] == __name__.partition(".")[0]
    return str(error) or None if own and not isinstance(error, Unprocessable) else None
