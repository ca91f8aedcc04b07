"""The words of malformed lines, of subjects and of verdicts."""

from __future__ import annotations

from enum import StrEnum

from oneslot.laws.form import Problem
from oneslot.laws.request import RequestVerdict

REJECT_SHARE = 0.00001
"""The largest share of malformed lines in a sound history."""

PROBLEM_SENTENCES = {
    Problem.NOT_JSON: "the line is not a JSON object of the expected shape",
    Problem.MISSING_ATTRIBUTE: "an attribute that every row has is missing, or has another type",
    Problem.OUT_OF_RANGE: "a number is negative, not whole, or beyond the year 2100",
    Problem.UNKNOWN_VALUE: "a status, outcome or id is not one that the system writes",
    Problem.OUTSIDE_WINDOW: "the change was written outside the window of its export",
}


class SubjectKind(StrEnum):
    """The kind of thing that a row of the verdicts is about. A consumer's `Model` names two more."""

    REQUEST = "request"
    UNIDENTIFIED = "unidentified"  # a delivery whose message carries no id
    FILE = "file"  # a file with rejected lines
    GONE = "gone"  # all that spoke of the key has been deleted since an earlier audit


UNSOUND = (
    RequestVerdict.LOST,
    RequestVerdict.STUCK,
    RequestVerdict.UNREADABLE,
    RequestVerdict.DUPLICATE_EFFECT,
)
"""Verdicts that a sound history does not have."""

WRONG_VERDICTS = tuple(map(str, (*UNSOUND, RequestVerdict.QUARANTINED)))
"""Verdicts of subjects that findings or repair lists may name."""

VERDICT_SENTENCES = {
    RequestVerdict.QUARANTINED: "could not be processed; the message and its reason are in the dead-letter queue",
    RequestVerdict.DROPPED: "was given up: an operator deleted it from the dead-letter queue; "
    "the operator log says who and when",
    RequestVerdict.FORGOTTEN: "is older than the ledger remembers, and no other source says how it ended",
    RequestVerdict.IN_FLIGHT: "is still on its way",
    RequestVerdict.STUCK: "was begun; its lease is over and no message in the queue will continue it",
    RequestVerdict.LOST: "was accepted, and no source shows it since",
    RequestVerdict.UNREADABLE: "has a row that cannot be read, so no law speaks of it; rejects.jsonl locates the row",
    RequestVerdict.DUPLICATE_EFFECT: "took effect more than once",
}
"""Each verdict as the end of the sentence "The request ..."."""
