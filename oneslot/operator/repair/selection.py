"""The selection of dead letters: by ids, by a repair list, by reason, or all."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from oneslot.declaration.reading import declared
from oneslot.errors import FileUnreadable, InvalidArguments, InvalidFile
from oneslot.operator.repair.forecast import Forecast
from oneslot.operator.sending.archive import json_object
from oneslot.runtime.record import is_message_id


@dataclass(frozen=True)
class Selection:
    """Message ids or SQS ids, a reason, or `everything`, which excludes the others."""

    ids: Sequence[str] = ()
    reason: str | None = None
    everything: bool = False

    @property
    def given(self) -> bool:
        """Return whether anything was selected."""
        return bool(self.ids) or self.reason is not None or self.everything

    def chosen(self, forecasts: Sequence[Forecast]) -> list[Forecast]:
        """Return the selected dead letters."""
        letters = [each for each in forecasts if self.reason in (None, each.letter.reason)]
        return [each for each in letters if not self.ids or any(map(each.letter.answers_to, self.ids))]

    def missing(self, forecasts: Sequence[Forecast]) -> list[str]:
        """Return the ids that no dead letter has."""
        return [name for name in self.ids if not any(each.letter.answers_to(name) for each in forecasts)]


def count_reordered_groups(taken: Sequence[Forecast], everything: Sequence[Forecast]) -> int:
    """Return in how many groups of a FIFO queue a letter that stays is older than one of `taken`."""
    sent = {each.letter.sqs_message_id for each in taken}
    staying: set[str] = set()
    reordered: set[str] = set()
    for each in sorted(everything, key=lambda each: each.place):
        if each.group is None:
            continue
        if each.letter.sqs_message_id not in sent:
            staying.add(each.group)
        elif each.group in staying:
            reordered.add(each.group)
    return len(reordered)


def select(ids: Sequence[str], file: Path | None, reason: str | None, *, everything: bool) -> Selection:
    """Return the selection. Raises `BadInput` for options that exclude each other and for an invalid repair list."""
    if everything and (ids or file or reason):
        raise InvalidArguments("--all takes every message; leave out the ids, --file and --reason.")
    listed = read_repair_list(file) if file is not None else []
    return Selection(tuple(dict.fromkeys([*ids, *listed])), reason, everything)


def read_repair_list(path: Path) -> list[str]:
    """Return the message ids of a repair list: JSON lines with a `message_id`, as in the audit's repair/redrive.jsonl.

    Raises `BadInput`, naming the line, for a missing or invalid id and for another action than `redrive`.
    """
    ids: list[str] = []
    declaration = declared()
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise FileUnreadable(
            f"{path} cannot be read as UTF-8 text. Name the audit's repair/redrive.jsonl, or a file like it."
        ) from error
    for number, text in enumerate(lines, 1):
        if not text.strip():
            continue
        line = json_object(text) or {}
        if not is_message_id(message_id := line.get("message_id")):
            raise InvalidFile(
                f"{path}, line {number}: no valid message_id. "
                'Write each line as in the audit\'s repair/redrive.jsonl: {"message_id": "...", "action": "redrive"}.'
            )
        if declaration.private and declaration.is_private(message_id):
            private = declaration.private.name
            raise InvalidFile(f"{path}, line {number}: message_id is {private}, which is never a message's id.")
        if line.get("action", "redrive") != "redrive":
            raise InvalidFile(
                f"{path}, line {number}: the action is not 'redrive'. Remove the line; an operator must look at its message."
            )
        ids.append(message_id)
    if not ids:
        raise InvalidFile(f"{path} names no message. Write one JSON object with a message_id on each line.")
    return ids
