"""`send`: messages to the consumer's queue, and the archive of those that it accepted."""

import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import click

from oneslot.operator.options import ATTRIBUTE, COUNT, FILE_OR_PIPE, json_option, stack_option
from oneslot.operator.sending.archive import Archive
from oneslot.operator.sending.messages import RequestCopy
from oneslot.operator.sending.request_file import load_requests, read_request
from oneslot.operator.sending.sender import BatchSender, Sent, send_all
from oneslot.operator.target import Target, is_content_based, open_target
from oneslot.operator.terminal import Advance, Terminal
from oneslot.wording import counted, numbered


@click.command(short_help="Send messages to the queue, each as often as you like.")
@click.argument("body", required=False)
@click.option(
    "--file",
    type=FILE_OR_PIPE,
    metavar="FILE",
    help="Send the messages of a file, or - for standard input: one JSON object a line.",
)
@click.option(
    "--copies",
    type=COUNT,
    metavar="N",
    default=1,
    show_default=True,
    help="Send each message N times, as a producer that retries does.",
)
@click.option(
    "--attribute",
    "attributes",
    type=ATTRIBUTE,
    multiple=True,
    help="Add a message attribute of type String to each message, e.g. --attribute tenant=north. May be repeated.",
)
@stack_option
@json_option
def send(
    *,
    body: str | None,
    file: Path | None,
    copies: int,
    attributes: Sequence[tuple[str, str]],
    stack: str | None,
    as_json: bool,
) -> None:
    """Send BODY, a JSON object, to the queue. Keep an archive of what it accepted, without the bodies.

    `oneslot check` finds a request that was lost by this archive.
    """
    if (body is None) == (file is None):
        raise click.UsageError(
            """Pass one message, '{"message_id": "first", ...}', or a file of messages: --file FILE."""
        )
    named = dict(attributes)
    requests, messages = load_requests(file, named) if file else (1, [read_request(body or "", named)])
    problems: list[str] = []

    def copied() -> Iterator[RequestCopy]:
        for message in messages:
            problems.extend([message.problem] if message.problem else [])
            yield from (message for _ in range(copies))

    terminal, target = Terminal(as_json), open_target(stack)
    send_reported(terminal, target, requests, copied(), requests * copies)
    if problems and not is_content_based(target):
        rules = "the handler" if target.declaration.tools.identity else "a handler without an identity= of its own"
        one = counted(len(problems), "request has", "requests have")
        terminal.warn([f"{one} no id, so {rules} moves it to the dead-letter queue: {problems[0]}."])


def send_reported(
    terminal: Terminal,
    target: Target,
    requests: int,
    messages: Iterable[RequestCopy],
    total: int,
    *,
    rate: float | None = None,
    seed: int | None = None,
) -> None:
    """Send `total` messages with a progress bar, and report what the queue accepted. `seed`: of generated messages."""
    same_again = "" if seed is None else f" (--seed {seed} sends the same again)"
    accepted = 0
    started = time.monotonic()
    with terminal.progress("Sending messages", total) as progress:

        def counted(steps: int = 1) -> None:
            nonlocal accepted
            accepted += steps
            progress(steps)

        try:
            sent = send_messages(target, messages, counted, rate)
        except (KeyboardInterrupt, Exception) as error:
            error.add_note(f"The queue accepted {accepted:,} of {numbered(total, 'message')}{same_again}.")
            raise
    seconds = time.monotonic() - started
    terminal.result(
        {
            "stack_name": target.stack_name,
            "requests": requests,
            "messages_accepted": sent.accepted,
            "entries_sent_again": sent.sent_again,
            "seed": seed,
            "seconds": round(seconds, 3),
            "archive": str(target.archive),
        }
    )
    again = f", {sent.sent_again:,} sent again" if sent.sent_again else ""
    terminal.plain(
        f"{numbered(requests, 'request')} in {numbered(sent.accepted, 'message')} accepted in {seconds:.1f} s"
        f"{again}{same_again}."
    )


def send_messages(
    target: Target, messages: Iterable[RequestCopy], progress: Advance, rate: float | None = None
) -> Sent:
    """Send the messages, and archive the requests that the queue accepted."""
    archive = Archive(target.archive, target.identity)
    return send_all(messages, BatchSender(target.sqs, target.outputs.queue_url), archive, progress=progress, rate=rate)
