"""`status`: one snapshot of a stack."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import partial
from typing import Any

import click

from oneslot.local.state import read_statistics
from oneslot.operator.evidence.malformed import Tally, format_malformed, tally
from oneslot.operator.evidence.observation import Observer, format_failing
from oneslot.operator.evidence.tables import Missing, format_missing, unless_missing
from oneslot.operator.options import on_stack
from oneslot.operator.repair.pausing import find_mapping_state
from oneslot.operator.target import Target
from oneslot.operator.terminal import Terminal, table
from oneslot.wording import count_text


@click.command(short_help="Count messages and the rows of each table.")
@on_stack
def status(terminal: Terminal, target: Target) -> int:
    """Count messages and the rows of each table. On AWS this costs a consistent scan of each table.

    Exit status 1 if a table is missing; the rest is shown even so.
    """
    with terminal.working("Counting"), ThreadPoolExecutor(3) as executor:
        observed = executor.submit(Observer(target).look)
        counting = {
            name: executor.submit(unless_missing, partial(tally, target, each), name, target.outputs.tables[name])
            for name, each in target.declaration.schema.tables.items()
        }
        snapshot = observed.result()
    tallies = {name: each.result() for name, each in counting.items()}
    counted = [each for each in tallies.values() if isinstance(each, Tally)]
    malformed = [*snapshot.malformed, *(one for each in counted for one in each.malformed)]
    missing = [*snapshot.missing, *(each for each in tallies.values() if isinstance(each, Missing))]
    statuses = {
        name: None if isinstance(each, Missing) else dict(sorted(each.statuses.items()))
        for name, each in tallies.items()
    }
    statistics = read_statistics(target.home) if target.local else None
    mapping, unread = find_mapping_state(target)
    document: dict[str, Any] = {
        "stack_name": target.stack_name,
        "mapping": mapping and mapping.document(),
        "endpoint_url": target.local.endpoint_url if target.local else None,
        "queue": asdict(snapshot.queue),
        "dead_letters": snapshot.dead_letters,
        "ledger": {
            "complete": snapshot.complete,
            "in_progress": snapshot.in_progress,
            "released": snapshot.released,
            "unknown": snapshot.unknown,
        },
        **statuses,
        "failing": [asdict(one) for one in snapshot.failing],
        "missing": [asdict(one) for one in missing],
        "malformed": [asdict(one) for one in malformed],
        "poller": statistics.to_json() if statistics else None,
    }
    terminal.result(document)
    if mapping and mapping.off:
        terminal.plain(mapping.sentence(target), style="bold yellow")
    terminal.warn(unread)
    shown = table(f"{target.stack_name} at {document['endpoint_url'] or 'AWS'}", "What", "State", "Count", numbers=(2,))
    for what, counts in (
        ("queue", document["queue"]),
        ("dead-letter queue", {"messages": snapshot.dead_letters}),
        ("ledger", document["ledger"]),
        *statuses.items(),
    ):
        for name, count in (counts or {"none": 0} if counts is not None else {"any": None}).items():
            shown.add_row(what, name.replace("_", " "), count_text(count))
            what = ""  # noqa: PLW2901 - shown once for its rows
        shown.add_section()
    if statistics:
        shown.add_row("local poller", "records handled", f"{statistics.records:,}")
        shown.add_row("", "function errors", f"{statistics.function_errors:,}")
    terminal.show(shown)
    terminal.warn(format_failing(snapshot.failing, target.command))
    terminal.warn(format_malformed(malformed, target.command))
    terminal.warn(format_missing(missing, target.command))
    return int(bool(missing))
