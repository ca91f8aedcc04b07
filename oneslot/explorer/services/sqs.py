"""SQS for the explorer, which itself chooses the deliveries: queues exist by use, and collect what is sent.

It leaves out receiving, queues' settings and delays. A FIFO queue has the name of one, and ContentBasedDeduplication.
"""

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from botocore.exceptions import ClientError

from oneslot.dynamodb_in_memory.answers import answer, refuse, refuse_unknown
from oneslot.explorer.services.account import Account, Answer, Operation, Parameters

REGION, ACCOUNT = "eu-west-2", "111122223333"

MAXIMUM_ENTRIES = 10
"""A batch's limit (API reference, SendMessageBatch)."""

PREFIX = "AWS.SimpleQueueService."
"""Begins the codes that the JSON protocol keeps from the query protocol (`awsQueryCompatible` in the service's model)."""

_ENTRY_ID = re.compile(r"[A-Za-z0-9_-]{1,80}")

SENT = "MessageBody MessageAttributes MessageGroupId MessageDeduplicationId"
"""The parameters of one message."""

MAXIMUM_BYTES = 1_048_576
"""One message's limit, attributes included (API reference, SendMessage)."""

MAXIMUM_ATTRIBUTES = 10
"""One message's limit of attributes (developer guide, message quotas)."""

_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What a message may not include (API reference, SendMessage)."""

DELETED = "sqs/deleted"
"""The container of the SQS ids of messages that the code under test has deleted."""

SEQUENCE_NUMBER = "18870000000000000256"
"""A FIFO queue's number of a message, always the same: a handler that reads it explores one path only."""

_RECEIPT = re.compile(r"receipt-(sqs-[0-9a-f-]+)-of-.*")


def queue_url(name: str) -> str:
    """Return the URL of the account's queue with this name."""
    return f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/{name}"


def perform_batch(name: str, request: Mapping[str, Any], perform: Callable[[Mapping[str, Any]], Answer]) -> Answer:
    """Perform each entry, and return those that succeeded and those that were refused."""
    refuse_unknown(name, request, "QueueUrl Entries")
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


def check_entries(name: str, entries: Sequence[Mapping[str, Any]], prefix: str = PREFIX) -> None:
    """Raise the refusal of a whole batch of SQS or SNS: empty, too long, with an invalid or a repeated id."""
    if not entries:
        refuse(name, prefix + "EmptyBatchRequest", "There should be at least one entry in the request.")
    if len(entries) > MAXIMUM_ENTRIES:
        refuse(name, prefix + "TooManyEntriesInBatchRequest", "Maximum number of entries per request are 10.")
    ids = [entry["Id"] for entry in entries]
    if not all(map(_ENTRY_ID.fullmatch, ids)):
        refuse(name, prefix + "InvalidBatchEntryId", "A batch entry id has 1 to 80 letters, digits, - and _.")
    for at, entry_id in enumerate(ids):
        if entry_id in ids[:at]:
            refuse(name, prefix + "BatchEntryIdsNotDistinct", f"Id {entry_id} repeated.")


def refuse_value(name: str, parameter: str, value: Any, reason: str) -> NoReturn:
    """Raise the refusal of a parameter's value."""
    refuse(name, "InvalidParameterValue", f"Value {value} for parameter {parameter} is invalid. Reason: {reason}")


def size_of(entry: Mapping[str, Any]) -> int:
    """Return the bytes that SQS counts for a message: body, and names, types and values of its attributes."""
    size = len(entry["MessageBody"].encode("utf-8", "surrogatepass"))
    for name, value in entry.get("MessageAttributes", {}).items():
        content = value["StringValue"].encode() if "StringValue" in value else value.get("BinaryValue", b"")
        size += len(name.encode()) + len(value["DataType"].encode()) + len(content)
    return size


def check_content(entry: Mapping[str, Any], maximum: int) -> None:
    """Raise the refusal of a message whose body, attributes or size SQS does not accept."""
    name = "SendMessage"
    body, attributes = entry["MessageBody"], entry.get("MessageAttributes", {})
    if not body:
        refuse(name, "MissingParameter", "The request must contain the parameter MessageBody.")
    if _FORBIDDEN.search(body):
        refuse(name, "InvalidMessageContents", "Invalid characters found. Valid unicode characters are #x9 | #xA | #xD")
    if len(attributes) > MAXIMUM_ATTRIBUTES:
        message = f"Number of message attributes [{len(attributes)}] exceeds the allowed maximum"
        refuse(name, "InvalidParameterValue", message)
    for attribute, value in attributes.items():
        if not (value.get("StringValue") or value.get("BinaryValue")):
            refuse(
                name, "InvalidParameterValue", f"Message (user) attribute '{attribute}' must contain a non-empty value"
            )
    if size_of(entry) > maximum:
        reason = f"One or more parameters are invalid. Reason: Message must be shorter than {maximum} bytes."
        refuse(name, "InvalidParameterValue", reason)


