"""The lives of the most eventful messages: every attempt in the delivery log, and every claim without a line."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from oneslot.audit.judge.stage import ATTEMPTS_SHOWN, EVENTFUL, LINES_OF, LIVES, Judged
from oneslot.audit.write.findings import shown_id
from oneslot.declaration.declaration import Declaration

CRASHED = "crashed"
LABEL_LENGTH = 12

Line = Mapping[str, Any]
"""A line of the delivery log, with null for what it lacks."""


@dataclass(frozen=True)
class LifeAttempt:
    """One attempt from begin to end, in milliseconds since the message was sent.

    A `crashed` attempt left no line: it was claimed at some time between begin and end.
    """

    outcome: str
    begin_ms: int
    end_ms: int
    words: str
    step: str


@dataclass(frozen=True)
class Life:
    """The attempts on one message. `label` is a short form of the id."""

    message_id: str
    label: str
    verdict: str
    claims: int
    seen: int
    attempts: tuple[LifeAttempt, ...]


def lives(answer: Judged, declaration: Declaration) -> tuple[Life, ...]:
    """Return the eventful messages with every attempt on them."""
    worst = sorted(answer.rows(EVENTFUL), key=lambda row: (-row["events"], row["key"].encode()))[:LIVES]
    lines: dict[str, list[Line]] = defaultdict(list)
    for line in answer.rows(LINES_OF):
        lines[line["key"]].append(line)
    found = []
    for number, row in enumerate(worst, 1):
        own, shown = lines[row["key"]], shown_id(declaration, row["key"])
        label = f"{number}. {shown[:LABEL_LENGTH]}{'…' if len(shown) > LABEL_LENGTH else ''}"
        # If some lines are not shown, or are in another day's history, a claim without a line need not have crashed.
        claims = min(row["claims"], ATTEMPTS_SHOWN) if len(own) == row["deliveries"] else 0
        found.append(Life(shown, label, row["verdict"], row["claims"], len(own), attempts_of(own, claims)))
    return tuple(found)


def attempts_of(lines: Sequence[Line], claims: int) -> tuple[LifeAttempt, ...]:
    """Return the attempts on a message from its log lines, sorted by their end, and its row's count of claims."""
    if not lines:
        return ()
    # The consumer's clock may be behind SQS's.
    start = min(min(line["sent"], line["finished"] - (line["attempt_ms"] or 0)) for line in lines)
    attempts, logged = [], set[int]()
    for line in lines:
        took = line["attempt_ms"] or 0
        number = line["consumption_count"] or 0
        # A duplicate's line names the finished claim that it found, and has no claim of its own.
        claimed = number if line["claimed_by"] and line["outcome"] != "duplicate" else 0
        takeover = claimed > 1 and claimed not in logged
        logged |= {number}
        attempts.append(
            LifeAttempt(
                line["outcome"],
                line["finished"] - took - start,
                line["finished"] - start,
                f"{line['outcome']}: receive {line['receive_count'] or 1}"
                + (f", claim {claimed}" if claimed else "")
                + (f", {took:,} ms" if took else ""),
                f"claim {claimed} took over: {line['outcome']}" if takeover else line["outcome"],
            )
        )
    attempts += _crashed(attempts, {number for number in logged if number}, claims, lines, start)
    return tuple(sorted(attempts, key=lambda attempt: (attempt.end_ms, attempt.outcome != CRASHED)))


def _crashed(
    seen: list[LifeAttempt], logged: set[int], claims: int, lines: Sequence[Line], start: int
) -> list[LifeAttempt]:
    """Return the claims that are counted and have no line: their process crashed, or the line was lost."""
    found = []
    # A failed or quarantined attempt released its claim, and its line does not name it.
    released = sum(line["outcome"] in ("failed", "quarantined") for line in lines)
    for number in [number for number in range(1, claims + 1) if number not in logged][released:]:
        later = [
            attempt.begin_ms
            for attempt, line in zip(seen, lines, strict=True)
            if line["claimed_by"] and (line["consumption_count"] or 0) > number and line["outcome"] != "duplicate"
        ]
        end = min(later, default=max(line["finished"] for line in lines) - start)
        begin = max((attempt.end_ms for attempt in seen if attempt.end_ms <= end), default=0)
        words = f"claim {number} left no line: its process crashed in this interval, or its line was lost"
        found.append(LifeAttempt(CRASHED, begin, end, words, f"claim {number} crashed"))
    return found
