"""What a person is told of an error."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from socket import gaierror

from botocore.exceptions import BotoCoreError, ClientError, EndpointConnectionError, NoCredentialsError, NoRegionError

from oneslot.errors import OneslotError
from oneslot.local.aws.connection import LOCAL_ACCOUNT
from oneslot.local.errors import LocalRunError
from oneslot.pipeline.vocabulary import counted
from oneslot.target import format_command, home_folder

DEBUG_VARIABLE = "ONESLOT_DEBUG"
SHORT = "See what this machine has and allows (ulimit -a, free), and run the command again."
NO_QUEUE = ("AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist")
BAD_CREDENTIALS = ("InvalidClientTokenId", "UnrecognizedClientException")


def numbered(count: int, noun: str) -> str:
    """Return the count and what is counted: `1 slot`, `2,000 slots`. `noun` is one whose plural has an s."""
    return counted(count, noun, f"{noun}s")


def how_to_restore(command: Callable[[str], str]) -> str:
    """Return where the repair of a stack stands that lacks a part; `command` is `Target.command`."""
    return (
        f"`{command('env')}` has their names, `aws dynamodb list-tables` what is there; "
        "docs/runbooks/failed-deliveries.md says how to get a table back."
    )


def sentence(error: Exception, stack: str | None = None) -> str:
    """Return what to tell the person: what is wrong, and what to do. `stack` is what they gave to `--stack`, if they did."""
    match error:
        case OneslotError() | LocalRunError():
            told = str(error)
        case EndpointConnectionError():
            endpoint = error.kwargs["endpoint_url"]
            right = "Is it running" if stack is None else "Is its region the right one (AWS_DEFAULT_REGION)"
            told = f"Cannot reach {endpoint}. {right}, and is this machine online? See `{format_command('status', stack)}`."
        case NoCredentialsError():
            told = "There are no AWS credentials. Set AWS_PROFILE, or sign in: aws sso login."
        case NoRegionError():
            told = "There is no AWS region. Set AWS_DEFAULT_REGION, e.g. to eu-west-2."
        case ClientError():
            about = error.response["Error"]
            told = f"AWS refused {error.operation_name}: {about.get('Code')}: {about.get('Message')}"
            if about.get("Code") == "ResourceNotFoundException":
                restored = how_to_restore(lambda verb: format_command(verb, stack))
                which = f"`{format_command('status', stack)}` says which table is missing."
                told += f". A table, or another part of the stack, is gone. {which} {restored}"
            if about.get("Code") in NO_QUEUE:
                told += (
                    f" A queue of the stack is gone, and what waited in it: `{format_command('env', stack)}` has their names. "
                    "docs/runbooks/stalled.md says how to make it again, and what is then sent again."
                )
            if about.get("Code") in BAD_CREDENTIALS and os.environ.get("AWS_ACCESS_KEY_ID") == LOCAL_ACCOUNT:
                told += " This shell has the local stack's credentials, by `oneslot env`: open another one."
        case BotoCoreError():
            told = f"AWS cannot be used: {error}"
        case _:
            # A message of an unforeseen error may quote a value, so only its class is shown.
            told = _of_the_machine(error) or (
                f"Unexpected {type(error).__name__}. This is a fault in Oneslot: run the command again with "
                f"{DEBUG_VARIABLE}=1 in the environment to see where, and report it."
            )
    return with_notes(told, error)


def _of_the_machine(error: Exception) -> str | None:  # noqa: PLR0911 - one return for each lack
    """What to tell of a machine that lacks or refuses something; None if that is not what is wrong."""
    match error:
        case OSError(filename=str() as path, strerror=str() as problem):
            return f"{path} cannot be used: {problem}. Put that right, and run the command again."
        case OSError(errno=errno.ENOSPC | errno.EDQUOT | errno.EFBIG | errno.EIO, strerror=str() as problem):
            written = f"The output, or a file in {home_folder()}, cannot be written: {problem}."
            return f"{written} Put that right, and run the command again."
        case gaierror():
            lacks = "This machine has no address for a name that is needed here, localhost perhaps"
            return f"{lacks}: {error.strerror}. Put it into /etc/hosts, and run the command again."
        case OSError(strerror=str() as problem):
            return f"{problem}. {SHORT}"
        case MemoryError():
            return f"There is no memory left. {SHORT}"
        case RuntimeError() if str(error) == "can't start new thread":  # Python has no class for it
            return f"The system allows no more threads. {SHORT}"
    return None


def with_notes(told: str, error: BaseException) -> str:
    """Add what was noted on the way of an error or an interrupt: what was done until then."""
    return " ".join([told, *getattr(error, "__notes__", ())])
