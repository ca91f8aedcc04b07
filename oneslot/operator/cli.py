"""`oneslot`: the command line. Every error becomes a sentence and an exit status, never a traceback."""

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import cache
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, NoReturn

import click

from oneslot import __version__
from oneslot.declaration.declaration import Declaration
from oneslot.declaration.reading import choosing, find_declaration
from oneslot.errors import InvalidArguments, InvalidDeclaration
from oneslot.operator.explanations import DEBUG_VARIABLE, explain, notes_of
from oneslot.wording import visible

INTERRUPTED = 130
CONSUMER_OPTION, STACK_OPTION = "--consumer", "--stack"
REPLACEABLE = "send"
"""The verb that a consumer may have in a form of its own, under the same name."""


class Verbs(click.Group):
    """The group of verbs, and the one place where errors become sentences."""

    def main(  # type: ignore[override]  # click has more parameters: `extra`
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> NoReturn:
        """Run one command line and exit."""
        arguments = list(sys.argv[1:] if args is None else args)
        extra["standalone_mode"] = False
        consumer = Path(find_option(arguments, CONSUMER_OPTION) or "")
        # Chosen before click reads the options: the consumer decides which verbs there are.
        with choosing(consumer) if consumer.is_file() else nullcontext():
            status = run_command(
                lambda: super(Verbs, self).main(arguments, prog_name or "oneslot", **extra),
                as_json="--json" in arguments,
                stack=find_option(arguments, STACK_OPTION),
            )
        sys.exit(status)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the verbs in the order of use, rather than of the alphabet, and last the declared consumer's own."""
        return list(dict.fromkeys([*self.commands, *own_verbs()]))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the verbs below the headings of their groups."""
        common = all_verbs().items()
        groups = {head: [(str(each.name), each.get_short_help_str(90)) for each in verbs] for head, verbs in common}
        if (own := own_verbs()) and (declaration := find_declaration()):
            groups[f"Verbs of {declaration.name}"] = [each for each in own.items() if each[0] not in self.commands]
        longest = max(len(name) for rows in groups.values() for name, _ in rows)
        for heading, rows in groups.items():
            with formatter.section(heading):
                formatter.write_dl([(f"{name:{longest}}", said) for name, said in rows])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a verb of every consumer, or the declared consumer's own."""
        common = super().get_command(ctx, cmd_name)
        if common is not None and cmd_name != REPLACEABLE:
            return common
        declaration, dotted = find_declaration(), own_verbs().get(cmd_name)
        if declaration is None or dotted is None:
            return common
        if ctx.resilient_parsing:  # Tab in a folder must not run its code
            return common or click.Command(cmd_name, short_help=dotted)
        return _own_verb(declaration, cmd_name, dotted)


def run_command(command: Callable[[], Any], *, as_json: bool, stack: str | None = None) -> int:
    """Run a command and return its exit status. Report an error as a sentence for `stack`, the value of `--stack`."""
    try:
        status = command()
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.ClickException as error:
        if as_json:
            report_error(error.format_message(), InvalidArguments.code, as_json=True)
        else:
            vars(error)["message"] = f"{_visible_lines(error.message or '')} [{InvalidArguments.code}]".strip()
            error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt) as error:
        interrupt = error.__cause__ or error  # click replaces the interrupt, whose text may say how to continue
        report_error(_with_notes(str(interrupt) or "Interrupted.", interrupt), "interrupted", as_json=as_json)
        return INTERRUPTED
    except Exception as error:
        if os.environ.get(DEBUG_VARIABLE):
            raise
        explained = explain(error, stack)
        report_error(_with_notes(str(explained), explained), explained.code, as_json=as_json)
        return explained.exit_code
    return status if isinstance(status, int) else 0


def report_error(text: str, code: str, *, as_json: bool) -> None:
    """Write an error and its code to standard error, and with `as_json` as a document to standard output."""
    click.echo(f"Error: {_visible_lines(text)} [{code}]", err=True)
    if as_json:
        click.echo(json.dumps({"error": text, "code": code}, indent=2))


def _with_notes(text: str, error: BaseException) -> str:
    return " ".join([text, *notes_of(error)])


def _visible_lines(text: str) -> str:
    return "\n".join(visible(line) for line in text.split("\n"))


def find_option(arguments: Sequence[str], name: str) -> str | None:
    """Return the last value of an option, which is the one that click takes; None without the option."""
    found = None
    for argument, following in pairwise([*arguments, None]):
        option, equals, value = str(argument).partition("=")
        if option == name:
            found = value if equals else following
    return found


def own_verbs() -> dict[str, str]:
    """Return the dotted names of the declared consumer's own verbs by the verbs' names. Nothing is imported."""
    declaration = find_declaration()
    return {name.rpartition(".")[2].replace("_", "-"): name for name in (declaration.verbs if declaration else ())}


def _own_verb(declaration: Declaration, name: str, dotted: str) -> click.Command:
    """Import a verb of the declared consumer. Raise `BadInput` for one that is not a verb."""
    found = declaration.load(dotted, "verbs")
    if isinstance(found, click.Command):
        return found
    if not callable(found):
        raise InvalidDeclaration(
            f"{declaration.path}: verbs names {dotted!r}, which is of type {type(found).__name__}. "
            "Name a click command, or a function from a list of arguments to an exit status."
        )
    main_function: Callable[[list[str]], Any] = found

    @click.command(
        name,
        short_help=(found.__doc__ or "").partition("\n")[0],
        context_settings={"ignore_unknown_options": True, "help_option_names": []},
    )
    @click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
    def verb(arguments: tuple[str, ...]) -> Any:
        return main_function(list(arguments))

    return verb


@cache
def all_verbs() -> Mapping[str, Sequence[click.Command]]:
    """Return the verbs of every consumer in the order of use, by the heading of their group."""
    from oneslot.operator.commands.audit import audit
    from oneslot.operator.commands.check import check
    from oneslot.operator.commands.dlq import dlq
    from oneslot.operator.commands.docs import docs
    from oneslot.operator.commands.explore.explore import explore
    from oneslot.operator.commands.explore.scan import scan
    from oneslot.operator.commands.export import export
    from oneslot.operator.commands.inspect import inspect
    from oneslot.operator.commands.ledger import ledger
    from oneslot.operator.commands.new import new
    from oneslot.operator.commands.pause import pause, resume
    from oneslot.operator.commands.rights import rights
    from oneslot.operator.commands.send import send
    from oneslot.operator.commands.stack import down, env, up
    from oneslot.operator.commands.watch import status, watch
    from oneslot.operator.commands.worker.relay import relay
    from oneslot.operator.commands.worker.worker import worker

    return {
        "Start": (new, up, env, down, docs),
        "Send and consume": (send, worker, relay),
        "Watch and judge": (watch, status, inspect, check, export, audit),
        "Repair": (dlq, ledger, pause, resume, rights),
        "Explore": (explore, scan),
    }


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="oneslot", message="%(prog)s %(version)s")
def main() -> None:
    """Make each message of a queue take effect exactly once, and show that it did.

    Verbs with --stack NAME also work on a stack on AWS, and those with --consumer FILE on another consumer.

    \b
    To complete verbs and options by Tab, in bash (for zsh: zsh_source):
    eval "$(_ONESLOT_COMPLETE=bash_source oneslot)"
    """


for each_verb in chain.from_iterable(all_verbs().values()):
    main.add_command(each_verb)
