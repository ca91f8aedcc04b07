"""Options that several verbs share, and the types of their values."""

import math
import re
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from oneslot.declaration.reading import choosing, find_declaration
from oneslot.laws.form import is_encodable
from oneslot.operator.target import open_target
from oneslot.operator.terminal import Terminal
from oneslot.runtime.record import MESSAGE_ID_FORM, is_message_id

F = TypeVar("F", bound=Callable[..., Any])

FILE = click.Path(exists=True, dir_okay=False, readable=True, path_type=Path)
FILE_OR_PIPE = click.Path(exists=True, dir_okay=False, readable=True, allow_dash=True, path_type=Path)
NEW_FOLDER = click.Path(exists=False, path_type=Path)


class Number(click.FloatRange):
    """A finite number within bounds: click alone also accepts `nan` and `inf`."""

    name = "number"
    parse: Callable[[Any], float] = float

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number. Raise a usage error for anything else, with the numbers to choose from."""
        try:
            number = self.parse(value)
            finite = math.isfinite(number)
        except (ValueError, OverflowError):
            finite = False
        if not finite:
            self.fail(f"{value!r} is not a {self.name}.", param, ctx)
        low, high = self.min, self.max
        below = low is not None and (number < low or (self.min_open and number == low))
        if below or (high is not None and number > high):
            above = f"more than {low:g}" if self.min_open else f"{low:g} or more"
            choice = above if high is None else f"a number from {low:g} to {high:g}"
            self.fail(f"{number:g} is out of range. Choose {choice}.", param, ctx)
        return number


class WholeNumber(Number):
    """A whole number within bounds."""

    name = "whole number"
    parse = int


COUNT = WholeNumber(min=1)


class SparkMemory(click.ParamType[str]):
    """An amount of memory in Spark's notation: `512m`, `3g`. Spark starts with no less than 450 MB."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the text. Raise a usage error for anything else."""
        found = re.fullmatch(r"([1-9][0-9]*)([kmgt])", str(value).lower())
        if found is None or int(found[1]) << 10 * "kmgt".index(found[2]) < 512 << 10:  # in KB
            self.fail(f"{value!r} is not an amount of memory of 512m or more. Write it as 512m or 3g.", param, ctx)
        return str(value)


class MessageId(click.ParamType[str]):
    """A request's message id, or SQS's own id of a message. Rejects what the consumer declares as private."""

    name = "message_id"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the id. Raise a usage error, which does not quote the value, for anything else."""
        text = str(value)
        if not is_message_id(text):
            self.fail(f"MESSAGE_ID must be {MESSAGE_ID_FORM}", param, ctx)
        declaration = find_declaration()
        if declaration and declaration.private and declaration.is_private(text):
            self.fail(f"That is {declaration.private.name}. Give the request's message_id.", param, ctx)
        return text


message_id_argument = click.argument("message_id", metavar="MESSAGE_ID", type=MessageId())
"""`MESSAGE_ID`: passed on as `message_id`."""

json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document on standard output, and nothing else."
)
"""`--json`: passed on as `as_json`."""


class NameValue(click.ParamType[tuple[str, str]]):
    """A pair `name=value`, called `what` in a sentence. `form` is a pattern of the whole text."""

    name = "name=value"

    def __init__(self, what: str, example: str, form: str = "[^=]+=.*") -> None:
        self._what, self._example, self._form = what, example, re.compile(form, re.DOTALL)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """Return name and value. Raise a usage error for anything else."""
        if isinstance(value, tuple):
            return value
        if not self._form.fullmatch(str(value)) or not is_encodable(str(value)):
            self.fail(
                f"{value!r} is not a valid {self._what}. Write it as name=value, e.g. {self._example}.", param, ctx
            )
        name, _, text = str(value).partition("=")
        return name, text


ATTRIBUTE = NameValue("attribute", "tenant=north", r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*=.+")
"""A message attribute of type String, with a name and a value that SQS takes."""


class Setting(NameValue):
    """A setting as for `cdk -c`. The CDK app rejects unknown names."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """Return name and value. Raise a usage error for anything else, and for the stage."""
        name, text = super().convert(value, param, ctx)
        if name == "stage":
            self.fail("The stage has its own option: --stage.", param, ctx)
        return name, text


def local_stack_options(function: F) -> F:
    """`--stage` and `-c`: passed on as `stage` and `context`, pairs of name and value."""
    context = click.option(
        "-c",
        "--context",
        type=Setting("setting", "queue=fifo"),
        multiple=True,
        help="Change a setting of the stack, as for `cdk deploy`, e.g. -c queue=fifo. May be repeated.",
    )
    said = "Synthesise and deploy this stage."
    return click.option("--stage", metavar="NAME", default="dev", show_default=True, help=said)(context(function))


def choose_consumer(context: click.Context, _option: click.Parameter, path: Path | None) -> None:
    """Use the file of `--consumer` until the command ends."""
    if path is not None:
        context.with_resource(choosing(path))


consumer_option = click.option(
    "--consumer",
    type=FILE,
    metavar="FILE",
    expose_value=False,
    is_eager=True,
    callback=choose_consumer,
    help="Work for the consumer that this file declares. Default: oneslot.toml here, or in a folder above.",
)
"""`--consumer`: the declaration that the verb works for. It is not passed on; `declared` returns it."""


def stack_option(function: F) -> F:
    """`--stack`: passed on as `stack`, None for the local one. Adds `--consumer`, too."""
    function = consumer_option(function)
    return click.option(
        "--stack",
        metavar="NAME",
        help="Use this stack on AWS, e.g. Oneslot-dev, by the default credentials. Default: the local one.",
    )(function)


yes_option = click.option("--yes", is_flag=True, help="Make the change. Without this, only show what would be changed.")
"""`--yes`: passed on as `yes`; without it the verb changes nothing."""


def on_stack(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--stack`, `--consumer` and `--json`. Pass the output on as `terminal`, and the opened stack as `target`."""

    @stack_option
    @json_option
    @wraps(verb)
    def opened(*, stack: str | None, as_json: bool, **options: Any) -> Any:
        terminal = Terminal(as_json)
        return verb(terminal, open_target(stack), **options)

    return opened
