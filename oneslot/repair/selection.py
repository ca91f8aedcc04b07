"""Which dead letters a person means: by their ids, by a repair list, by reason, or all."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from appointments import nhs_number
from oneslot.errors import BadInput
from oneslot.repair.forecast import Forecast

MESSAGE_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")


@dataclass(frozen=True)
class Selection:
    """`ids` are message ids or SQS ids; `everything` is told by nobody else, and then both others are empty."""

    ids: Sequence[str] = ()
    reason: str | None = None
    everything: bool = False

    @property
    def given(self) -> bool:
        """Whether anything was said at all."""
        return bool(self.ids) or self.reason is not None or self.everything

    def chosen(self, forecasts: Sequence[Forecast]) -> list[Forecast]:
        """Return the dead letters that are meant."""
        return [each for each in forecasts if self._means(each)]

    def missing(self, forecasts: Sequence[Forecast]) -> list[str]:
        """Return the ids that no dead letter has."""
        return [name for name in self.ids if not any(each.letter.answers_to(name) for each in forecasts)]

    def document(self) -> dict[str, object]:
        """The selection as JSON."""
        return {"ids": list(self.ids), "reason": self.reason, "everything": self.everything}

    def _means(self, forecast: Forecast) -> bool:
        if self.ids and not any(forecast.letter.answers_to(name) for name in self.ids):
            return False
        return self.reason is None or forecast.letter.reason == self.reason


def select(ids: Sequence[str], file: Path | None, reason: str | None, *, everything: bool) -> Selection:
    """Put a selection together. Raises `BadInput` for what contradicts itself and for a repair list that is none."""
    if everything and (ids or file or reason):
        raise BadInput("--all takes every message; leave out the ids, --file and --reason.")
    listed = read_repair_list(file) if file is not None else []
    return Selection(tuple(dict.fromkeys([*ids, *listed])), reason, everything)


def read_repair_list(path: Path) -> list[str]:
    """Return the message ids of a repair list: JSON lines with a `message_id`, as the audit's repair/redrive.jsonl has them.

    Raises `BadInput`, naming the line, for one that has none or asks for another action.
    """
    ids: list[str] = []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path} cannot be read as UTF-8 text.") from error
    for number, text in enumerate(lines, 1):
        if not text.strip():
            continue
        try:
            line = json.loads(text)
        except ValueError:
            line = None
        message_id = line.get("message_id") if isinstance(line, dict) else None
        if not isinstance(message_id, str) or not MESSAGE_ID.fullmatch(message_id):
            raise BadInput(
                f'{path}, line {number}: no message_id. Each line must be like {{"message_id": "...", "action": "redrive"}}, '
                "as in the audit's repair/redrive.jsonl."
            )
        if nhs_number.contains_one(message_id):
            raise BadInput(f"{path}, line {number}: message_id is an NHS number; no message has that for its id.")
        if isinstance(line, dict) and line.get("action", "redrive") != "redrive":
            raise BadInput(
                f"{path}, line {number}: the action is not 'redrive'. Such a line is for a person to look at."
            )
        ids.append(message_id)
    if not ids:
        raise BadInput(f"{path} names no message: there is nothing to do.")
    return ids
