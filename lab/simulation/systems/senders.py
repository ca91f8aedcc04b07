"""What sends to a queue in a simulated world, beside the truth: what the queue accepted, and what its senders know of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from lab.simulation.systems.application import Application, Request
from oneslot.runtime.identity import IDENTITY_ATTRIBUTE


class Accepted:
    """What the queue accepted from clients. The requests become the application's, which must not lose one.

    Attributes:
        ids: the message id of each message in the queue, by its SQS id.
        order: the message ids of each group, in the order in which the queue accepted their first copies.
    """

    def __init__(self, application: Application) -> None:
        self.ids: dict[str, str] = {}
        self.order: dict[str | None, list[str]] = {}
        self._application = application
        application.simulation.observers.append(self._observe)

    def _observe(self, _: str, operation: str, parameters: Mapping[str, Any], answer: Any) -> None:
        if operation != "send_message_batch" or parameters["QueueUrl"] != self._application.queue_url:
            return
        for entry, sqs_message_id in confirmed(parameters, answer):
            if sqs_message_id not in self.ids:  # a FIFO queue answers a dropped copy with the id of the first
                self._accept(entry, sqs_message_id)

    def _accept(self, entry: Mapping[str, Any], sqs_message_id: str) -> None:
        message_id, group = identity(entry), entry.get("MessageGroupId")
        self.ids[sqs_message_id] = message_id
        request = Request(message_id, entry["MessageBody"], group, healthy=True)
        request = self._application.requests.setdefault(message_id, request)
        if not request.copies:
            self.order.setdefault(group, []).append(message_id)
        request.copies.append(sqs_message_id)


def confirmed(parameters: Mapping[str, Any], answer: Any) -> list[tuple[Mapping[str, Any], str]]:
    """Return the entries that an answer to a batch confirms, with their SQS ids; none without an answer."""
    entries = {entry["Id"]: entry for entry in parameters["Entries"]}
    successful = answer.get("Successful", ()) if isinstance(answer, Mapping) else ()
    return [(entries[each["Id"]], each["MessageId"]) for each in successful]


def identity(entry: Mapping[str, Any]) -> str:
    """Return an entry's message id: its attribute, or the field in its body."""
    attribute = entry.get("MessageAttributes", {}).get(IDENTITY_ATTRIBUTE)
    return str(attribute["StringValue"] if attribute else json.loads(entry["MessageBody"])["message_id"])
