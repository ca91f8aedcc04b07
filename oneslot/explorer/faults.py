"""Injected faults: a call is performed now, later or never, and its caller sees an answer, an error or nothing, or dies.

The SDK's own retries are included. After a silence it sends the same request again, unseen by the code under test, which
sees an error only when all attempts fail.
"""

from dataclasses import dataclass
from typing import Any

from oneslot.explorer.world import UNANSWERED, error_text

NOW, LATER, NEVER = "now", "later", "never"
ANSWERED, SILENCE, DEATH = "answered", "silence", "death"


@dataclass(frozen=True, slots=True)
class Choice:
    """One fate of a call.

    Attributes:
        name: its name in a path.
        performed: NOW, LATER (it is in the network and lands at any later time) or NEVER.
        seen: ANSWERED (by the service, or with `observation`), SILENCE (the SDK sends it again) or DEATH.
        observation: the answer that the caller sees instead of the service's.
        conflict: the item of a transaction that another transaction holds, as the service answers.
        is_fault: whether it counts against the budget.
        again: a kind of the world's lines. While the world has one, this was so before, and counts against no budget.
    """

    name: str
    performed: str = NOW
    seen: str = ANSWERED
    observation: str | None = None
    conflict: int | None = None
    is_fault: bool = True
    again: str = ""


PERFORMED = Choice("performed", is_fault=False)

CRASHES = (
    Choice("crash before it is sent", NEVER, DEATH),
    Choice("crash, and the request is on its way", LATER, DEATH),
)
LOST = (
    Choice("response lost; the SDK sends it again", NOW, SILENCE),
    Choice("no answer; the SDK sends it again, and the first one lands late", LATER, SILENCE),
)
TIMED_OUT = Choice("all attempts time out, and the last one is on its way", LATER, ANSWERED, UNANSWERED)


def error_choice(code: str, performed: str = NEVER, status: int = 0, **more: Any) -> Choice:
    """Return an error after all of the SDK's attempts, whether or not the service performs the call.

    `status` is that of HTTP, if not the usual one; `more` is what the error has beside its code.
    """
    error = {"Error": {"Code": code, "Message": "injected"}, **more}
    text = error_text(error | ({"ResponseMetadata": {"HTTPStatusCode": status}} if status else {}))
    landing = {NEVER: "", NOW: ", and yet performed", LATER: ", and yet the request is on its way"}[performed]
    return Choice(f"{code}{landing}", performed, ANSWERED, text)
