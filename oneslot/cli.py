"""`oneslot`: the command line. Whatever goes wrong is a sentence and an exit status, never a traceback."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NoReturn

import click

from oneslot.commands.audit import audit, backfill, export
from oneslot.commands.check import check
from oneslot.commands.dlq import dlq
from oneslot.commands.env import env
from oneslot.commands.explore import prove
from oneslot.commands.inspect import inspect
from oneslot.commands.ledger import ledger
from oneslot.commands.stack import down, up
from oneslot.commands.status import status, watch
from oneslot.commands.worker import worker
from oneslot.errors import OneslotError
from oneslot.sentences import DEBUG_VARIABLE, sentence, with_notes
from workload.commands.run import run
from workload.commands.seed import seed
from workload.commands.send import send
from workload.commands.smoke import smoke

FAILURE, USAGE, INTERRUPTED = 1, 2, 130
STACK_OPTION = "--stack"
NOBODY_READS = 141
"""As shells have it of a program that SIGPIPE ended: not 1, which is the verdict of a check that found something."""


class Verbs(click.Group):
    """The group of verbs, with the one place where errors become sentences."""

    def main(  # type: ignore[override]  # click has more parameters: `extra`
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> NoReturn:
        """Run one command line and exit."""
        arguments = list(sys.argv[1:] if args is None else args)
        extra["standalone_mode"] = False
        sys.exit(
            guarded(
                lambda: super(Verbs, self).main(arguments, prog_name or "oneslot", **extra),
                "--json" in arguments,
                stack_of(arguments),
            )
        )

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order in which they are used, not of the alphabet."""
        return list(self.commands)


def stack_of(arguments: Sequence[str]) -> str | None:
    """Return what a command line gives to `--stack`, the last of it as click has it; None if it does not."""
    stack = None
    for argument, following in pairwise([*arguments, None]):
        option, equals, value = str(argument).partition("=")
        if option == STACK_OPTION:
            stack = value if equals else following
    return stack


def guarded(command: Callable[[], Any], as_json: bool, stack: str | None = None) -> int:
    """Run a command and return the exit status; an error is told in a sentence, for the stack that was named."""
    try:
        status = _flushed(command)
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.ClickException as error:
        if as_json:
            _tell(error.format_message(), as_json=True)
        else:
            error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt) as error:
        # click makes its own of an interrupt; whoever raised it may have said how to go on
        interrupt = error.__cause__ or error
        _tell(with_notes(str(interrupt) or "Interrupted.", interrupt), as_json)
        return INTERRUPTED
    except (BrokenPipeError, SystemExit):
        # The reader of our output has gone, as with `| head`; where click sees it first, it exits, and nothing of ours
        # does. Nothing may be written any more, not even at exit.
        _write_no_more()
        return NOBODY_READS
    except Exception as error:
        if os.environ.get(DEBUG_VARIABLE):
            raise
        _tell(sentence(error, stack), as_json)
        return error.exit_code if isinstance(error, OneslotError) else FAILURE
    return status if isinstance(status, int) else 0


def _flushed(command: Callable[[], Any]) -> Any:
    """Run a command until its output is out, as long as an error of that can be told."""
    status = command()
    sys.stdout.flush()
    return status


def _write_no_more() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _tell(what: str, as_json: bool) -> None:
    click.echo(f"Error: {what}", err=True)
    try:
        if as_json:
            click.echo(json.dumps({"error": what}, indent=2))
        sys.stdout.flush()
    except OSError:  # what cannot be written is told on standard error, above
        _write_no_more()


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="oneslot", message="%(prog)s %(version)s")
def main() -> None:
    """Every appointment request gets exactly one slot, however often it is delivered.

    \b
    oneslot run                the whole way on this machine, with a verdict
    oneslot up, seed, send     the same, step by step
    oneslot check              count what is there, and judge it
    oneslot dlq, ledger        look at what went wrong, and repair it

    Every verb but up, down, run and prove works on a stack on AWS, too: --stack NAME.
    """


for verb in (
    *(up, env, seed, send, watch, inspect, status, check, smoke, dlq, ledger),
    *(export, audit, backfill, worker, prove, down, run),
):
    main.add_command(verb)
