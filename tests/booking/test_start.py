"""The start's own work besides importing: no garbage collection meanwhile."""

from __future__ import annotations

from lab.benchmarks.cold_start import HANDLER, STARTS, start

COUNTED = "import gc; seen = []; gc.callbacks.append(lambda phase, info: seen.append(phase)); "


def test_start_collects_no_garbage_until_imports_are_made() -> None:
    frozen = "assert gc.isenabled() and gc.get_freeze_count() > 10_000, gc.get_freeze_count()"
    start(f"{COUNTED}{STARTS[HANDLER]}; {frozen}; assert len(seen) < 100, len(seen)")
