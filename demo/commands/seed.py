"""`seed`: practices and their free slots."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import click

from appointments.messages import ODS_CODE
from demo.plan import Plan, make_plan, save
from demo.practices import Demand, synthetic_demand, synthetic_practices
from demo.seeding import Seeded, SlotWriter
from demo.seeding import seed as insert
from demo.slots import LOCAL_TIME, demanded_slots, next_monday
from oneslot.options import COUNT, json_option, stack_option
from oneslot.target import Target, open_target
from oneslot.terminal import Terminal
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
DAYS = 5


@click.command(short_help="Open slots at made-up practices, or at yours.")
@click.option(
    "--practice", "practices", multiple=True, type=Code(), metavar="CODE", help="Open slots at this practice."
)
@click.option("--practice-count", type=COUNT, metavar="N", help="Open slots at N made-up practices. Default: 12.")
@click.option(
    "--slots", type=COUNT, metavar="N", help="Open N slots in all. Default: as many as the demand, up to 4,000."
)
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
    slots: int | None,
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
    codes = sorted({*practices}) or synthetic_practices(practice_count or PRACTICES)
    demands = list(synthetic_demand(codes, seed_number))
    plan = open_week(demands, slots, seed_number)
    target = open_target(stack)
    asked = demanded_slots(demands, DAYS)
    if slots is None and plan.slots < asked:
        terminal.say(f"The demand is {asked:,} slots, of which {plan.slots:,} are opened. Open more with --slots.")
    started = time.monotonic()
    seeded = seed_plan(target, plan, terminal)
    seconds = time.monotonic() - started
    terminal.result(
        {
            "stack_name": target.stack_name,
            "practices": len(plan.openings),
            "first_day": plan.days[0].isoformat(),
            "last_day": plan.days[-1].isoformat(),
            "slots": plan.slots,
            "created": seeded.created,
            "kept": seeded.kept,
            "seconds": round(seconds, 3),
        }
    )
    terminal.plain(
        f"{numbered(plan.slots, 'slot')} at {numbered(len(plan.openings), 'practice')}, "
        f"{plan.days[0]} to {plan.days[-1]}: "
        f"{seeded.created:,} new, {seeded.kept:,} existing and unchanged."
    )


def open_week(demands: Sequence[Demand], slots: int | None, seed: int) -> Plan:
    """Plan next week's slots; see `make_plan`."""
    return make_plan(demands, next_monday(datetime.now(LOCAL_TIME).date()), DAYS, slots, seed)


def seed_plan(target: Target, plan: Plan, terminal: Terminal) -> Seeded:
    """Insert the plan's slots, and note it for `send`."""
    writer = SlotWriter(target.dynamodb, target.outputs.tables["slots"])
    with terminal.progress("Seeding slots", plan.slots) as progress:
        seeded = insert(plan.items(), writer, progress=progress)
    save(plan, target.plan, target.identity)
    return seeded
