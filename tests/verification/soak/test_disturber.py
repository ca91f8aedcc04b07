"""An error that ends the faults early fails the run, because a soak without faults proves nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import pytest

from verification.soak.child import ChildFailed
from verification.soak.disturber import Disturber
from verification.soak.hosts import Host
from verification.soak.plan import Disturbance, ProcessFault


class Unlucky:
    """A host on which faults fail."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def kill_handler(self, chosen: float) -> bool:
        raise self._error


def disturber(error: BaseException) -> Disturber:
    """Return a disturber that has finished with one fault that raised `error`."""
    plan = iter([Disturbance(at=0.0, fault=ProcessFault.KILLED, host=0.0, handler=0.0)])
    made = Disturber([cast("Host", Unlucky(error))], plan, lease_seconds=6)
    made.start()
    made._thread.join()
    return made


@pytest.mark.parametrize(
    "error", [ChildFailed("gone"), ValueError("no JSON"), PermissionError("kill"), SystemExit(1)], ids=type
)
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
    class Lucky:
        def kill_handler(self, chosen: float) -> bool:
            return True

    plan = iter([Disturbance(at=0.0, fault=ProcessFault.KILLED, host=0.0, handler=0.0)] * 3)
    made = Disturber([cast("Host", Lucky())], plan, lease_seconds=6)
    made.start()
    made._thread.join()
    made.check()
    made.stop()
    assert made.done == {ProcessFault.KILLED: 3}
