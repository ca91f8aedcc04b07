"""A short soak: the deployed handler in real processes under kills and freezes, and its verdict."""

import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from lab.mutants.__main__ import read_edits
from lab.soak.run import KILLED, Host, run
from oneslot.local.aws.cloud_assembly import SynthesisedStack
from oneslot.local.aws.connection import Connection
from oneslot.local.state import start_ticks
from tests.behaviours.privacy import of_the_range
from tests.kits.local_mapping import wait_for
from tests.oneslot.local.mapping.test_event_source_mapping import mapped

SEED = 16


@pytest.mark.slow
@pytest.mark.embedded_aws
@pytest.mark.timeout(1200)
def test_short_soak_breaks_no_invariant(synthesised: SynthesisedStack, account: Connection, tmp_path: Path) -> None:
    document, _ = run(800, SEED, synthesised, account, tmp_path, lease_seconds=4, gap_seconds=1.5)
    assert document["violations"] == 0, document["breaches"][:5]
    assert document["holds"], document["verdict"]
    assert document["counts"]["lost"] == document["counts"]["double_booked"] == 0
    assert document["messages"] >= 800
    assert document["faults_by_kind"][KILLED] > 0
    assert document["claimed_more_than_once"] > 0, "no fault met a claim, so the run proved nothing"
    assert document["deliveries"]["duplicate"] > 0
    for log in [*tmp_path.glob("*/*.jsonl"), *tmp_path.rglob("*.log")]:
        assert not of_the_range(log.read_text(errors="replace")), f"an NHS number is in {log.name}"


def without_guards(stack: SynthesisedStack, folder: Path) -> SynthesisedStack:
    """Return the stack with a handler that claims every message and overwrites existing appointments."""
    (asset,) = [each for each in stack.assets if (each.source / "oneslot/runtime/stores/dynamodb.py").exists()]
    weakened = folder / "weakened"
    shutil.copytree(asset.source, weakened)
    again = next(edit for edit in read_edits() if edit.defect == "an effect that exists is written again")
    every = replace(
        again,
        file="oneslot/runtime/stores/dynamodb.py",
        before='f"{first} OR ({lease_ended})"',
        after='f"{first} OR attribute_exists(message_id)"',
    )
    for edit in (again, every):
        path = weakened / edit.file
        path.write_text(edit.apply(path.read_text()))
    others = tuple(each for each in stack.assets if each is not asset)
    return replace(stack, assets=(*others, replace(asset, source=weakened)))


@pytest.mark.slow
@pytest.mark.embedded_aws
def test_soak_detects_a_handler_without_guards(
    synthesised: SynthesisedStack, account: Connection, tmp_path: Path
) -> None:
    weakened = without_guards(synthesised, tmp_path)
    _, verdict = run(150, SEED, weakened, account, tmp_path, lease_seconds=4, gap_seconds=1_000)
    assert not verdict.holds
    assert {"I1", "I4"} <= {breach.invariant for breach in verdict.breaches}
    assert verdict.counts.double_booked not in (0, None)


@pytest.mark.slow
@pytest.mark.embedded_aws
def test_host_that_hangs_is_killed_with_its_handlers(
    account: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lab.soak.run.STOP_SECONDS", 0.1)
    host = Host(account, mapped(account, tmp_path).mapping_id, tmp_path / "host")
    wait_for(lambda: host.handlers() != [])
    started = {pid: start_ticks(pid) for pid in host.handlers()}
    os.kill(host._process.pid, signal.SIGSTOP)  # it cannot end, so `close` kills it
    host.close()
    wait_for(lambda: all(start_ticks(pid) != ticks for pid, ticks in started.items()))
