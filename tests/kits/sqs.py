"""An SQS client that records what it is asked and answers batches from a script."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Entries = list[dict[str, Any]]
Answer = Callable[[Entries], dict[str, Any]]
"""The entries of one batch → SQS's answer. It may raise."""


class ScriptedSqs:
    """An SQS client. Each batch takes the next answer of the script; after the last, every entry is accepted.

    Attributes:
        calls: pairs of operation and request, in the order of the calls.
    """

    def __init__(self, *answers: Answer) -> None:
        self._answers = iter(answers)
        self.calls: list[tuple[str, dict[str, Any]]] = []

    @property
    def requests(self) -> list[dict[str, Any]]:
        """The requests of all calls, in order."""
        return [request for _, request in self.calls]

    def change_message_visibility(self, **request: Any) -> None:
        """Record the request."""
        self.calls.append(("change_message_visibility", request))

    def send_message(self, **request: Any) -> None:
        """Record the request."""
        self.calls.append(("send_message", request))

    def send_message_batch(self, **request: Any) -> dict[str, Any]:
        """Record the request and answer from the script."""
        self.calls.append(("send_message_batch", request))
        return next(self._answers, accept)(request["Entries"])


def accept(entries: Entries) -> dict[str, Any]:
    """Return SQS's answer when it accepts every entry."""
    return {"Successful": [{"Id": entry["Id"], "MessageId": f"sqs-{entry['MessageBody']}"} for entry in entries]}


def all_but(position: int, **failure: Any) -> Answer:
    """Accept all entries but one. That one fails with `failure`, or is missing from the answer."""

    def answer(entries: Entries) -> dict[str, Any]:
        rest = accept([entry for at, entry in enumerate(entries) if at != position])
        if failure:
            rest["Failed"] = [{"Id": entries[position]["Id"], **failure}]
        return rest

    return answer


def fail(error: Exception) -> Answer:
    """Raise `error` instead of an answer."""

    def answer(_entries: Entries) -> dict[str, Any]:
        raise error

    return answer
