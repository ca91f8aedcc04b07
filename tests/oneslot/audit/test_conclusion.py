"""The conclusion of an audit from its totals."""

from typing import Any

import pytest

from demo.audit.tables import TOTALS
from demo.declared import CONSUMER
from oneslot.audit.conclusion import Conclusion, conclude
from oneslot.audit.model import model_of
from oneslot.audit.read.history import NO_ACCEPTED, NO_DELIVERY, History, HistoryContext
from oneslot.audit.read.manifests import Export

TABLES = ("ledger", "slots", "appointments")


def row(subject: str, verdict: str = "", violations: str = "", subjects: int = 1, **sums: int) -> dict[str, Any]:
    """Return a row of the totals."""
    given = {name: sums.get(name.removeprefix("sum_"), 0) for name in TOTALS.figures if name != "subjects"}
    return {"subject": subject, "verdict": verdict, "violations": violations, "subjects": subjects, **given}


def concluded(
    *totals: dict[str, Any], earlier_items: int = 0, share: float = 0.1, log: str | None = "own", archive: bool = False
) -> Conclusion:
    """Return the conclusion of three exports of ten items each. The log is in the history (own) or in other folders (more)."""
    exports = {table: Export("home", table, None, 9, 10, ()) for table in TABLES}
    lines = {"deliveries": ("log",)} if log == "own" else {}
    lines |= {"accepted": ("archive",)} if archive else {}
    more = ("log",) if log == "more" else ()
    history = History("folder", None, 9, exports, lines, more, {}, HistoryContext(5, 3), (), model_of(CONSUMER))
    return conclude(history, totals, ["a note"], share, earlier_items)


MANY = row("request", "booked", subjects=1_200)


@pytest.mark.parametrize(
    ("totals", "sentence"),
    [
        ([], "The history contains no request."),
        ([row("request", "booked")], "The only request took effect at most once, and is not lost."),
        (
            [MANY, row("unidentified", "quarantined", subjects=34)],
            "Each of 1,234 requests took effect at most once, and none is lost.",
        ),
        (
            [MANY, row("request", "in_flight", subjects=2_000)],
            "Each of 3,200 requests took effect at most once, and none is lost. 2,000 are still in flight.",
        ),
        (
            [row("request", "dropped"), row("request", "forgotten", subjects=3)],
            "Each of 4 requests took effect at most once, and none is lost. "
            "1 was dropped from the dead-letter queue by an operator. "
            "3 are older than the ledger's retention, without a trace of the end.",
        ),
        (
            [row("request", "booked", deliveries=1), row("file", rejected=3)],
            "The only request took effect at most once, and is not lost. "
            "3 lines could not be read, within the limit of 10.000% of all.",
        ),
        ([row("file", rejected=4)], "4 lines could not be read, more than the limit of 10.000% of all."),
        (
            [MANY, row("request", "lost", "I2", 2), row("request", "stuck", "I2 I9"), row("slot", "", "I3 I4", 5)],
            "Of 1,203 requests: 2 lost, 1 stuck. Invariants that do not hold: I2 (3), I3 (5), I4 (5), I9 (1).",
        ),
        ([row("request", "duplicate_effect")], "Of 1 request: 1 took effect more than once."),
        ([MANY, row("appointment", "", "I5r")], "Invariants that do not hold: I5r (1)."),
    ],
)
def test_sentence_follows_the_totals(totals: list[dict[str, Any]], sentence: str) -> None:
    """Sound means: no bad verdict, no broken invariant, and few malformed lines."""
    conclusion = concluded(*totals)
    assert conclusion.sentence == conclusion.document["sentence"] == sentence
    assert conclusion.sound == conclusion.document["sound"] == ("at most once" in sentence or "no request" in sentence)


def test_document_counts_each_kind_of_subject() -> None:
    """Requests with and without an id are requests; a slot's finding is not."""
    document = concluded(MANY, row("unidentified", "quarantined"), row("slot", "", "I4", 7), row("file")).document
    assert document["requests"] == 1_201
    assert document["slots"] == 7
    assert {name: count for name, count in document["verdicts"].items() if count} == {"booked": 1_200, "quarantined": 1}
    assert {name: count for name, count in document["violations"].items() if count} == {"I4": 7}
    assert (document["items"], document["retention_ms"], document["forgotten_before"]) == (30, 5, 3)
    assert document["sources"] == ["appointments", "deliveries", "ledger", "slots"]
    assert (document["queue_known"], document["start"], document["end"]) == (False, None, 9)


@pytest.mark.parametrize(("rejected", "earlier", "lines"), [(3, 0, 0), (4, 10, 0), (4, 0, 10), (5, 10, 10)])
def test_malformed_share_is_one_of_all_lines(rejected: int, earlier: int, lines: int) -> None:
    """All items of all exports so far, and all lines of the log. The limit itself is allowed."""
    assert concluded(row("file", rejected=rejected), row("request", deliveries=lines), earlier_items=earlier).sound
    one_more = row("file", rejected=rejected + 1)
    conclusion = concluded(one_more, row("request", deliveries=lines), earlier_items=earlier)
    assert not conclusion.sound
    assert conclusion.document["rejects"] == {"lines": rejected + 1, "limit_share": 0.1, "above_limit": True}


ROWS, LINES, COPIES = {"ledger_rows": 1}, {"deliveries": 1}, {"accepted_copies": 1}


@pytest.mark.parametrize(
    ("sums", "sources", "noted"),
    [
        *((ROWS, {"log": log}, [NO_DELIVERY]) for log in ("own", "more")),
        *((ROWS | LINES, {}, []), ({}, {}, []), (ROWS, {"log": None}, [])),
        (ROWS | LINES, {"archive": True}, [NO_ACCEPTED]),
        *((ROWS | LINES | COPIES, {"archive": True}, []), (LINES, {"archive": True}, [])),
    ],
)
def test_source_is_noted_beside_rows_when_it_has_no_message_id(
    sums: dict[str, int], sources: dict[str, Any], noted: list[str]
) -> None:
    """Not on the first night, and not where another note says that it is missing. A producer may name ids otherwise."""
    notes = concluded(row("request", "booked", "", 1, **sums), **sources).document["notes"]
    assert notes == ["a note", *noted]
