"""Errors explained: what is wrong, why, and what to do about it."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError, EndpointConnectionError, NoCredentialsError, NoRegionError

from oneslot.errors import OneslotError, how_to_install, name_fault, place_in_your_code
from oneslot.local.aws.connection import LOCAL_ACCOUNT
from oneslot.runtime.sqs.errors import BAD_CREDENTIALS, KEY_REFUSED, NO_QUEUE, SIGNED_OUT, lacks_credentials
from oneslot.target import format_command

DEBUG_VARIABLE = "ONESLOT_DEBUG"
NO_TABLE = "ResourceNotFoundException"
SIGN_IN = "Sign in again (aws sso login), or set AWS_PROFILE."
OTHER_REGION = "If it is in another region, set AWS_DEFAULT_REGION."


def explain(error: Exception, stack: str | None = None) -> str:
    """Return what is wrong and what to do. `stack` is the value of `--stack`, which the commands in the text repeat."""
    match error:
        case OneslotError():
            text = str(error)
        case EndpointConnectionError():
            check = "Check that it is running" if stack is None else "Check its region (AWS_DEFAULT_REGION)"
            endpoint, status = error.kwargs["endpoint_url"], format_command("status", stack)
            text = f"Cannot reach {endpoint}. {check} and that this machine is online, then see `{status}`."
        case NoCredentialsError():
            text = f"{_before_lookup(stack)}There are no AWS credentials. Set AWS_PROFILE, or sign in: aws sso login."
        case NoRegionError():
            text = f"{_before_lookup(stack)}There is no AWS region. Set AWS_DEFAULT_REGION, e.g. to eu-west-2."
        case ClientError():
            text = _explain_refusal(error, lambda verb: format_command(verb, stack))
        case BotoCoreError() if lacks_credentials(error):
            text = f"The AWS credentials are incomplete or have expired: {error} {SIGN_IN}"
        case BotoCoreError():
            text = f"AWS cannot be used: {error}"
        case OSError(filename=str() as path, strerror=str() as problem):
            text = f"{path} cannot be used: {problem}. Correct that, and run the command again."
        case OSError(strerror=str() as problem):
            text = f"The operating system refused: {problem}. Correct that, and run the command again."
        case ModuleNotFoundError() if missing := how_to_install(error):
            text = f"This needs an extra of Oneslot: {missing}"
        # The message of an unforeseen error may quote a patient's data, so only its class and place are shown.
        case _ if place_in_your_code(error):
            text = (
                f"The consumer's own code raised {name_fault(error)}. Correct it, and run the command again; "
                f"{DEBUG_VARIABLE}=1 in the environment shows the traceback."
            )
        case _:
            text = (
                f"Unexpected {type(error).__name__}: this is a fault in Oneslot. "
                f"Run the command again with {DEBUG_VARIABLE}=1 in the environment, and report the traceback."
            )
    return with_notes(text, error)


def _before_lookup(stack: str | None) -> str:
    """Return that a stack was not looked up: its name may be wrong as well."""
    return "" if stack is None else f"The stack {stack!r} on AWS was not looked up. "


def how_to_restore(command: Callable[[str], str]) -> str:
    """Return how to restore a stack that lacks a part. `command` is `Target.command`."""
    return (
        f"Compare `{command('env')}` with `aws dynamodb list-tables`; "
        "docs/do/runbooks.md#restore-a-deleted-table has the steps."
    )


def with_notes(text: str, error: BaseException) -> str:
    """Return `text` with the notes of an error or interrupt, which say what was done until then."""
    return " ".join([text, *getattr(error, "__notes__", ())])


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
            "docs/do/runbooks.md#create-a-deleted-queue-again says how to restore it and which requests to send again."
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
