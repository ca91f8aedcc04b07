"""The audit's report: one HTML file that needs no network, made from the audit's tables.

`data.py` reads the tables and `figures.py` makes the plots. The template has the words, the style and the sorting.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from oneslot.audit.conclusion import ENDS
from oneslot.audit.model import SOURCE_FINDINGS, ReportWords
from oneslot.audit.report.data import ReportData, named_percentiles
from oneslot.audit.report.figures import drain_figure, latency_figure, rush_figure, timeline_figure
from oneslot.laws.request import UNSOUND, VERDICT_SENTENCES, RequestVerdict
from oneslot.wording import counted, verdict_text, visible

QUARANTINED: dict[str, tuple[str, str]] = {
    RequestVerdict.QUARANTINED: (
        "is in the dead-letter queue with its reason",
        "are in the dead-letter queue with a reason",
    )
}


def open_templates() -> Environment:
    """Return the environment of the template, which escapes HTML and shows controls in other people's text."""
    return Environment(
        loader=PackageLoader("oneslot.audit.report", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda shown: visible(shown) if type(shown) is str else shown,
    )


def render(data: ReportData) -> str:
    """Return the report as HTML."""
    words = data.model.words
    return (
        open_templates()
        .get_template("report.html.j2")
        .render(
            data=data,
            verdict_sentences={**words.verdicts, **VERDICT_SENTENCES},
            headline=headline(data.document, words),
            next_steps=next_steps(data.document, words),
            figures=figures(data),
            words=words,
            verdicts=sorted(data.document["verdicts"].items(), key=lambda each: not (each[1] and each[0] in UNSOUND)),
            invariants=sorted(data.invariants, key=lambda each: not each[-1]),
            verdict_text=partial(verdict_text, twice=words.twice),
            listing=data.model.listing,
            story=story(data),
            percentiles=named_percentiles(data.latency),
            duration=duration,
            drain=drain_figure(data),
            rush=rush_figure(data),
            latency=latency_figure(data),
            timelines=timeline_figure(data),
        )
    )


def figures(data: ReportData) -> list[tuple[str, int]]:
    """Return the figures of the whole by name."""
    document, rows = data.document, data.model.row_subject
    found = {
        "requests": document["requests"],
        "duplicates answered": document["sums"]["deliveries_duplicate"],
        "takeovers": data.total("COUNT_OF_TAKEOVERS"),
        "deliveries": document["sums"]["deliveries"],
    }
    found |= {head.lower(): data.total(name) for head, name in data.model.words.figures}
    return [*found.items(), *([(f"{rows}s", document[f"{rows}s"])] if rows else [])]


def headline(document: Mapping[str, Any], words: ReportWords) -> list[str]:
    """Return the result in the fewest words: `0 lost`, `0 done twice`, and what else is broken."""
    verdicts, violations = document["verdicts"], document["violations"]
    twice = sum(violations.get(name, 0) for name in words.twice_laws) or verdicts["duplicate_effect"]
    said = [f"{verdicts['lost']:,} lost", f"{twice:,} {words.twice}"]
    if verdicts["stuck"]:
        said.append(f"{verdicts['stuck']:,} stuck")
    if not document["sound"] and not (verdicts["lost"] or twice or verdicts["stuck"]):
        said.append("not sound")
    return said


def next_steps(document: Mapping[str, Any], words: ReportWords) -> list[str]:
    """Return what a person on call does first about an unsound history, the most urgent step first."""
    broken = [name for name, count in document["violations"].items() if count]
    steps = []
    if any(name in words.twice_laws for name in broken) or document["verdicts"]["duplicate_effect"]:
        steps.append(f"{words.twice.capitalize()}: {words.twice_first}")
    if document["verdicts"]["lost"] or document["verdicts"]["stuck"]:
        steps.append(
            "Lost or stuck: have their producer send the requests of repair/look-at.jsonl again, with the same message_id."
        )
    if broken:
        steps.append(f"Broken invariants: {', '.join(broken)}. The findings below name each {words.subjects}.")
    if document["rejects"]["above_limit"]:
        steps.append("Unreadable lines: rejects.jsonl locates each of them. Correct the source, then audit again.")
    return [*steps, "The runbook: oneslot docs runbooks#invariant-violated."]


def story(data: ReportData) -> list[str]:
    """Return the findings as sentences. Every figure is one of the tables'."""
    document = data.document
    verdicts, sums = document["verdicts"], document["sums"]
    said = [
        counted(verdicts[verdict], one, several)
        for verdict, (one, several) in {**data.model.words.ends, **QUARANTINED, **ENDS}.items()
        if verdicts[verdict]
    ]
    broken = [name for name, count in document["violations"].items() if count]
    invariants = len(document["violations"]) - len(SOURCE_FINDINGS)
    sentences = [f"Of {counted(document['requests'], 'request', 'requests')}, {_listed(said)}."] if said else []
    if sums["deliveries"]:
        again = data.total("COUNT_OF_TAKEOVERS")
        took_over = f"{counted(again, 'attempt', 'attempts')} took over from one without an answer"
        sentences.append(
            f"SQS made {counted(sums['deliveries'], 'delivery', 'deliveries')}, of which "
            f"{counted(sums['deliveries_duplicate'], 'was a duplicate', 'were duplicates')} and got the first answer. "
            f"{took_over if again else 'No attempt took over from a crashed one'}."
        )
    if broken:
        sentences.append(
            f"Not everything holds: {', '.join(broken)}. The findings are below; the repair lists are in repair/, beside "
            "this page."
        )
    else:
        sentences.append(f"All {invariants} invariants that a history can show hold, and no export has an item twice.")
    within = dict(named_percentiles(data.latency))
    if within:
        sentences.append(
            f"Half were answered within {duration(within['50 %'])}, 99 % within {duration(within['99 %'])}."
        )
    return sentences


def _listed(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def duration(milliseconds: int) -> str:
    """Return a time with two or three digits and a unit."""
    for unit, length, least in (("h", 3_600_000, 2), ("min", 60_000, 2), ("s", 1_000, 1)):
        if milliseconds >= least * length:
            value = milliseconds / length
            return f"{value:.0f} {unit}" if value >= 10 else f"{value:.1f} {unit}"  # noqa: PLR2004
    return f"{milliseconds} ms"
