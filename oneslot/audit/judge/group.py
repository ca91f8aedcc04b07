"""All that names one subject, as carried rows and lines add up to it, and what an audit keeps of it for the next."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from oneslot.laws.schema import Row, is_answer
from oneslot.laws.traces import LEDGER


@dataclass(slots=True)
class Group:
    """All that names one subject. `rows` and `taken_back` are carried rows by source; `own` are those whose key it is.

    `unreadable` counts the rows out of form that name it.
    """

    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    taken_back: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    own: dict[str, list[Row]] = field(default_factory=dict)
    lines: list[dict[str, Any]] = field(default_factory=list)
    sent: int | None = None
    copies: int = 0
    dead: int = 0
    waiting: int = 0
    dropped: int | None = None
    rejected: int = 0
    unreadable: int = 0

    def add(self, source: str, row: Any) -> None:
        """Add a line of a log or a list."""
        match source:
            case "deliveries":
                self.lines.append(row)
            case "accepted":
                self.sent = row["sent"] if self.sent is None else min(self.sent, row["sent"])
                self.copies += row["copies"]
            case "dead-letters":
                self.dead += 1
            case "waiting":
                self.waiting += 1
            case "dropped":
                self.dropped = row if self.dropped is None else max(self.dropped, row)

    def restore(self, kept: Mapping[str, Any]) -> None:
        """Add what an earlier audit kept, but its lines. The content of the queues is taken from today only."""
        for source, rows in kept["rows"].items():
            self.rows.setdefault(source, []).extend(rows)
        if kept["sent"] is not None:
            self.add("accepted", {"sent": kept["sent"], "copies": kept["copies"]})
        if kept["dropped"] is not None:
            self.add("dropped", kept["dropped"])
        self.rejected += kept["rejected"]
        self.unreadable += kept["unreadable"]

    def settle(self) -> None:
        """Take back the rows that old images equal. One that was rejected when it was new is not there."""
        for source, row in self.taken_back:
            if row in self.rows.get(source, ()):
                self.rows[source].remove(row)

    def kept(self) -> str:
        """Return what the next audit needs, as JSON."""
        rows = {source: sorted(several, key=str) for source, several in self.rows.items() if several}
        document: dict[str, Any] = {"rows": rows, "lines": sorted(self.lines, key=str)}
        document |= {name: getattr(self, name) for name in ("sent", "copies", "dropped", "rejected", "unreadable")}
        return json.dumps(document, separators=(",", ":"), sort_keys=True)

    @property
    def seen(self) -> bool:
        """Whether something says that it is a request."""
        logged = self.lines or self.dead or self.waiting
        return bool(self.own.get(LEDGER) or logged) or self.sent is not None or self.dropped is not None

    @property
    def gone(self) -> bool:
        """Whether nothing is left of it."""
        return not (self.seen or self.rejected or self.unreadable or any(self.rows.values()))

    def deliveries(self) -> tuple[int, int, int]:
        """Return the number of deliveries, of those with an answer, and of duplicates, which are among these."""
        found = duplicates = done = 0
        for line in self.lines:
            copies, outcome = line.get("copies", 1), line["outcome"]
            found += copies
            if outcome == "duplicate":
                duplicates += copies
            elif is_answer(outcome):
                done += copies
        return found, done + duplicates, duplicates
