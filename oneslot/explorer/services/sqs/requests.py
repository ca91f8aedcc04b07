"""What SQS refuses in a request before it looks at a message, and how it answers a batch."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from botocore.exceptions import ClientError

from oneslot.dynamodb_in_memory.answers import UnsupportedRequest, answer, refuse

Answer = Mapping[str, Any]

REGION, ACCOUNT = "eu-west-2", "111122223333"

MAXIMUM_ENTRIES = 10
"""A batch's limit (API reference, SendMessageBatch)."""

MAXIMUM_TIMEOUT_SECONDS = 43_200
"""A visibility timeout's limit (API reference, ChangeMessageVisibility)."""

PREFIX = "AWS.SimpleQueueService."
"""Begins the codes that the JSON protocol keeps from the query protocol (`awsQueryCompatible` in the service's model)."""

_ENTRY_ID = re.compile(r"[A-Za-z0-9_-]{1,80}")


def queue_url(name: str) -> str:
    """Return the URL of the account's queue with this name."""
    return f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/{name}"


def perform_batch(name: str, request: Mapping[str, Any], perform: Callable[[Mapping[str, Any]], Answer]) -> Answer:
    """Perform each entry, and return those that succeeded and those that were refused."""
    refuse_others(request, frozenset({"QueueUrl", "Entries"}))
    entries = request["Entries"]
    check_entries(name, entries)
    done: list[dict[str, Any]] = []
    failed: list[dict[str, Any]] = []
    for entry in entries:
        try:
            done.append({"Id": entry["Id"], **perform(entry)})
        except ClientError as error:
            failed.append({"Id": entry["Id"], "SenderFault": True, **error.response["Error"]})
    lists = {"Successful": done, "Failed": failed}
    return answer({name: entries for name, entries in lists.items() if entries})


def check_entries(name: str, entries: Sequence[Mapping[str, Any]]) -> None:
    """Raise the refusal of a whole batch: empty, too long, with an invalid or a repeated id."""
    if not entries:
        refuse(name, PREFIX + "EmptyBatchRequest", "There should be at least one entry in the request.")
    if len(entries) > MAXIMUM_ENTRIES:
        refuse(name, PREFIX + "TooManyEntriesInBatchRequest", "Maximum number of entries per request are 10.")
    ids = [entry["Id"] for entry in entries]
    if not all(map(_ENTRY_ID.fullmatch, ids)):
        refuse(name, PREFIX + "InvalidBatchEntryId", "A batch entry id has 1 to 80 letters, digits, - and _.")
    for at, entry_id in enumerate(ids):
        if entry_id in ids[:at]:
            refuse(name, PREFIX + "BatchEntryIdsNotDistinct", f"Id {entry_id} repeated.")


def timeout_ms(name: str, seconds: int) -> int:
    """Return a visibility timeout in milliseconds, or raise its refusal."""
    if not 0 <= seconds <= MAXIMUM_TIMEOUT_SECONDS:
        refuse_value(name, "VisibilityTimeout", seconds, "VisibilityTimeout must be an integer between 0 and 43200")
    return seconds * 1000


def refuse_others(request: Mapping[str, Any], known: frozenset[str]) -> None:
    """Raise `UnsupportedRequest` for parameters other than the known ones."""
    if not request.keys() <= known:
        raise UnsupportedRequest(f"parameters {sorted(set(request) - known)}")


def refuse_value(name: str, parameter: str, value: Any, reason: str) -> NoReturn:
    """Raise the refusal of a parameter's value."""
    refuse(name, "InvalidParameterValue", f"Value {value} for parameter {parameter} is invalid. Reason: {reason}")


def refuse_missing_queue(name: str) -> NoReturn:
    """Raise the refusal of a queue that does not exist."""
    refuse(name, PREFIX + "NonExistentQueue", "The specified queue does not exist.")
