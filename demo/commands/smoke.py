"""`smoke`: one request booked once, cancelled and cleaned up, on a deployed stack."""

from __future__ import annotations

from collections.abc import Callable

import click
from botocore.exceptions import BotoCoreError, ClientError

from demo.smoke import Smoke
from oneslot.errors import OneslotError
from oneslot.explanations import explain
from oneslot.options import Number, json_option, stack_option
from oneslot.target import open_target
from oneslot.terminal import Terminal

LOCAL_INTERVAL, AWS_INTERVAL = 0.2, 2.0


@click.command(short_help="Test a new deployment: book once from two copies, cancel, clean up.")
@click.option(
    "--timeout",
    type=Number(min=0, min_open=True),
    default=120.0,
    show_default=True,
    metavar="SECONDS",
    help="Fail a step after this time.",
)
@stack_option
@json_option
def smoke(timeout: float, stack: str | None, as_json: bool) -> int:
    """Send a request and its duplicate, and check for one appointment; then cancel it and check that its slot is free.

    It books the only slot of a made-up practice. The cancelled appointment of a made-up patient and two ledger rows remain,
    because the audit compares them with the delivery log. The rows expire.
    """
    terminal = Terminal(as_json)
    target = open_target(stack)
    steps: list[str] = []

    def say(step: str) -> None:
        steps.append(step)
        terminal.plain(f"ok  {step}")

    test = Smoke(target, timeout, LOCAL_INTERVAL if target.local else AWS_INTERVAL, say)
    failures = []
    try:
        failures += _failures(test.check, stack)
    finally:
        # Also after Ctrl-C, so that no slot and no appointment remain.
        terminal.say(f"Cleaning up after {test.message_id} at {test.practice}")
        failures += _failures(test.clean_up, stack)
    failure = next(iter(failures), None)
    remains = test.remains()
    terminal.result(
        {
            "stack_name": target.stack_name,
            "passed": failure is None,
            "failure": failure,
            "practice": test.practice,
            "message_id": test.message_id,
            "steps": steps,
            "remains": remains,
        }
    )
    if failure:
        terminal.plain(f"FAILED  {failure}", style="red")
    terminal.plain(f"What remains: {'; '.join(remains) or 'nothing'}.")
    if failure is None:
        terminal.plain(f"{target.stack_name} works.", style="green")
    return 0 if failure is None else 1


def _failures(part: Callable[[], None], stack: str | None) -> list[str]:
    """Run a part of the test. Return its failure as a sentence, or an empty list."""
    try:
        part()
    except (OneslotError, BotoCoreError, ClientError) as error:
        return [str(explain(error, stack))]
    return []
