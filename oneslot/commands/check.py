"""`check`: count the evidence, and judge it."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from oneslot.evidence.gathering import gather
from oneslot.evidence.missing import told
from oneslot.evidence.unusable import sentences
from oneslot.evidence.verdict import Counts, Verdict, changing, judge, seen_before
from oneslot.options import json_option, stack_option
from oneslot.target import Target, open_target
from oneslot.terminal import Terminal, table
from oneslot.wording import count_text

LOOKS = 3
BREACHES_SHOWN = 10
COLOURS = {
    "holds": "bold green",
    "broken": "bold red",
    "unreadable": "bold red",
    "unfinished": "bold yellow",
    "nothing": "bold yellow",
}


@click.command(short_help="Count what is there, check every invariant, give a verdict.")
@stack_option
@json_option
def check(stack: str | None, as_json: bool) -> int:
    """Count from the evidence: tables, delivery log, dead-letter queue, archive of accepted requests.

    Exit status 0 only if every invariant holds, nothing is left to be done, and the report is written.
    """
    terminal = Terminal(as_json)
    target = open_target(stack)
    verdict, unwritten = check_target(target, terminal)
    terminal.result({"stack_name": target.stack_name, **verdict.document(), "unwritten": unwritten})
    show(terminal, target, verdict)
    terminal.warn(unwritten)
    return 0 if verdict.holds and not unwritten else 1


def check_target(target: Target, terminal: Terminal) -> tuple[Verdict, list[str]]:
    """Gather and judge, and leave the report beside the other evidence. None of an earlier check stays, however this ends.

    Returns the verdict, and a sentence if the report cannot be written: that is no reason to keep the verdict back.
    """
    with suppress(OSError):  # told when the new one cannot be written either
        target.report.unlink(missing_ok=True)
    with terminal.working("Gathering the evidence"):
        verdict = _judged(target)
    document: dict[str, Any] = {"stack_name": target.stack_name, **verdict.document()}
    try:
        target.report.parent.mkdir(parents=True, exist_ok=True)
        target.report.write_text(json.dumps(document, indent=2) + "\n")
    except OSError as error:
        return verdict, [
            f"{target.report} cannot be written ({error.strerror}): what is there is no report of this check."
        ]
    return verdict, []


def _judged(target: Target) -> Verdict:
    """Look again where something is broken: the tables are not read at one moment.

    A request that commits between the reading of one table and that of another looks broken, and no longer does so the next
    time. What is broken is so every time.
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
    return changing(verdict, target.command) if verdict.breaches else verdict


def show(terminal: Terminal, target: Target, verdict: Verdict) -> None:
    """The counts in a table, the breaches if there are any, and the verdict in one sentence."""
    terminal.show(counts_table(verdict.counts))
    if verdict.breaches:
        shown = table("Breaches", "Invariant", "Subject", "What")
        for breach in verdict.breaches[:BREACHES_SHOWN]:
            shown.add_row(breach.invariant, breach.subject, breach.detail)
        terminal.show(shown)
        if len(verdict.breaches) > BREACHES_SHOWN:
            terminal.plain(f"... and {len(verdict.breaches) - BREACHES_SHOWN:,} more: see --json.")
    terminal.warn(sentences(verdict.unusable, target.command))
    terminal.warn(told(verdict.missing, target.command))
    terminal.plain()
    terminal.plain(verdict.sentence, style=COLOURS[verdict.judgement])


def counts_table(counts: Counts) -> Table:
    """Return the counts, the alarming ones in colour."""
    shown = table("What the evidence says", "What", "Count", numbers=(1,))

    def row(name: str, count: int | None, style: str = "") -> None:
        shown.add_row(Text(name, style=style), Text(count_text(count), style=style))

    row("requests accepted by the queue", counts.requests)
    row("  of these malformed", counts.malformed)
    row("messages, re-sent copies included", counts.messages)
    row("deliveries, by the delivery log", counts.deliveries)
    if counts.malformed_deliveries:
        row("  malformed lines, left out", counts.malformed_deliveries, "bold red")
    shown.add_section()
    row("appointments", counts.appointments)
    row("  booked", counts.booked, "green")
    row("  on the waitlist", counts.waitlisted, "yellow")
    row("  cancelled", counts.cancelled)
    row("requests refused", counts.refused)
    row("duplicates suppressed", counts.duplicates_suppressed, "cyan")
    shown.add_section()
    row("quarantined", sum(counts.quarantined.values()))
    for reason, count in counts.quarantined.items():
        row(f"  {reason}", count)
    shown.add_section()
    row("lost", counts.lost, "bold red" if counts.lost else "green")
    row("double-booked", counts.double_booked, "bold red" if counts.double_booked else "green")
    return shown
