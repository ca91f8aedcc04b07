"""The faults of a simulation: drawn from its seed, or listed one by one.

A fault has a place: the nth call or the nth statement of a process. So a run can be repeated with a part of its faults, which
shrinks a counterexample, and with one fault at every place in turn.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

from lab.explore.faults import SERVER_ERROR, all_faults
from oneslot.explorer.faults import (
    ANSWERED,
    CRASHES,
    DEATH,
    LOST,
    NEVER,
    NOW,
    SILENCE,
    TIMED_OUT,
    Choice,
    error_choice,
)
from oneslot.explorer.world import ApiCall
from oneslot.runtime.sqs.queue import is_fifo

CALL, STATEMENT, APPEND = "call", "statement", "append"
CRASH, PAUSE, SUSPEND, TORN = "crash", "pause", "suspend, and the steady clock stands still", "crash, and a torn line"

PARTIAL = Choice("some entries throttled", NOW, ANSWERED)
BLAMED = Choice("some entries throttled, as the sender's fault", NOW, ANSWERED)
SILENT = Choice("some entries missing in the answer", NOW, ANSWERED)
IGNORED = Choice("some entries neither performed nor in the answer", NOW, ANSWERED)
SLOW = Choice("slow answer", NOW, ANSWERED)
UNSENT = Choice("no connection", NEVER, SILENCE)
COPIED = Choice("a message in flight is visible again", NOW, ANSWERED)
UNDELETED = Choice("a deleted message is visible again", NOW, ANSWERED)
SAMPLED = Choice("a short poll misses messages", NOW, ANSWERED)

_SQS = (*CRASHES, *LOST, TIMED_OUT, SERVER_ERROR, error_choice("RequestThrottled"), SLOW, UNSENT)
_SQS_BATCH = (*_SQS, PARTIAL, BLAMED, SILENT, IGNORED)
_BATCHES = ("send_message_batch", "delete_message_batch", "change_message_visibility_batch")

CRASHING, LOSING, REFUSING, SPLITTING, STOPPING, REPEATING = (
    "crashes",
    "lost and slow answers",
    "refusals",
    "split answers",
    "pauses",
    "copies",
)
KINDS = (CRASHING, LOSING, REFUSING, SPLITTING, STOPPING, REPEATING)
"""The kinds of faults. A seed draws which of them happen in its run."""


MILD = (PARTIAL.name, BLAMED.name, SILENT.name, IGNORED.name, SLOW.name)
"""The faults that a worker survives without a second receive, if they are few: split and slow answers."""

FEW, SLOW_SECONDS = 2, 30.0
"""The most mild faults, and the longest answer of a receive before the SDK sends it again."""

APPEND_FAULTS = (CRASHES[0], Choice(TORN, NEVER, DEATH), Choice(CRASH, NOW, DEATH))
"""The faults of an append to a file: a crash before it, in the middle of it, and after it."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault: what happens (`name`) to which call, append or statement of which process. `seconds` is its length."""

    process: str
    place: str
    number: int
    name: str
    seconds: float = 0.0


def choices(service: str, operation: str, parameters: Mapping[str, Any]) -> Sequence[Choice]:
    """Return every fault of a call."""
    if service == "dynamodb":
        return (*all_faults(ApiCall.of(operation, parameters)), SLOW, UNSENT)
    if service == "sqs":
        if operation == "receive_message" and not is_fifo(parameters.get("QueueUrl", "")):
            return (*_SQS, COPIED, UNDELETED, *([] if parameters.get("WaitTimeSeconds") else [SAMPLED]))
        return _SQS_BATCH if operation in _BATCHES else _SQS
    return (*CRASHES, LOST[0], TIMED_OUT, SLOW, UNSENT)


def reached_name(fault: str, what: str) -> str:
    """Return the name under which a fault at a call is counted, without the number of a transaction's item."""
    return f"{fault.partition(' at item ')[0]} at {what}"


def kind_of(name: str) -> str:
    """Return the kind of a fault, by its name."""
    if "crash" in name:
        return CRASHING
    if name in (PAUSE, SUSPEND):
        return STOPPING
    if name in (COPIED.name, UNDELETED.name, SAMPLED.name):
        return REPEATING
    if "some entries" in name:
        return SPLITTING
    return LOSING if "answer" in name or "response" in name or "time out" in name or name == UNSENT.name else REFUSING


def is_mild(faults: Sequence[Fault], longest: float = SLOW_SECONDS) -> bool:
    """Return whether a consumer that survives answers of `longest` seconds survives these without a second receive."""
    return len(faults) <= FEW and all(
        fault.name in MILD and (fault.name != SLOW.name or fault.seconds <= longest) for fault in faults
    )


