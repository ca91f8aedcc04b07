"""An error that ends the faults early fails the run, because a soak without faults proves nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import pytest

from lab.soak.child import ChildFailed
from lab.soak.disturber import Disturber
from lab.soak.hosts import Host
from lab.soak.plan import Disturbance, ProcessFault


class FakeHost:
    """A host on which faults fail with `error`, or succeed."""

    def __init__(self, error: BaseException | None) -> None:
        self._error = error

    def kill_handler(self, chosen: float) -> bool:
        if self._error:
            raise self._error
        return True


def disturber(error: BaseException | None, faults: int = 1) -> Disturber:
    """Return a disturber that has finished with its faults."""
    plan = iter([Disturbance(at=0.0, fault=ProcessFault.KILLED, host=0.0, handler=0.0)] * faults)
    made = Disturber([cast("Host", FakeHost(error))], plan, lease_seconds=6)
    made.start()
    made._thread.join()
    return made


@pytest.mark.parametrize("error", [ChildFailed("gone"), SystemExit(1)], ids=type)
def test_error_of_a_fault_fails_the_run(error: BaseException) -> None:
    broken = disturber(error)
    with pytest.raises(type(error)):
        broken.check()
    with pytest.raises(type(error)):
        broken.stop()
    assert not broken.done


def test_error_of_the_plan_fails_the_run() -> None:
    def plan() -> Iterator[Disturbance]:
        raise IndexError("nothing to draw from")
        yield

    broken = Disturber([], plan(), lease_seconds=6)
    broken.start()
    with pytest.raises(IndexError):
        broken.stop()


def test_disturber_counts_injected_faults() -> None:
    made = disturber(None, faults=3)
    made.check()
    made.stop()
    assert made.done == {ProcessFault.KILLED: 3}
