"""`seed`: practices and their free slots."""

import time
from collections.abc import Sequence
from typing import Any

import click

from appointments.messages import ODS_CODE
from demo.plan import Plan, make_plan, save
from demo.seeding import seed as insert
from oneslot.operator.options import COUNT, json_option, stack_option
from oneslot.operator.target import Target, open_target
from oneslot.operator.terminal import Terminal
from oneslot.wording import numbered


class Code(click.ParamType[str]):
    """A practice's ODS code."""

    name = "code"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the code. Raise a usage error for anything else."""
        if not ODS_CODE.fullmatch(str(value)):
            self.fail(f"{value!r} is not an ODS code, e.g. A81001.", param, ctx)
        return str(value)


PRACTICES = 12
"""Made-up practices, unless a number is given."""


@click.command(short_help="Open slots at made-up practices, or at yours.")
@click.option(
    "--practice", "practices", multiple=True, type=Code(), metavar="CODE", help="Open slots at this practice."
)
@click.option("--practice-count", type=COUNT, metavar="N", help="Open slots at N made-up practices. Default: 12.")
@click.option("--slots", type=COUNT, metavar="N", default=4000, show_default=True, help="Open N slots in all.")
@click.option(
    "--seed",
    "seed_number",
    type=int,
    metavar="N",
    default=1,
    show_default=True,
    help="Use this seed: it opens the same slots again.",
)
@stack_option
@json_option
def seed(
    *,
    practices: Sequence[str],
    practice_count: int | None,
    slots: int,
    seed_number: int,
    stack: str | None,
    as_json: bool,
) -> None:
    """Open next week's slots at practices, in proportion to a made-up demand, from 08:00 to 18:30 UK time.

    Safe to repeat: a slot that exists stays as it is, booked or free.
    """
    if practices and practice_count:
        raise click.UsageError("--practice names the practices. Leave out --practice-count.")
    terminal = Terminal(as_json)
    plan = make_plan(sorted({*practices}) or practice_count or PRACTICES, slots, seed_number)
    target = open_target(stack)
    started = time.monotonic()
    created = seed_plan(target, plan, terminal)
    seconds = time.monotonic() - started
    terminal.result(
        {
            "stack_name": target.stack_name,
            "practices": len(plan.practices),
            "first_day": plan.days[0].isoformat(),
            "last_day": plan.days[-1].isoformat(),
            "slots": plan.slots,
            "created": created,
            "kept": plan.slots - created,
            "seconds": round(seconds, 3),
        }
    )
    terminal.plain(
        f"{numbered(plan.slots, 'slot')} at {numbered(len(plan.practices), 'practice')}, "
        f"{plan.days[0]} to {plan.days[-1]}: "
        f"{created:,} new, {plan.slots - created:,} existing and unchanged."
    )


def seed_plan(target: Target, plan: Plan, terminal: Terminal) -> int:
    """Insert the plan's slots, and note it for `send`. Return how many are new."""
    with terminal.progress("Seeding slots", plan.slots) as progress:
        created = insert(plan.items(), target.dynamodb, target.outputs.tables["slots"], progress=progress)
    save(plan, target.plan, target.identity)
    return created
