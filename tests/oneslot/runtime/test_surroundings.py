"""The real clock and the real chance, and the pauses before a retry. An import contract keeps their modules out of others."""

import os
import subprocess
import sys
import time

import pytest

from oneslot.runtime.surroundings import Backoff, Surroundings
from tests.kits.consumer import Clock


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


def pauses(lease_ms: int) -> list[float]:
    """Return the longest pauses before each retry within such a lease, in milliseconds."""
    clock, begun = Clock(), []

    def sleep(seconds: float) -> None:
        begun.append(seconds * 1000)
        clock.sleep(seconds)

    backoff = Backoff(Surroundings(now_ms=clock, sleep=sleep, jitter=lambda: 1.0), clock() + lease_ms)
    while backoff.pause():
        pass
    return begun


@pytest.mark.parametrize(
    ("lease_ms", "expected"),
    [
        (-10_000, []),
        (0, []),
        (50, []),  # half of a short time is left for reporting the error
        (51, [25]),
        (7_000, [25, 50, 100, 200, 400, 800, 1_000, 1_000, 1_000]),
    ],
)
def test_pauses_double_up_to_a_second_while_there_is_time(lease_ms: int, expected: list[int]) -> None:
    assert pauses(lease_ms) == pytest.approx(expected)


@pytest.mark.parametrize(("started", "deadline", "end"), [(None, 30_000, 28_500), (-8_000, 2_000, 500)])
def test_time_is_up_a_second_and_a_half_before_the_deadline(started: int | None, deadline: int, end: int) -> None:
    """It counts from the start of the work, of which a part may be over."""
    clock = Clock()
    surroundings = Surroundings(now_ms=clock, sleep=clock.sleep, jitter=lambda: 0.0)
    backoff = Backoff(surroundings, clock() + deadline, None if started is None else clock() + started)
    clock.now += end - 1
    assert backoff.pause()
    clock.now += 1
    assert not backoff.pause()
