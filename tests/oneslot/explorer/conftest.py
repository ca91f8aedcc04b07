"""The budgets of explorations and scans, for a machine that has other work."""

import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest


@pytest.fixture(autouse=True, scope="session")
def patient_clock() -> Iterator[None]:
    """Count a tenth of the seconds: a budget ends where a test gives a short one, and never because of other work."""
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() / 10, perf_counter=lambda: time.perf_counter() / 10)
    with pytest.MonkeyPatch.context() as patch:
        for module in ("handlers.exploration", "scan.growth", "scan.judging", "scan.scan"):
            patch.setattr(f"oneslot.explorer.{module}.time", clock)
        yield
