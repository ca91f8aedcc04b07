"""What a row holds until a relay has sent it: `sends`, a JSON list of id, target, body and group, and `unsent`, their number.

`sender` names the consumer, where several share a ledger. Tools read the number and never a body. A row with unsent messages
has no `expires_at`: it must not expire before they are sent, however late that is.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from oneslot.runtime.effects import MAXIMUM_SENDS, InvalidContent, InvalidEffects, Send
from oneslot.runtime.sqs.queue import is_fifo
from oneslot.runtime.values import InvalidValue, plain_json

SENDS = "sends"

MAXIMUM_BODY_BYTES = 260_000
"""A topic takes 256 KB with the attributes, and so does a queue of which no more was asked."""

QUEUE, TOPIC, BUS = "sqs", "sns", "events"
"""What a target is, by the name of its service."""

TARGETS = {
    QUEUE: r"https?://[^/]+/\d{12}/[\w-]{1,80}(\.fifo)?",
    TOPIC: r"arn:[^:]+:sns:[^:]+:\d{12}:[\w-]{1,256}(\.fifo)?",
    BUS: r"arn:[^:]+:events:[^:]+:\d{12}:event-bus/[\w./-]{1,256}",
}
"""What a target is → the form of its URL or ARN. A rule and a subscription have ARNs, too, and take no message."""
_REGION = re.compile(r"(?<![a-z\d])[a-z]{2}(?:-[a-z]+)+-\d(?=[.:])")
_GROUP = re.compile(r"[!-~]{1,128}")


@dataclass(frozen=True, slots=True)
class Unsent:
    """A message as the row holds it."""

    id: str
    to: str
    body: str = field(repr=False)
    group: str = ""


def kind_of(target: str) -> str | None:
    """Return what a target is, by its URL or ARN; None for anything else."""
    return next((kind for kind, form in TARGETS.items() if re.fullmatch(form, target)), None)


def require_targets(targets: Mapping[str, str]) -> None:
    """Raise `ValueError` unless each target is the URL of a queue in an account, or the ARN of a topic or a bus."""
    if wrong := [name for name, target in targets.items() if not kind_of(target)]:
        raise ValueError(
            f"the target {wrong[0]!r} must be a queue's URL, or the ARN of a topic or of an event bus; "
            f"correct it in `sends`, or in ONESLOT_SEND_{wrong[0].upper()}"
        )


def region_of(target: str) -> str | None:
    """Return the region in a target's URL or ARN; None for a URL without one, such as a local stack's."""
    found = _REGION.search(target)
    return found and found[0]


def sends_text(sends: Sequence[Send], targets: Mapping[str, str] | None, ledger: str, message_id: str) -> str:
    """Return the row's attribute.

    Each message gets an id of its own: a digest of the ledger, of the message that was decided, and of the send with its place.
    Two consumers of one message may share a FIFO queue, so the ledger counts. A decision that is made again after its row
    expired may send something else, which a receiver must not drop as a repeat, so what is sent counts.

    Raises:
        InvalidEffects: for what no relay can send.
        InvalidContent: if that is because of the message.
    """
    messages = []
    if len(sends) > MAXIMUM_SENDS:
        raise InvalidContent(f"{len(sends)} sends, more than {MAXIMUM_SENDS} with one commit; split the message")
    for place, send in enumerate(sends):
        body = _checked_body(send, targets)
        digested = json.dumps([ledger, message_id, place, send.to, send.group, body])
        messages.append(Unsent(hashlib.sha256(digested.encode()).hexdigest()[:32], send.to, body, send.group))
    return text_of(messages)


def text_of(messages: Iterable[Unsent]) -> str:
    """Return the row's attribute for these messages."""
    entries = [{name: value for name, value in asdict(message).items() if value} for message in messages]
    return json.dumps(entries, ensure_ascii=False, separators=(",", ":"))


def unsent(row: Mapping[str, Any]) -> list[Unsent]:
    """Return the messages that a row of the ledger holds."""
    return [Unsent(**entry) for entry in json.loads(row.get(SENDS, "[]"))]


def _checked_body(send: Send, targets: Mapping[str, str] | None) -> str:
    """Return the body's JSON text, if the target takes the message. Raises `InvalidEffects` if not."""
    if targets is not None and send.to not in targets:
        raise InvalidEffects(f"the target {send.to!r} is unknown; name it in `sends`, or in ONESLOT_SEND_...")
    if not isinstance(send.group, str):
        raise InvalidEffects(
            f"the group of a send to {send.to!r} is of type {type(send.group).__name__}; write str(...)"
        )
    if targets is not None:
        _check_for_target(send, targets[send.to])
    if send.group and not _GROUP.fullmatch(send.group):
        raise InvalidContent(
            f"the group of a send to {send.to!r} must have 1 to 128 ASCII letters, digits or marks, and no spaces"
        )
    try:
        body = plain_json(send.body)
    except InvalidValue as error:
        raise InvalidContent(f"a value in the body for {send.to!r} {error.problem}") from None
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidEffects(
            f"the body for {send.to!r} cannot be written as JSON; send text, numbers, lists and mappings"
        ) from error
    if (length := len(body.encode())) > MAXIMUM_BODY_BYTES:
        raise InvalidContent(
            f"the body for {send.to!r} has {length:,} bytes, more than {MAXIMUM_BODY_BYTES:,}; "
            "store the content elsewhere, and send its name"
        )
    return body


def _check_for_target(send: Send, target: str) -> None:
    if is_fifo(target) and not send.group:
        raise InvalidEffects(f"a send to {send.to!r} has no group, and its target is FIFO; name the message's `group`")
    if kind_of(target) != BUS:
        return
    if send.group:
        raise InvalidEffects(f"a send to {send.to!r} has a group, and its target is an event bus; leave `group` out")
    if not isinstance(send.body, Mapping):
        raise InvalidEffects(f"the body for {send.to!r} must be a mapping, because an event bus takes no other")