def digest(text: str) -> str:
    """Return the MD5 that SQS answers for a body."""
    return hashlib.md5(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()


def check_batch_size(entries: Sequence[Mapping[str, Any]]) -> None:
    """Raise the refusal of a batch whose messages are too long together."""
    size = sum(size_of(entry) for entry in entries)
    if size > MAXIMUM_BYTES:
        message = f"Batch requests cannot be longer than {MAXIMUM_BYTES} bytes. You have sent {size} bytes."
        refuse("SendMessageBatch", PREFIX + "BatchRequestTooLong", message)


def deduplication_id(entry: Mapping[str, Any], *, fifo: bool, content_based: bool = True) -> str | None:
    """Return the id by which a FIFO queue knows a copy, None for a standard queue; or raise the message's refusal."""
    refuse_unknown("SendMessage", entry, SENT)
    token = entry.get("MessageDeduplicationId")
    if not fifo:
        if token is not None:
            refuse_value("SendMessage", "MessageDeduplicationId", token, "The queue is not a FIFO queue.")
        return None
    if not entry.get("MessageGroupId"):
        refuse("SendMessage", "MissingParameter", "The request must contain the parameter MessageGroupId.")
    if token is None and not content_based:
        reason = "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided"
        refuse("SendMessage", "InvalidParameterValue", reason)
    return token or hashlib.sha256(entry["MessageBody"].encode()).hexdigest()


def send_message(account: Account, parameters: Parameters) -> Answer:
    """Send a message."""
    return answer(_send(account, parameters["QueueUrl"], _without("QueueUrl", parameters)))


def send_message_batch(account: Account, parameters: Parameters) -> Answer:
    """Send up to ten messages of one mebibyte together, in their order."""
    check_batch_size(parameters["Entries"])
    url = parameters["QueueUrl"]
    return perform_batch("SendMessageBatch", parameters, lambda entry: _send(account, url, _without("Id", entry)))


def get_queue_url(account: Account, parameters: Parameters) -> Answer:
    """Return the URL of the queue with this name."""
    refuse_unknown("GetQueueUrl", parameters, "QueueName QueueOwnerAWSAccountId")
    return answer({"QueueUrl": queue_url(parameters["QueueName"])})


def change_message_visibility(account: Account, parameters: Parameters) -> Answer:
    """Accept and ignore it, because the explorer may deliver a copy at any time."""
    refuse_unknown("ChangeMessageVisibility", parameters, "QueueUrl ReceiptHandle VisibilityTimeout")
    return answer({})


def change_message_visibility_batch(account: Account, parameters: Parameters) -> Answer:
    """Accept and ignore them, as above."""
    return perform_batch("ChangeMessageVisibilityBatch", parameters, lambda entry: {})


def delete_message(account: Account, parameters: Parameters) -> Answer:
    """Delete a delivered message: it need not be delivered again."""
    return answer(_delete(account, parameters))


def delete_message_batch(account: Account, parameters: Parameters) -> Answer:
    """Delete up to ten messages."""
    return perform_batch("DeleteMessageBatch", parameters, lambda entry: _delete(account, entry))


def _without(name: str, parameters: Parameters) -> dict[str, Any]:
    return {one: value for one, value in parameters.items() if one != name}


def _delete(account: Account, entry: Parameters) -> Answer:
    found = _RECEIPT.fullmatch(entry["ReceiptHandle"])
    if found is None:
        reason = "The input receipt handle is invalid."
        refuse_value("DeleteMessage", "ReceiptHandle", entry["ReceiptHandle"], reason)
    account.state.setdefault(DELETED, {})[found[1]] = True
    return {}


def _send(account: Account, url: str, entry: Parameters) -> Answer:
    check_content(entry, MAXIMUM_BYTES)
    token = deduplication_id(entry, fifo=url.endswith(".fifo"))
    messages = account.sent.setdefault(url, [])

    def send() -> str:
        messages.append(entry)
        return f"sent-{len(messages) - 1 + account.first_id}"

    md5 = digest(entry["MessageBody"])
    if token is None:
        return {"MessageId": send(), "MD5OfMessageBody": md5}
    return {"MessageId": account.once(url, token, send), "MD5OfMessageBody": md5, "SequenceNumber": SEQUENCE_NUMBER}


_SENDS = (send_message, send_message_batch, get_queue_url)
_ALL = (*_SENDS, change_message_visibility, change_message_visibility_batch, delete_message, delete_message_batch)
OPERATIONS: dict[str, Operation] = {f"sqs.{operation.__name__}": operation for operation in _ALL}
