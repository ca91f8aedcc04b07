"""`oneslot`: the command line. Every error becomes a sentence and an exit status, never a traceback."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from itertools import pairwise
from typing import Any, NoReturn

import click

from oneslot.commands.env import env
from oneslot.commands.worker import worker
from oneslot.errors import OneslotError
from oneslot.explanations import DEBUG_VARIABLE, explain, with_notes

FAILURE, INTERRUPTED = 1, 130
STACK_OPTION = "--stack"
APPLICATION = ("appointments", "booking", "workload")
APPLICATION_IS_MISSING = (
    "Only env and worker are available here: the other verbs need the appointments application. "
    "Run them in Oneslot's repository, after `make` and `source .venv/bin/activate`."
)


class Verbs(click.Group):
    """The group of verbs, and the one place where errors become sentences."""

    def main(  # type: ignore[override]  # click has more parameters: `extra`
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> NoReturn:
        """Run one command line and exit."""
        arguments = list(sys.argv[1:] if args is None else args)
        extra["standalone_mode"] = False
        sys.exit(
            run_command(
                lambda: super(Verbs, self).main(arguments, prog_name or "oneslot", **extra),
                as_json="--json" in arguments,
                stack=find_stack(arguments),
            )
        )

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the verbs in the order of use, rather than of the alphabet."""
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the verb. Raise `OneslotError` for one that needs the application where that is not installed."""
        if not application_is_installed() and args[0] not in self.commands:
            raise OneslotError(APPLICATION_IS_MISSING)
        return super().resolve_command(ctx, args)


def run_command(command: Callable[[], Any], *, as_json: bool, stack: str | None = None) -> int:
    """Run a command and return its exit status. Report an error as a sentence for `stack`, the value of `--stack`."""
    try:
        status = command()
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.ClickException as error:
        if as_json:
            report_error(error.format_message(), as_json=True)
        else:
            error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt) as error:
        interrupt = error.__cause__ or error  # click replaces the interrupt, whose text may say how to continue
        report_error(with_notes(str(interrupt) or "Interrupted.", interrupt), as_json=as_json)
        return INTERRUPTED
    except Exception as error:
        if os.environ.get(DEBUG_VARIABLE):
            raise
        report_error(explain(error, stack), as_json=as_json)
        return error.exit_code if isinstance(error, OneslotError) else FAILURE
    return status if isinstance(status, int) else 0


def report_error(text: str, *, as_json: bool) -> None:
    """Write an error to standard error, and with `as_json` as a document to standard output."""
    click.echo(f"Error: {text}", err=True)
    if as_json:
        click.echo(json.dumps({"error": text}, indent=2))


def find_stack(arguments: Sequence[str]) -> str | None:
    """Return the last value of `--stack`, which is the one that click takes; None without the option."""
    stack = None
    for argument, following in pairwise([*arguments, None]):
        option, equals, value = str(argument).partition("=")
        if option == STACK_OPTION:
            stack = value if equals else following
    return stack


def application_is_installed() -> bool:
    """Return True in the repository, and False where `pip install oneslot` brought the library alone."""
    return all(find_spec(package) for package in APPLICATION)


def all_verbs() -> Sequence[click.Command]:
    """Return the verbs in the order of use. Needs the application."""
    from oneslot import application
    from oneslot.commands.audit import audit
    from oneslot.commands.backfill import backfill
    from oneslot.commands.check import check
    from oneslot.commands.dlq.group import dlq
    from oneslot.commands.explore import explore
    from oneslot.commands.export import export
    from oneslot.commands.inspect import inspect
    from oneslot.commands.ledger import ledger
    from oneslot.commands.simulate import simulate
    from oneslot.commands.stack import down, up
    from oneslot.commands.status import status
    from oneslot.commands.watch import watch

    seed, send, smoke, run = application.verbs()
    deployed = (up, env, seed, send, watch, inspect, status, check, smoke, dlq, ledger)
    return (*deployed, export, audit, backfill, worker, explore, simulate, down, run)


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="oneslot", message="%(prog)s %(version)s")
def main() -> None:
    """Give every appointment request exactly one slot, however often it is delivered.

    \b
    oneslot run                deploy, send, drain and judge on this machine
    oneslot up, seed, send     the same, step by step
    oneslot check              count the evidence, and judge it
    oneslot dlq, ledger        inspect what failed, and repair it

    Every verb but up, down, run, explore and simulate also works on a stack on AWS: --stack NAME.
    """


for verb in all_verbs() if application_is_installed() else (env, worker):
    main.add_command(verb)
