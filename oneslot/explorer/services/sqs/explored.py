"""SQS for the explorer, which itself chooses the deliveries: queues exist by use, and collect what is sent.

It leaves out receiving, queues' settings and delays. A FIFO queue has the name of one, and ContentBasedDeduplication.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from oneslot.dynamodb_in_memory.answers import answer, refuse_unknown
from oneslot.explorer.services.account import Account, Operation
from oneslot.explorer.services.sqs.requests import (
    MAXIMUM_BYTES,
    Answer,
    check_batch_size,
    check_content,
    deduplication_id,
    digest,
    perform_batch,
    queue_url,
    refuse_value,
)

DELETED = "sqs/deleted"
"""The container of the SQS ids of messages that the code under test has deleted."""

SEQUENCE_NUMBER = "18870000000000000256"
"""A FIFO queue's number of a message, always the same: a handler that reads it explores one path only."""

_RECEIPT = re.compile(r"receipt-(sqs-[0-9a-f-]+)-of-.*")


Parameters = Mapping[str, Any]


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


_ALL: tuple[Operation, ...] = (
    send_message,
    send_message_batch,
    get_queue_url,
    change_message_visibility,
    change_message_visibility_batch,
    delete_message,
    delete_message_batch,
)
OPERATIONS: dict[str, Operation] = {f"sqs.{operation.__name__}": operation for operation in _ALL}
