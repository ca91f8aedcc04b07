"""One scripted SQS client: it keeps every call, answers batches from a script, and has a clock that only sleeping moves."""

from collections.abc import Callable, Sequence
from typing import Any

from oneslot.runtime.surroundings import Surroundings

Entries = Sequence[dict[str, Any]]
Fate = str | tuple[str, bool] | None
"""Of one entry: `ACCEPTED`; None if the answer leaves it out; or its error code and whether that is the sender's fault."""
Step = Callable[[Entries], Sequence[Fate]]
"""Answers one call with the fate of each entry, or raises."""

ACCEPTED = "accepted"


def all_but(position: int, fate: Fate = None) -> Step:
    """Accept every entry but the one at this position, which has this fate."""
    return lambda entries: [fate if at == position else ACCEPTED for at in range(len(entries))]


def fail(error: Exception) -> Step:
    """Raise this error instead of an answer."""

    def step(_entries: Entries) -> Sequence[Fate]:
        raise error

    return step


class ScriptedSqs:
    """An SQS client. Batches follow the script call by call, then `fate` by the number of the entry, from 1.

    Attributes:
        calls: pairs of operation and request, in the order of the calls.
    """

    def __init__(self, *script: Step, fate: Callable[[int], Fate] = lambda _: ACCEPTED, fifo: bool = False) -> None:
        self._script = list(script)
        self._fate = fate
        self.url = "https://sqs.eu-west-2.amazonaws.com/111122223333/requests" + (".fifo" if fifo else "")
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.accepted: list[dict[str, Any]] = []
        self.slept: list[float] = []

    @property
    def requests(self) -> list[dict[str, Any]]:
        """The requests of all calls, in order."""
        return [request for _, request in self.calls]

    @property
    def batches(self) -> list[list[dict[str, Any]]]:
        """The entries of each batch."""
        return [request["Entries"] for name, request in self.calls if name.endswith("_batch")]

    def change_message_visibility(self, **request: Any) -> None:
        """Record the request."""
        self.calls.append(("change_message_visibility", request))

    def send_message(self, **request: Any) -> None:
        """Record the request."""
        self.calls.append(("send_message", request))

    def send_message_batch(self, **request: Any) -> dict[str, Any]:
        """Record the request, and answer it."""
        return self._batch("send_message_batch", request)

    def delete_message_batch(self, **request: Any) -> dict[str, Any]:
        """Record the request, and answer it."""
        return self._batch("delete_message_batch", request)

    def _batch(self, name: str, request: dict[str, Any]) -> dict[str, Any]:
        assert request["QueueUrl"] == self.url
        entries: list[dict[str, Any]] = request["Entries"]
        before = sum(map(len, self.batches))
        self.calls.append((name, request))
        numbers = range(before + 1, before + len(entries) + 1)
        fates = self._script.pop(0)(entries) if self._script else list(map(self._fate, numbers))
        answer: dict[str, Any] = {}
        for entry, fate in zip(entries, fates, strict=True):
            if fate == ACCEPTED:
                self.accepted.append(entry)
                success = {"Id": entry["Id"], "MessageId": f"sqs-{len(self.accepted)}"}
                answer.setdefault("Successful", []).append(success)
            elif fate is not None:
                failure = {"Id": entry["Id"], "Code": fate[0], "SenderFault": fate[1]}
                answer.setdefault("Failed", []).append(failure)
        return answer

    @property
    def surroundings(self) -> Surroundings:
        """A clock that sleeping moves, and a jitter of 1, so that every pause is as long as it can be."""
        return Surroundings(now_ms=lambda: round(sum(self.slept) * 1000), sleep=self.slept.append, jitter=lambda: 1.0)

    def bodies(self, group: str | None = None) -> list[str]:
        """Return the accepted bodies in their order, of one group or of all."""
        return [
            entry["MessageBody"] for entry in self.accepted if group is None or entry.get("MessageGroupId") == group
        ]

    def attempts(self) -> list[list[str]]:
        """Return the bodies of each call."""
        return [[entry["MessageBody"] for entry in call] for call in self.batches]
