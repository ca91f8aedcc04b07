"""Errors explained: what is wrong, why, and what to do about it."""

import os
from collections.abc import Callable, Sequence
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError, EndpointConnectionError, NoCredentialsError, NoRegionError

from oneslot.errors import (
    AwsRefused,
    AwsUnreachable,
    AwsUnusable,
    ConsumerFailed,
    ExtraMissing,
    InvalidCredentials,
    NoCredentials,
    NoRegion,
    OneslotError,
    SystemRefused,
    Unexpected,
    how_to_install,
    name_fault,
    place_in_your_code,
)
from oneslot.local.aws.connection import LOCAL_ACCOUNT
from oneslot.operator.target import format_command
from oneslot.runtime.failures import BAD_CREDENTIALS, KEY_REFUSED, NO_QUEUE, SIGNED_OUT, lacks_credentials

DEBUG_VARIABLE = "ONESLOT_DEBUG"
NO_TABLE = "ResourceNotFoundException"
SIGN_IN = "Sign in again (aws sso login), or set AWS_PROFILE."
OTHER_REGION = "If it is in another region, set AWS_DEFAULT_REGION."


def explain(error: Exception, stack: str | None = None) -> OneslotError:
    """Return an error whose text says what is wrong and what to do.

    `stack` is the value of `--stack`, which the commands in the text repeat.
    """
    if isinstance(error, OneslotError):
        return error
    explained = _explain(error, stack)
    for note in notes_of(error):
        explained.add_note(note)
    return explained


def _explain(error: Exception, stack: str | None) -> OneslotError:  # noqa: PLR0911 - one return for each kind
    match error:
        case EndpointConnectionError():
            check = "Check that it is running" if stack is None else "Check its region (AWS_DEFAULT_REGION)"
            endpoint, status = error.kwargs["endpoint_url"], format_command("status", stack)
            return AwsUnreachable(
                f"Cannot reach {endpoint}. {check} and that this machine is online, then see `{status}`."
            )
        case NoCredentialsError():
            return NoCredentials(
                f"{_before_lookup(stack)}There are no AWS credentials. Set AWS_PROFILE, or sign in: aws sso login."
            )
        case NoRegionError():
            return NoRegion(
                f"{_before_lookup(stack)}There is no AWS region. Set AWS_DEFAULT_REGION, e.g. to eu-west-2."
            )
        case ClientError():
            return AwsRefused(_explain_refusal(error, lambda verb: format_command(verb, stack)))
        case BotoCoreError() if lacks_credentials(error):
            return InvalidCredentials(f"The AWS credentials are incomplete or have expired: {error} {SIGN_IN}")
        case BotoCoreError():
            return AwsUnusable(f"AWS cannot be used: {error}")
        case OSError(filename=str() as path, strerror=str() as problem):
            return SystemRefused(f"{path} cannot be used: {problem}. Correct that, and run the command again.")
        case OSError(strerror=str() as problem):
            return SystemRefused(f"The operating system refused: {problem}. Correct that, and run the command again.")
        case ModuleNotFoundError() if missing := how_to_install(error):
            return ExtraMissing(f"This needs an extra of Oneslot: {missing}")
    # The message of an unforeseen error may quote a patient's data, so only its class and place are shown.
    if place_in_your_code(error):
        return ConsumerFailed(
            f"The consumer's own code raised {name_fault(error)}. Correct it, and run the command again; "
            f"{DEBUG_VARIABLE}=1 in the environment shows the traceback."
        )
    return Unexpected(
        f"Unexpected {type(error).__name__}: this is a fault in Oneslot. "
        f"Run the command again with {DEBUG_VARIABLE}=1 in the environment, and report the traceback."
    )


def _before_lookup(stack: str | None) -> str:
    """Return that a stack was not looked up: its name may be wrong as well."""
    return "" if stack is None else f"The stack {stack!r} on AWS was not looked up. "


def how_to_restore(command: Callable[[str], str]) -> str:
    """Return how to restore a stack that lacks a part. `command` is `Target.command`."""
    return (
        f"Compare `{command('env')}` with `aws dynamodb list-tables`; "
        "`oneslot docs runbooks#restore-a-deleted-table` has the steps."
    )


def notes_of(error: BaseException) -> Sequence[str]:
    """Return the notes of an error or interrupt, which say what was done until then."""
    notes: Sequence[str] = getattr(error, "__notes__", ())
    return notes


def _explain_refusal(error: ClientError, command: Callable[[str], str]) -> str:
    about: Any = error.response["Error"]
    code = about.get("Code")
    text = f"AWS refused {error.operation_name}: {code}: {about.get('Message')}"
    if code == NO_TABLE:
        text += (
            f". Part of the stack is missing: `{command('status')}` says which table. {OTHER_REGION} "
            f"{how_to_restore(command)}"
        )
    if code in NO_QUEUE:
        text += (
            f" {OTHER_REGION} A queue of the stack and its messages are gone otherwise: `{command('env')}` names the queues. "
            "`oneslot docs runbooks#create-a-deleted-queue-again` says how to restore it and which requests to send again."
        )
    if code in SIGNED_OUT:
        text += f" {SIGN_IN}"
    if code in KEY_REFUSED:
        text += (
            " The queue's KMS key refuses: enable it, and allow your role kms:GenerateDataKey and kms:Decrypt on it, in its "
            "key policy as well."
        )
    if code in BAD_CREDENTIALS and os.environ.get("AWS_ACCESS_KEY_ID") == LOCAL_ACCOUNT:
        text += " This shell has the local stack's credentials from `oneslot env`. Open another shell."
    return text