@dataclass(frozen=True, slots=True)
class Rates:
    """The weather of a run: which kinds of faults happen, one in how many calls, and one in how many statements.

    A fault that has a length lasts from `shortest` to `longest` seconds: short ones often, long ones seldom. At most `most`
    calls meet one, of those that `chosen` takes from the call's.
    """

    kinds: Sequence[str]
    calls: float
    statements: float
    shortest: float = 0.05
    longest: float = 100.0
    most: float = math.inf
    chosen: Callable[[Sequence[Choice]], Sequence[Choice]] = lambda choices: choices


MILD_ONLY = Rates(
    KINDS,
    calls=30,
    statements=0,
    longest=SLOW_SECONDS,
    most=FEW,
    chosen=lambda choices: [each for each in choices if each.name in MILD],
)
"""A few faults that a consumer survives without a second receive."""

LATE_COMMITS = Rates(
    KINDS,
    calls=2,
    statements=0,
    shortest=20,
    longest=90,
    most=4,
    # Only a transaction can be in conflict at one of its items.
    chosen=lambda choices: (CRASHES[1], LOST[1]) if any(each.conflict is not None for each in choices) else (),
)
"""Crashes and lost answers of transactions that DynamoDB performs a minute later."""

NOTHING = Rates((), calls=1, statements=0)


class Faults:
    """The faults of a run: those that are listed, and no others; or drawn ones, by a seed, until `stop`.

    Each place has its own draw, so that a change elsewhere does not move it.

    Attributes:
        met: the faults that happened, in their order.
        rates: of drawn faults. A scenario may set others.
    """

    def __init__(self, seed: int, rates: Rates, listed: Iterable[Fault] | None) -> None:
        self.met: list[Fault] = []
        self.rates = rates
        self.stopped = False
        self._seed = seed
        self._listed = None if listed is None else {(each.process, each.place, each.number): each for each in listed}

    def stop(self) -> None:
        """Let no drawn fault happen from now on."""
        self.stopped = self._listed is None

    def at(
        self, process: str, place: str, number: int, possible: Callable[[], Sequence[Choice]]
    ) -> tuple[Choice, Fault] | None:
        """Return the fault of a call or an append, or None. `possible` is asked only where there may be one.

        A listed fault that this call cannot have does not happen.
        """
        if self._listed is None:
            found = self._drawn(process, place, number, possible)
        else:
            fault = self._listed.get((process, place, number))
            named = [(each, fault) for each in possible() if each.name == fault.name] if fault else []
            found = named[0] if named else None
        if found is not None:
            self.met.append(found[1])
        return found

    def next_statement(self, process: str, after: int) -> Fault | None:
        """Return the next fault at a statement beyond `after`, or None. It counts as met only once it happens."""
        if self._listed is not None:
            planned = (each for each in self._listed.values() if (each.process, each.place) == (process, STATEMENT))
            return min((each for each in planned if each.number > after), key=lambda each: each.number, default=None)
        names = [name for name in (CRASH, PAUSE, SUSPEND) if kind_of(name) in self.rates.kinds]
        if self.stopped or not names or not self.rates.statements:
            return None
        distance = int(-self.rates.statements * math.log(1.0 - self._draw(process, STATEMENT, after)))
        name = names[int(self._draw(process, "which statement", after) * len(names))]
        return Fault(process, STATEMENT, after + 1 + distance, name, self._seconds(process, -after))

    def _drawn(
        self, process: str, place: str, number: int, possible: Callable[[], Sequence[Choice]]
    ) -> tuple[Choice, Fault] | None:
        rates = self.rates
        if self.stopped or len(self.met) >= rates.most or self._draw(process, place, number) * rates.calls >= 1:
            return None
        choices = [choice for choice in rates.chosen(possible()) if kind_of(choice.name) in rates.kinds]
        if not choices:
            return None
        choice = choices[int(self._draw(process, "which", number) * len(choices))]
        seconds = self._seconds(process, number) if place == CALL else 0.0
        return choice, Fault(process, place, number, choice.name, seconds)

    def _seconds(self, process: str, number: int) -> float:
        shortest, draw = self.rates.shortest, self._draw(process, "seconds", number)
        return round(math.exp(math.log(shortest) + math.log(self.rates.longest / shortest) * draw), 3)

    def _draw(self, process: str, what: str, number: int) -> float:
        return crc32(f"{self._seed}/{process}/{what}/{number}".encode()) / 2**32
