"""An error that ends the faults early fails the run, because a soak without faults proves nothing."""

from __future__ import annotations

from typing import cast

import pytest

from lab.soak.faults import Faults
from lab.soak.hosts import Host
from oneslot.errors import OneslotError
from tests.kits.local_mapping import wait_for


class FakeHost:
    """A host on which every fault succeeds, or which has ended."""

    def __init__(self, error: OneslotError | None) -> None:
        self._error = error

    def check(self) -> None:
        if self._error:
            raise self._error

    def kill_handler(self, chosen: float) -> bool:
        return True

    stall_handler = kill_handler

    def freeze(self, seconds: float) -> None:
        pass

    def lose(self) -> None:
        pass


def started(error: OneslotError | None) -> Faults:
    host = cast("Host", FakeHost(error))
    faults = Faults([host], seed=1, gap_seconds=0.001, lease_seconds=6)
    faults.start()
    return faults


def test_ended_host_fails_the_run() -> None:
    faults = started(OneslotError("A host has ended."))
    faults._thread.join()
    for report in (faults.check, faults.stop):
        with pytest.raises(OneslotError, match="has ended"):
            report()
    assert not faults.done


def test_faults_are_counted_by_kind() -> None:
    faults = started(None)
    wait_for(lambda: len(faults.done) == 4)
    faults.stop()
    faults.check()
