"""`dlq`: inspect the dead-letter queue, send its messages through again, or drop them."""

from __future__ import annotations

import click

from oneslot.operator.commands.repair.dlq.drop import drop
from oneslot.operator.commands.repair.dlq.look import list_letters
from oneslot.operator.commands.repair.dlq.redrive import redrive


@click.group(short_help="Inspect dead letters; redrive or drop them.")
def dlq() -> None:
    """Inspect the dead-letter queue, and repair what is in it. Looking removes nothing; changes need --yes."""


for verb in (list_letters, redrive, drop):
    dlq.add_command(verb)
