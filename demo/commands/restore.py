"""`restore`: put rows back from tables that were restored beside the deployed ones."""

from __future__ import annotations

from collections import Counter
from datetime import datetime

import click

from demo.restoring import STAYS, Difference, differences, put_back
from oneslot.operator.commands.frame import on_stack
from oneslot.operator.evidence.operator_log import open_operator_log
from oneslot.operator.repair.pausing import require_standstill
from oneslot.options import yes_option
from oneslot.target import Target
from oneslot.terminal import DRY_RUN, Terminal


def _moment(_: click.Context, __: click.Parameter, text: str) -> int:
    """Return a moment with a time zone as epoch milliseconds."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise click.BadParameter(f"{text!r} is not a time with a time zone. Write it as 2026-11-23T02:39:00Z.")
    return int(moment.timestamp() * 1000)


@click.command(short_help="Put rows back from restored tables.")
@click.option(
    "--since", callback=_moment, required=True, metavar="TIME", help="The moment of the restored tables, in UTC."
)
@click.option("--suffix", default="-before", show_default=True, help="The end of the restored tables' names.")
@click.option("--everything", is_flag=True, help="Make the tables equal to the restored ones: no row stays.")
@yes_option
@on_stack
def restore(terminal: Terminal, target: Target, *, since: int, suffix: str, everything: bool, yes: bool) -> int:
    """List the rows that differ from the tables restored beside these; with --yes, put them back.

    Rows that the consumer wrote since --since stay, and so do rows that the restored table lacks. With --yes the consumer
    must be paused, with no message in flight. A row that changes meanwhile is named and left. The operator log keeps each
    earlier row. docs/do/restore.md has every step.
    """
    if yes:
        require_standstill(target)
    with terminal.working("Comparing the tables"):
        found = list(differences(target, suffix=suffix, since_ms=since, everything=everything))
    for one in found:
        terminal.plain(f"{one.what}  {_name(one)}")
    left: list[Difference] = []
    log = open_operator_log(target)
    if yes:
        require_standstill(target)  # again, because large tables take minutes to compare
        subject = {"since_ms": since, "suffix": suffix, "everything": everything}
        left = [one for one in found if one.what != STAYS and not put_back(target, one, log, subject)]
    counts = dict(Counter(one.what for one in found))
    terminal.result(
        {
            "rows": [_document(one) | {"what": one.what} for one in found],
            "counts": counts,
            "done": yes,
            "left": [_document(one) for one in left],
            **({"operator_log": str(log.path)} if yes else {}),
        }
    )
    summary = ", ".join(f"{number} {what}" for what, number in counts.items()) or "The tables are equal"
    terminal.plain(f"{summary}. " + (f"Done. The operator log is {log.path}." if yes else DRY_RUN))
    terminal.warn(f"Left as it is, because it has changed since it was compared: {_name(one)}." for one in left)
    return 1 if left else 0


def _name(one: Difference) -> str:
    return f"{one.table}  {'/'.join(value for _, value in one.key)}"


def _document(one: Difference) -> dict[str, object]:
    return {"table": one.table, "key": dict(one.key)}
