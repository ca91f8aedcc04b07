"""What the verbs share that work on one stack: their options, the opened stack and the output."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from oneslot.operator.options import json_option, stack_option
from oneslot.operator.target import open_target
from oneslot.operator.terminal import Terminal


def on_stack(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--stack`, `--consumer` and `--json`. Pass the output on as `terminal`, and the opened stack as `target`."""

    @stack_option
    @json_option
    @wraps(verb)
    def opened(*, stack: str | None, as_json: bool, **options: Any) -> Any:
        terminal = Terminal(as_json)
        return verb(terminal, open_target(stack), **options)

    return opened
