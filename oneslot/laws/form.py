"""The form of rows and log lines: one table of each attribute's type, range and need. Check, repairs and the audit read it.

What an attribute holds inside its form is content, which the laws judge. A row out of form is unreadable: no law speaks of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import IntEnum, StrEnum
from functools import lru_cache
from typing import Any

from oneslot.runtime.values import from_json

ROW_PREFIX, FILE_PREFIX, UNIDENTIFIED_PREFIX = "#", "!", "?"
"""First characters of the keys of rows, of files, and of messages without an id. No message id begins with one."""
RESERVED = (ROW_PREFIX, FILE_PREFIX, UNIDENTIFIED_PREFIX)
LATEST_EPOCH_MS = 4_102_444_800_000  # the year 2100
LARGEST_COUNT = 1_000_000_000
REJECT_SHARE = 0.00001
"""The largest share of malformed lines in a sound history."""


class Kind(StrEnum):
    """The type of an attribute. Texts: `ID` without a reserved prefix, `MOMENT` an ISO 8601 time, `OBJECT` a JSON object."""

    TEXT = "text"
    ID = "id"
    MOMENT = "moment"
    OBJECT = "object"
    COUNT = "count"
    TIME = "time"
    ANY = "any"


LARGEST = {Kind.COUNT: LARGEST_COUNT, Kind.TIME: LATEST_EPOCH_MS}
"""The largest value of each kind of whole number; the least is 0."""


class Problem(IntEnum):
    """The reason why a row or a line cannot be read."""

    NOT_JSON = 1
    MISSING_ATTRIBUTE = 2
    OUT_OF_RANGE = 3
    UNKNOWN_VALUE = 4
    OUTSIDE_WINDOW = 5


PROBLEM_SENTENCES = {
    Problem.NOT_JSON: "the line is not a JSON object of the expected shape",
    Problem.MISSING_ATTRIBUTE: "an attribute that every row has is missing, or has another type",
    Problem.OUT_OF_RANGE: "a number is negative, not whole, or beyond the year 2100",
    Problem.UNKNOWN_VALUE: "a status, outcome or id is not one that the system writes",
    Problem.OUTSIDE_WINDOW: "the change was written outside the window of its export",
}


@dataclass(frozen=True)
class Attribute:
    """The form of one attribute.

    Attributes:
        needed: whether every row has it; or the values of the row's `status` with which it has it.
        words: the only values; None for any.
    """

    kind: Kind = Kind.TEXT
    needed: bool | tuple[str, ...] = False
    words: Collection[str] | None = None

    def is_needed(self, status: object) -> bool:
        """Return whether a row with this status must have it."""
        return self.needed if isinstance(self.needed, bool) else status in self.needed

    def problem(self, value: Any) -> Problem | None:
        """Return what is wrong with a value that is there."""
        if self.kind == Kind.ANY:
            return None
        if most := LARGEST.get(self.kind):
            if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
                return Problem.MISSING_ATTRIBUTE
            return None if isinstance(value, int) and 0 <= value <= most else Problem.OUT_OF_RANGE
        if not (isinstance(value, str) and is_encodable(value)) or (self.kind == Kind.MOMENT and not is_moment(value)):
            return Problem.MISSING_ATTRIBUTE
        if self.kind == Kind.OBJECT and object_of(value) is None:
            return Problem.MISSING_ATTRIBUTE
        reserved = self.kind == Kind.ID and value.startswith(RESERVED)
        return Problem.UNKNOWN_VALUE if reserved or (self.words is not None and value not in self.words) else None


@dataclass(frozen=True)
class Form:
    """The form of a row, by attribute. `one_of`: attributes of which it has at least one.

    It can be called, as the function that a declaration's `lacking` names: row → its missing or invalid attributes.
    """

    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    one_of: tuple[str, ...] = ()

    def problems(self, row: Mapping[str, Any]) -> Iterator[tuple[Problem, str]]:
        """Yield each problem of a row with its attribute. An attribute that the form does not name has none."""
        status = row.get("status")
        status = status if isinstance(status, str) else None
        for name, attribute in self.attributes.items():
            if name not in row:
                if attribute.is_needed(status):
                    yield Problem.MISSING_ATTRIBUTE, name
            elif (problem := attribute.problem(row[name])) is not None:
                yield problem, name
        if self.one_of and not any(name in row for name in self.one_of):
            yield Problem.MISSING_ATTRIBUTE, self.one_of[0]

    def __call__(self, row: Mapping[str, Any]) -> Iterator[str]:
        """Yield the attributes that the row lacks or has out of form."""
        yield from (name for _, name in self.problems(row))

    def needs(self, *names: str) -> Form:
        """Return the form in which these attributes are needed, of any type where it names none."""
        keys = {name: Attribute(self.attributes.get(name, ANY).kind, needed=True) for name in names}
        return Form({**keys, **{name: each for name, each in self.attributes.items() if name not in keys}}, self.one_of)


ANY = Attribute(Kind.ANY)


def is_encodable(text: str) -> bool:
    """Return whether a text has no half of a surrogate pair, which JSON can write and UTF-8 cannot."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_moment(text: str) -> bool:
    """Return whether a text is an ISO 8601 date or time."""
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


_parsed = lru_cache(1 << 16)(from_json)  # once, because several laws read each result


def object_of(text: object) -> Mapping[str, Any] | None:
    """Return the JSON object in a text; None if it is not one."""
    try:
        found = _parsed(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def without_null(line: Mapping[str, Any]) -> dict[str, Any]:
    """Return a log's line without the members that are null, which count as missing."""
    return {name: value for name, value in line.items() if value is not None}


TIME, COUNT, TEXT, ID = (Attribute(kind) for kind in (Kind.TIME, Kind.COUNT, Kind.TEXT, Kind.ID))
NEEDED_TIME = Attribute(Kind.TIME, needed=True)
LEDGER_ROW = Form(
    {
        "message_id": Attribute(Kind.ID, needed=True),
        "status": Attribute(needed=True, words=("IN_PROGRESS", "COMPLETE")),
        "consumption_count": Attribute(Kind.COUNT, needed=True),
        "updated": NEEDED_TIME,
        "lease_until": Attribute(Kind.TIME, needed=("IN_PROGRESS",)),
        "result": Attribute(Kind.OBJECT, needed=("COMPLETE",)),
        "unsent": COUNT,
    }
)
"""A ledger row, as far as laws read it."""
CONSUMED_ROW = Form({name: Attribute(needed=True) for name in ("claimed_by", "payload_hash")})
"""What else the consumer reads of a ledger row, and so do repairs."""
LINES = {
    "deliveries": Form(
        {
            "outcome": Attribute(needed=True),
            "finished": NEEDED_TIME,
            "sent": NEEDED_TIME,
            "message_id": ID,
            "sqs_message_id": TEXT,
            "consumption_count": COUNT,
            "claimed_by": TEXT,
            "answer": TEXT,
            "receive_count": COUNT,
            "attempt_ms": COUNT,
        },
        ("message_id", "sqs_message_id"),
    ),
    "accepted": Form({"message_id": ID, "sent": NEEDED_TIME, "copies": COUNT}),
    "dead-letters": Form({"message_id": ID, "source_message_id": TEXT}, ("message_id", "source_message_id")),
    "dropped": Form(
        {"message_id": ID, "source_message_id": TEXT, "at": NEEDED_TIME}, ("message_id", "source_message_id")
    ),
    "waiting": Form({"message_id": ID, "sqs_message_id": TEXT}, ("message_id", "sqs_message_id")),
}
"""The lines of each log and list, without their null members."""
