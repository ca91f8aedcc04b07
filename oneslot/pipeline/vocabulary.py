"""The codes that keep facts small, and the words of the verdicts.

A fact is one statement of one row of a source about one key. Its `kind` names the statement.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum

ROW_PREFIX = "#"
FILE_PREFIX = "!"
UNIDENTIFIED_PREFIX = "?"
"""First characters of keys that do not belong to a request. A message id must not begin with one of them."""


def counted(count: int, one: str, several: str) -> str:
    """Return a count with the words for one or for several: `1 is`, `2,000 are`."""
    return f"{count:,} {one if count == 1 else several}"


class Kind(IntEnum):
    """The statement that a fact makes about its key. Numbers from `FIRST_OWN_KIND` are a consumer's own."""

    LEDGER = 1  # the ledger has a row for this request
    EFFECT = 2  # a row of a table of effects names this request
    BREACH = 3  # a law of the consumer's own names this subject
    ACCEPTED = 8  # the producer's archive has this request
    DELIVERY = 9  # one line of the delivery log
    DEAD_LETTER = 10  # a copy is in the dead-letter queue
    WAITING = 11  # a copy is in the queue
    REJECT = 12  # a line of this file could not be read
    DROPPED = 13  # an operator deleted a copy from the dead-letter queue


FIRST_OWN_KIND = 20

IN_PROGRESS, UNKNOWN_OUTCOME = 0, 9
"""Codes of a ledger row: without a result, and with a result that is not one of the consumer's."""


class Delivered(IntEnum):
    """The `outcome` of a line of the delivery log that is the library's own. Other codes are the consumer's answers."""

    DUPLICATE = 5
    BUSY = 6
    QUARANTINED = 7
    FENCED = 8
    FAILED = 9


class Problem(IntEnum):
    """The reason why a line was rejected."""

    NOT_JSON = 1
    MISSING_ATTRIBUTE = 2
    OUT_OF_RANGE = 3
    UNKNOWN_VALUE = 4
    OUTSIDE_WINDOW = 5


REJECT_SHARE = 0.00001
"""The largest share of malformed lines in a sound history."""

PROBLEM_SENTENCES = {
    Problem.NOT_JSON: "the line is not a JSON object of the expected shape",
    Problem.MISSING_ATTRIBUTE: "an attribute that every row has is missing, or has another type",
    Problem.OUT_OF_RANGE: "a number is negative, not whole, or beyond the year 2100",
    Problem.UNKNOWN_VALUE: "a status, outcome or id is not one that the system writes",
    Problem.OUTSIDE_WINDOW: "the change was written outside the window of its export",
}


class Subject(StrEnum):
    """The kind of thing that a row of the verdicts is about. A consumer's `Model` names two more."""

    REQUEST = "request"
    UNIDENTIFIED = "unidentified"  # a delivery whose message carries no id
    FILE = "file"  # a file with rejected lines
    GONE = "gone"  # all that spoke of the key has been deleted since an earlier audit


class Verdict(StrEnum):
    """The end state of a request without a recorded answer. With one, the verdict is the answer's outcome."""

    QUARANTINED = "quarantined"
    DROPPED = "dropped"
    FORGOTTEN = "forgotten"
    IN_FLIGHT = "in_flight"
    STUCK = "stuck"
    LOST = "lost"
    DUPLICATE_EFFECT = "duplicate_effect"


UNSOUND = (Verdict.LOST, Verdict.STUCK, Verdict.DUPLICATE_EFFECT)
"""Verdicts that a sound history does not have."""

VERDICT_SENTENCES = {
    Verdict.QUARANTINED: "could not be processed; the message and its reason are in the dead-letter queue",
    Verdict.DROPPED: "was given up: an operator deleted it from the dead-letter queue; the operator log says who and when",
    Verdict.FORGOTTEN: "is older than the ledger remembers, and no other source says how it ended",
    Verdict.IN_FLIGHT: "is still on its way",
    Verdict.STUCK: "was begun; its lease is over and no message in the queue will continue it",
    Verdict.LOST: "was accepted, and no source shows it since",
    Verdict.DUPLICATE_EFFECT: "took effect more than once",
}
"""Each verdict as the end of the sentence "The request ..."."""
