"""A host that is killed leaves no handler behind."""

from __future__ import annotations

import os
import signal
from contextlib import closing, suppress
from pathlib import Path

import pytest

from lab.soak.run import Host
from oneslot.local.aws.connection import Connection
from oneslot.local.processes import start_ticks
from tests.kits.local_mapping import Workshop, wait_for

pytestmark = pytest.mark.embedded_aws


@pytest.mark.slow
def test_host_that_hangs_is_killed_with_its_handlers(
    account: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lab.soak.run.STOP_SECONDS", 0.1)
    source = Workshop(account, tmp_path).source("def handle(event, context): pass")
    with closing(Host(account, source.mapping_id, tmp_path / "host")) as host:
        wait_for(lambda: len(host.handlers()) == 2)
        before = {pid: start_ticks(pid) for pid in host.handlers()}

        def left() -> list[int]:
            return [pid for pid, started in before.items() if start_ticks(pid) == started]

        try:
            os.kill(host._process.pid, signal.SIGSTOP)  # it cannot end, so `close` kills it
            host.close()
            wait_for(lambda: not left())
        finally:
            for pid in left():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
