"""Thread pools as strands: their calls interleave, at most as many at once as there are workers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from oneslot.explorer.handlers.exploration import explore
from oneslot.explorer.handlers.verdict import Result
from oneslot.explorer.refusal import NotExplorable


def with_loop(*values: Any) -> Any:
    """Return the values of a test whose event loop has a pair of sockets."""
    return pytest.param(*values, marks=pytest.mark.enable_socket)


def explored(handler: str, **options: Any) -> Result:
    given: dict[str, Any] = {"messages": [{}], "tables": {"orders": "id"}, "copies": 1, "faults": 0, **options}
    return explore(f"pools.{handler}", path=Path(__file__).parent, **given)


def counted_twice(world: Any) -> bool:
    """both were counted"""
    return bool(world["orders"][0]["n"] == 2)


@pytest.mark.parametrize(
    "handler", ["map_puts", "gather", "use_pool_of_module", with_loop("put_in_a_thread_of_asyncio")]
)
def test_pool_returns_what_its_tasks_do(handler: str) -> None:
    result = explored(handler, copies=2, faults=1)

    assert (result.holds, result.complete) == (True, True)


@pytest.mark.parametrize(
    ("handler", "holds"),
    [("race", False), with_loop("race_in_threads_of_asyncio", False), ("one_worker", True), ("locked", True)],
)
def test_workers_interleave_unless_something_orders_them(handler: str, holds: bool) -> None:
    assert explored(handler, law=counted_twice).holds is holds


@pytest.mark.parametrize(
    ("handler", "words"),
    [("forget", "returns while its thread pool works"), ("wait_on_event", "waits for another thread")],
)
def test_what_cannot_be_scheduled_is_refused(handler: str, words: str) -> None:
    with pytest.raises(NotExplorable, match=words):
        explored(handler)
