"""The conclusion of an audit from its totals, in figures and in words."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from oneslot.audit.judged import SubjectKind
from oneslot.audit.read.history import NO_ACCEPTED, NO_DELIVERY, History
from oneslot.laws.request import UNSOUND, RequestVerdict
from oneslot.wording import counted

VERSION = 9
"""The version of `audit.json` and of the columns of verdicts. An audit continues only one of its own version."""


@dataclass(frozen=True)
class Conclusion:
    """The result of an audit. `document` is the content of `audit.json`."""

    sound: bool
    sentence: str
    document: Mapping[str, Any]


def conclude(
    history: History,
    totals: Sequence[Mapping[str, Any]],
    notes: Sequence[str],
    reject_share: float,
    earlier_items: int = 0,
) -> Conclusion:
    """Judge the whole: every verdict sound, no invariant broken, and few enough malformed lines.

    `earlier_items` is the number of items in the exports of earlier audits. The totals, rejected lines included, cover all
    audits together.
    """
    requests = [row for row in totals if row["subject"] in (SubjectKind.REQUEST, SubjectKind.UNIDENTIFIED)]
    verdicts: Counter[str] = Counter()
    for row in requests:
        verdicts[row["verdict"]] += row["subjects"]
    broken: Counter[str] = Counter()
    for row in totals:
        for name in row["violations"].split():
            broken[name] += row["subjects"]
    requests_judged = sum(verdicts.values())
    verdicts[RequestVerdict.UNREADABLE] = sum(
        row["subjects"] for row in totals if row["verdict"] == RequestVerdict.UNREADABLE
    )
    model = history.model
    sums = {name: sum(row[f"sum_{name}"] for row in totals) for name in model.summed}
    items = earlier_items + history.items
    too_many_rejects = sums["rejected"] > reject_share * max(items + sums["deliveries"], 1)
    logged = "deliveries" in history.lines or history.more_deliveries
    silent = {
        NO_DELIVERY: logged and sums["ledger_rows"] and not sums["deliveries"],
        NO_ACCEPTED: "accepted" in history.lines and sums["ledger_rows"] and not sums["accepted_copies"],
    }
    unsound = sum(verdicts[verdict] for verdict in UNSOUND)
    sound = not broken and not unsound and not too_many_rejects
    document: dict[str, Any] = {
        "sound": sound,
        "start": history.start,
        "end": history.end,
        "retention_ms": history.context.retention_ms,
        "forgotten_before": history.context.forgotten_before,
        "queue_known": "waiting" in history.lines,
        "sources": sorted([*history.exports, *history.lines]),
        "items": items,
        "requests": requests_judged,
        "verdicts": {verdict: verdicts[verdict] for verdict in model.verdicts},
        "violations": {name: broken[name] for name in model.sentences},
        "sums": sums,
        "rejects": {"lines": sums["rejected"], "limit_share": reject_share, "above_limit": too_many_rejects},
        "notes": [*notes, *(note for note, holds in silent.items() if holds)],
        "version": VERSION,
    }
    if rows := model.row_subject:
        document[f"{rows}s"] = sum(row["subjects"] for row in totals if row["subject"] == rows)
    text = sentence(document)
    return Conclusion(sound, text, {**document, "sentence": text})


SOUND = {
    0: "The history contains no request.",
    1: "The only request took effect at most once, and is not lost.",
}
SOUND_MANY = "Each of {:,} requests took effect at most once, and none is lost."
_BY_AN_OPERATOR = "dropped from the dead-letter queue by an operator"
_OLD = "older than the ledger's retention, without a trace of the end"
ENDS: dict[str, tuple[str, str]] = {
    RequestVerdict.IN_FLIGHT: ("is still in flight", "are still in flight"),
    RequestVerdict.DROPPED: (f"was {_BY_AN_OPERATOR}", f"were {_BY_AN_OPERATOR}"),
    RequestVerdict.FORGOTTEN: (f"is {_OLD}", f"are {_OLD}"),
}
"""Verdicts of a sound history without an answer, for one request and for several."""
FAULTS = {
    RequestVerdict.DUPLICATE_EFFECT: "took effect more than once",
    RequestVerdict.LOST: "lost",
    RequestVerdict.STUCK: "stuck",
    RequestVerdict.UNREADABLE: "with a row that cannot be read",
}


def sentence(document: Mapping[str, Any]) -> str:
    """Return the conclusion in a few sentences."""
    verdicts, requests = document["verdicts"], document["requests"]
    if document["sound"]:
        ends = [f"{counted(verdicts[each], *words)}." for each, words in ENDS.items() if verdicts[each]]
        return " ".join((SOUND.get(requests, SOUND_MANY.format(requests)), *ends)) + _rejects(document)
    faults = [f"{verdicts[verdict]:,} {word}" for verdict, word in FAULTS.items() if verdicts[verdict]]
    broken = [f"{name} ({count:,})" for name, count in document["violations"].items() if count]
    parts = [f"Of {counted(requests, 'request', 'requests')}: {', '.join(faults)}." if faults else ""]
    parts.append(f"Invariants that do not hold: {', '.join(broken)}." if broken else "")
    return " ".join(part for part in (*parts, _rejects(document).strip()) if part)


def _rejects(document: Mapping[str, Any]) -> str:
    rejects = document["rejects"]
    if not rejects["lines"]:
        return ""
    judged = "more than" if rejects["above_limit"] else "within"
    lines = counted(rejects["lines"], "line", "lines")
    return f" {lines} could not be read, {judged} the limit of {rejects['limit_share']:.3%} of all."
