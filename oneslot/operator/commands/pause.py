"""`pause` and `resume`: a consumer's event source mapping off and on."""

from typing import Any

import click

from oneslot.errors import InvalidArguments
from oneslot.operator.evidence.operator_log import open_operator_log
from oneslot.operator.options import on_stack, yes_option
from oneslot.operator.repair import pausing
from oneslot.operator.repair.pausing import MappingState, read_mapping_state
from oneslot.operator.target import Target
from oneslot.operator.terminal import Terminal


@click.command(short_help="Stop the consumer, and keep the reason.")
@click.option(
    "--reason", required=True, metavar="TEXT", help="Why; it names no patient. Colleagues read it in `status`."
)
@yes_option
@on_stack
def pause(terminal: Terminal, target: Target, *, reason: str, yes: bool) -> None:
    """Let the consumer take no more messages. What it has in work it finishes; the queue keeps the rest.

    The reason, the time and the operator are kept on the mapping's tags and in the operator log. The alarm `paused` is on
    until `resume`. The queue deletes messages after its retention, four days by default. A worker is not paused.
    """
    if not pausing.tag_text(reason):
        raise InvalidArguments("--reason has no word. Say why, for the colleague who finds the consumer paused.")
    mapping = read_mapping_state(target)
    if mapping.off and mapping.tags:
        problems = pausing.report(target, paused=True) if yes else []
        _end(terminal, target, mapping, changed=False, problems=problems)
        terminal.plain(mapping.sentence(target))
        terminal.warn(problems)
        return
    terminal.plain(f"{target.stack_name} takes no messages until it is resumed. Reason: {reason}")
    if not terminal.goes_ahead(yes=yes):
        _end(terminal, target, mapping, changed=False)
        return
    log = open_operator_log(target)
    problems = pausing.pause(target, mapping, reason, log)
    paused = read_mapping_state(target)
    _end(terminal, target, paused, changed=True, operator_log=str(log.path), problems=problems)
    terminal.plain(f"{paused.sentence(target)} The operator log is {log.path}.")
    terminal.warn(problems)


@click.command(short_help="Start the consumer that was paused.")
@yes_option
@on_stack
def resume(terminal: Terminal, target: Target, *, yes: bool) -> None:
    """Let the consumer take messages again, and end the alarm `paused`."""
    mapping = read_mapping_state(target)
    if not mapping.off and not mapping.tags:
        _end(terminal, target, mapping, changed=False)
        terminal.plain(f"{target.stack_name} is not paused.")
        return
    terminal.plain(mapping.sentence(target))
    if not terminal.goes_ahead(yes=yes):
        _end(terminal, target, mapping, changed=False)
        return
    log = open_operator_log(target)
    problems = pausing.resume(target, mapping, log)
    _end(terminal, target, read_mapping_state(target), changed=True, operator_log=str(log.path), problems=problems)
    terminal.plain(f"Resumed: {target.stack_name} takes messages again. The operator log is {log.path}.")
    terminal.warn(problems)


def _end(terminal: Terminal, target: Target, mapping: MappingState, **more: Any) -> None:
    terminal.result({"stack_name": target.stack_name, **mapping.document(), **more})
