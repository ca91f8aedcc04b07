"""An event that notes which of its names the code under test looks up."""

from __future__ import annotations

import json
from typing import Any

from oneslot.explorer.execution.process import RunningInvocation

RECORDS, RECEIVES = "Records", "ApproximateReceiveCount"


class _Followed(str):
    """A key of the event. A dict compares its keys with the name that code looks up, also in C, as for pydantic.

    Its state is its text alone, so that an event can be copied.
    """

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        equal = str.__eq__(self, other)
        code = getattr(RunningInvocation.running, "code", None)
        if equal is True and code is not None:
            code.looked_up.add(str(self))
        return equal

    def __ne__(self, other: object) -> bool:
        return not self == other


def followed(event: str) -> Any:
    """Return an event, from its JSON, whose lookups of `RECORDS` and `RECEIVES` are noted in `Code.looked_up`."""
    return json.loads(event, object_pairs_hook=_with_followed_names)


def _with_followed_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return {_Followed(name) if name in (RECORDS, RECEIVES) else name: value for name, value in pairs}
