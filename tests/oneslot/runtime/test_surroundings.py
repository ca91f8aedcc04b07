"""The real clock and the real chance. An import contract says that no other module names them."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from oneslot.runtime.surroundings import Surroundings


def test_clock_follows_the_system_after_a_freeze(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that counts from the start stands still with a frozen environment, and is a picture's after a restore."""
    surroundings = Surroundings()
    for now in (2_000_000_000_000, 1_000_000_000_000):
        monkeypatch.setattr(time, "time_ns", lambda now=now: now * 1_000_000)
        assert surroundings.now_ms() == now


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here; Lambda's system has them")
def test_forks_of_one_snapshot_draw_different_ids() -> None:
    """As environments do with SnapStart. With the same fence neither could tell its own claim from the other's."""
    restored = (
        "import os; from oneslot.runtime.surroundings import Surroundings; made = Surroundings()\n"
        "first = made.new_id(), made.jitter()\n"
        "for _ in range(2):\n"
        "    child = os.fork()\n"
        "    if not child:\n"
        "        print(made.new_id(), made.jitter(), flush=True)\n"
        "        os._exit(0)\n"
        "    os.waitpid(child, 0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", restored],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    (one, one_pause), (other, other_pause) = (line.split() for line in done.stdout.splitlines())
    assert one != other
    assert one_pause != other_pause
