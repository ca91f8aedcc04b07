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
    """Return the file and line of the failure: the last frame outside libraries, else the last frame. None without one."""
    last = None
    for frame, line in traceback.walk_tb(error.__traceback__):
        yours = str(frame.f_globals.get("__name__")).partition(".")[0] not in _LIBRARIES
        if yours or last is None or not last[0]:
            last = yours, f"{frame.f_code.co_filename}:{line}"
    return last and last[1]


def own_text(error: BaseException) -> str | None:
    """Return the text of an error of Oneslot's own, which quotes no value; None for any other, and for one without text.

    The text of `Unprocessable` is the consumer's, and goes with the message to its dead-letter queue.
    """
    own = type(error).__module__.partition(".")[0] == __name__.partition(".")[0]
    return str(error) or None if own and not isinstance(error, Unprocessable) else None
