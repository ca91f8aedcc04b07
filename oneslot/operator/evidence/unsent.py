"""Messages that follow a commit and that no relay has sent: how many wait since when, and why, by the relay's log."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import ClientError

from oneslot.operator.evidence.deliveries import read_log
from oneslot.operator.sending.archive import json_object
from oneslot.operator.target import Target
from oneslot.runtime.protocol import UNSENT
from oneslot.runtime.sends.relay import YOUNG_MS
from oneslot.wording import counted, time_text

RELAY_LOG_FILE = "relay.jsonl"


@dataclass(frozen=True)
class Undelivered:
    """`messages` that wait for their targets, the oldest since its commit at `since` (epoch ms).

    `refused`: the name of a target, empty for the ledger, → why the relay could not send to it, by its log.
    """

    messages: int
    since: int
    refused: Mapping[str, str] = field(default_factory=dict)


def find_undelivered(target: Target, rows: Iterable[Mapping[str, Any]]) -> Undelivered | None:
    """Return what these rows of the ledger hold unsent; None while the relay may be at it.

    It is, if the oldest row is younger than a minute and the relay's log has no error about one of them.
    """
    valid = (row for row in rows if isinstance(row.get(UNSENT), int) and isinstance(row.get("updated"), int))
    waiting = {row["message_id"]: row for row in valid}
    if not waiting:
        return None
    since = min(row["updated"] for row in waiting.values())
    refused = dict[str, str]()
    with suppress(ClientError):  # the number counts where the log may not be read, or is gone
        refused |= {each["to"]: each["failed"] for each in _failures(target, since) if each["message_id"] in waiting}
    if not refused and since + YOUNG_MS > target.surroundings.now_ms():
        return None
    return Undelivered(sum(row[UNSENT] for row in waiting.values()), since, refused)


def _failures(target: Target, since_ms: int) -> Iterator[dict[str, Any]]:
    """Yield the relay's lines about what it could not send. A relay that runs as `oneslot relay` keeps its own log."""
    file, group = target.home / RELAY_LOG_FILE if target.local else None, target.outputs.relay_log_group_name
    if not (file or group):
        return
    for _, text in read_log(target, file, group, '$.message = "relay" && $.count > 0', since_ms):
        line = json_object(text)  # the log has other lines, too
        if line and line.get("failed"):
            yield {"to": "", "message_id": "", **line}


def format_undelivered(found: Undelivered | None, command: Callable[[str], str]) -> Iterator[str]:
    """Yield what waits, why, and the remedy; nothing for None. `command` is `Target.command`."""
    if found is None:
        return
    several = counted(found.messages, "message that follows a commit is", "messages that follow commits are")
    why = ", ".join(f"{to or 'the ledger'}: {code}" for to, code in found.refused.items())
    yield (
        f"{several} not sent, the oldest since {time_text(found.since)} UTC ({why or 'the log of the relay may say why'}). "
        f"Correct the target or the rights, as `oneslot docs runbooks#relay-behind` says; then run "
        f"`{command('relay --once')}`."
    )
