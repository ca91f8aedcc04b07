"""`check`: the evidence counted and judged."""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress

import click
from rich.table import Table
from rich.text import Text

from oneslot.declaration.reading import declared
from oneslot.operator.evidence.gathering import gather
from oneslot.operator.evidence.malformed import format_malformed
from oneslot.operator.evidence.tables import format_missing
from oneslot.operator.evidence.verdict import CheckVerdict, Counts, judge, seen_before, unsettled
from oneslot.operator.options import on_stack
from oneslot.operator.target import Target
from oneslot.operator.terminal import Terminal, table
from oneslot.wording import count_text, counted, numbered, verdict_text

LOOKS = 3
BREACHES_SHOWN = 10
COLOURS = {"holds": "bold green", "unfinished": "bold yellow", "nothing": "bold yellow"}


@click.command(short_help="Count the evidence, and check every invariant.")
@on_stack
def check(terminal: Terminal, target: Target) -> int:
    """Count the evidence, check every invariant on it, and give a verdict.

    The evidence is the tables, the delivery log, the dead-letter queue and the archive of accepted requests.
    Exit status 0 only if every invariant holds, no request is unfinished, and the report is written.
    """
    verdict, unwritten = check_target(target, terminal)
    terminal.result({"stack_name": target.stack_name, **verdict.document(), "unwritten": unwritten})
    show(terminal, target, verdict)
    terminal.warn(unwritten)
    return 0 if verdict.holds and not unwritten else 1


def check_target(target: Target, terminal: Terminal) -> tuple[CheckVerdict, list[str]]:
    """Gather and judge the evidence, and write the report beside it. No report of an earlier check stays.

    Returns the verdict, and a sentence if the report cannot be written.
    """
    with suppress(OSError):  # reported below, where the new report cannot be written either
        target.report.unlink(missing_ok=True)
    with terminal.working("Gathering the evidence"):
        verdict = _judged(target)
    try:
        target.report.parent.mkdir(parents=True, exist_ok=True)
        target.report.write_text(json.dumps({"stack_name": target.stack_name, **verdict.document()}, indent=2) + "\n")
    except OSError as error:
        return verdict, [f"{target.report} cannot be written ({error.strerror}), so this check has no report."]
    return verdict, []


def _judged(target: Target) -> CheckVerdict:
    """Judge the evidence; on a breach, gather and judge again, because the tables are not read at one moment.

    A request that commits between the reads of two tables looks broken once. A real breach shows every time.
    """
    verdict = judge(gather(target), target.command)
    for _ in range(LOOKS - 1):
        if not verdict.breaches:
            return verdict
        gathered = gather(target)
        later = judge(gathered, target.command)
        if lasting := seen_before(later.breaches, verdict.breaches):
            return judge(gathered, target.command, lasting)
        verdict = later
    return unsettled(verdict, target.command) if verdict.breaches else verdict


def show(terminal: Terminal, target: Target, verdict: CheckVerdict) -> None:
    """Show the counts, the breaches, and the verdict in one sentence."""
    if verdict.counts.verdicts:
        terminal.show(verdicts_table(verdict.counts.verdicts))
    terminal.show(counts_table(verdict.counts, declared().twice))
    for sentence in format_reused(verdict.counts):
        terminal.plain(sentence)
    if verdict.breaches:
        shown = table("Breaches", "Invariant", "Subject", "Detail")
        for breach in verdict.breaches[:BREACHES_SHOWN]:
            shown.add_row(breach.invariant, breach.subject, breach.detail)
        terminal.show(shown)
        if len(verdict.breaches) > BREACHES_SHOWN:
            terminal.plain(f"... and {len(verdict.breaches) - BREACHES_SHOWN:,} more: see --json.")
    terminal.warn(format_malformed(verdict.malformed, target.command))
    terminal.warn(format_missing(verdict.missing, target.command))
    terminal.plain()
    terminal.sentence(verdict.sentence, style=COLOURS.get(verdict.kind, "bold red"))


def counts_table(counts: Counts, twice: str) -> Table:
    """Return the counts as a table, the alarming ones in colour."""
    shown = table("Evidence", "What", "Count", numbers=(1,))

    def row(name: str, count: int | None, style: str = "") -> None:
        shown.add_row(Text(name, style=style), Text(count_text(count), style=style))

    row("requests", counts.requests)
    if counts.unarchived:
        row("  not sent by `oneslot send`", counts.unarchived)
    row("messages sent by `oneslot send`", counts.messages)
    row("deliveries in the delivery log", counts.deliveries)
    if counts.malformed_deliveries:
        row("  malformed lines, ignored", counts.malformed_deliveries, "bold red")
    row("  duplicates, which got the first answer", counts.duplicates, "cyan")
    shown.add_section()
    row("dead letters", sum(counts.dead_letters.values()))
    for reason, count in counts.dead_letters.items():
        row(f"  {reason}", count)
    shown.add_section()
    row("lost", counts.lost, "bold red" if counts.lost else "green")
    row(twice, counts.double_booked, "bold red" if counts.double_booked else "green")
    return shown


def verdicts_table(verdicts: Mapping[str, int]) -> Table:
    """Return the number of requests by verdict as a table, in which check and audit agree."""
    shown = table("Requests by verdict", "Verdict", "Requests", numbers=(1,))
    for verdict, count in verdicts.items():
        shown.add_row(verdict_text(verdict, declared().twice), f"{count:,}")
    shown.add_section()
    shown.add_row("all", f"{sum(verdicts.values()):,}")
    return shown


def format_reused(counts: Counts) -> Iterator[str]:
    """Yield why the requests are fewer than the messages sent, if some reuse an id with other content."""
    if counts.reused and counts.requests is not None:
        requests = counts.requests - (counts.unarchived or 0)
        reused = counted(counts.reused, "of them a known id", "of them known ids")
        yield f"{requests + counts.reused:,} sent, {reused} with other content: {numbered(requests, 'request')}."
