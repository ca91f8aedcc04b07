"""`send`: generated requests, or those of a file, to the queue."""

import random
from collections.abc import Iterable
from pathlib import Path

import click
from click.core import ParameterSource

from demo.errors import NotSeeded
from demo.generator import Mix, RequestGenerator, utc_now
from demo.plan import load
from oneslot.errors import BadInput
from oneslot.operator.commands.send import send_reported
from oneslot.operator.options import COUNT, FILE_OR_PIPE, Number, json_option, stack_option
from oneslot.operator.sending.messages import RequestCopy
from oneslot.operator.sending.request_file import load_requests
from oneslot.operator.target import Target, open_target
from oneslot.operator.terminal import Terminal

GENERATOR_OPTIONS = ("count", "malformed", "seed_number")

malformed_option = click.option(
    "--malformed",
    type=Number(0, 1),
    metavar="SHARE",
    default=Mix.malformed,
    show_default=True,
    help="Make this share malformed.",
)


@click.command(short_help="Send requests: some twice, some cancelled, some malformed.")
@click.option("--count", type=COUNT, metavar="N", default=2000, show_default=True, help="Send N different requests.")
@malformed_option
@click.option(
    "--seed",
    "seed_number",
    type=int,
    metavar="N",
    help="Use this seed: it sends the same requests again. Default: a new one.",
)
@click.option(
    "--file",
    type=FILE_OR_PIPE,
    metavar="FILE",
    help="Send the requests of a file, or - for standard input: one JSON object a line.",
)
@click.option("--rate", type=Number(min=0, min_open=True), metavar="N", help="Send N messages a second, on average.")
@stack_option
@json_option
@click.pass_context
def send(
    ctx: click.Context,
    *,
    count: int,
    malformed: float,
    seed_number: int | None,
    file: Path | None,
    rate: float | None,
    stack: str | None,
    as_json: bool,
) -> None:
    """Send requests to the queue, and keep an archive of those it accepted, without personal data."""
    if file is not None:
        given = [name for name in GENERATOR_OPTIONS if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE]
        if given:
            raise click.UsageError("--file sends the file as it is. Leave out --count, --seed and the shares.")
        total, messages = load_requests(file)
        requests = total
    mix = Mix(count, malformed=malformed)
    terminal = Terminal(as_json)
    target = open_target(stack)
    if file is None:
        seed_number = random.SystemRandom().randrange(1_000_000_000) if seed_number is None else seed_number
        messages, requests, total = generated(target, mix, seed_number), mix.count, mix.messages
    send_reported(terminal, target, requests, messages, total, rate=rate, seed=seed_number)


def generated(target: Target, mix: Mix, seed: int) -> Iterable[RequestCopy]:
    """Return generated messages for the slots seeded last. Raises `NotSeeded`, or `SlotsOver`."""
    try:
        plan = load(target.plan, target.identity)
        generator = None if plan is None else RequestGenerator(plan, mix, seed, utc_now())
    except BadInput as error:
        raise type(error)(f"{error} Seed again: {target.command('seed')}.") from error
    if generator is None:
        raise NotSeeded(
            f"{target.stack_name} was not seeded from here, so its practices are unknown. "
            f"Seed it first (`{target.command('seed')}`), or send your own requests with --file."
        )
    return generator.messages()
