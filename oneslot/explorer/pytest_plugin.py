"""The fixture `explore` for pytest: the explorer for any handler, which needs `oneslot[explorer]`."""

from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture
def explore() -> Callable[..., Any]:
    """Return the function that explores a handler in a process of its own; see `oneslot.explorer.handlers.exploration`."""
    # Not imported before it is used: every pytest run of the environment loads this plugin.
    from oneslot.explorer.handlers.exploration import explore_apart

    return explore_apart
