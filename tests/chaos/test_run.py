"""A short soak: the deployed handler in real processes, under every kind of fault, then the verdict of all invariants."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from chaos.__main__ import soak
from chaos.load import Size
from chaos.plan import NetworkFault, ProcessFault
from chaos.run import Settings, run
from oneslot.local.cloud_assembly import SynthesisedStack
from oneslot.local.connection import Connection
from oneslot.terminal import Terminal

# In its first seconds: two kills, a host frozen past its lease, a host lost.
SEED = 16


@pytest.mark.embedded_aws
@pytest.mark.timeout(180)
def test_a_short_soak_breaks_no_invariant(synthesised: SynthesisedStack, account: Connection, tmp_path: Path) -> None:
    settings = Settings(Size(seconds=10, messages=400), 800, SEED, lease_seconds=4, handlers=1, gap_seconds=1.5)
    report = run(settings, synthesised, account, tmp_path, Terminal(as_json=True))
    document = json.loads(json.dumps(report.document()))
    assert document["violations"] == 0, document["breaches"][:5]
    assert document["holds"], document["verdict"]
    assert document["counts"]["lost"] == document["counts"]["double_booked"] == 0
    assert document["messages"] >= 400
    kinds = set(document["faults_by_kind"])
    assert len(kinds & set(NetworkFault)) >= 4, kinds
    assert {ProcessFault.KILLED, ProcessFault.FROZEN} <= kinds, kinds
    assert document["claimed_more_than_once"] > 0, "no fault met a claim: the run showed nothing"
    assert document["deliveries"]["duplicate"] > 0
    for log in [*tmp_path.glob("*/*.jsonl"), *tmp_path.rglob("*.log")]:
        assert not re.search(r"(?<!\d)999\d{7}(?!\d)", log.read_text(errors="replace")), (
            f"an NHS number is in {log.name}"
        )


def test_bad_arguments_are_told_in_a_sentence() -> None:
    answer = CliRunner().invoke(soak, ["--hosts", "1"])
    assert answer.exit_code == 2
    assert "Invalid value for '--hosts'" in answer.output
