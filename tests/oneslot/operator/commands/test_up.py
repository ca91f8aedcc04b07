"""`oneslot up` while a stack runs: it accepts the settings of that stack alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.kits.moto_stack import MotoStack, invoke


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        (("-c", "queue=fifo"), "-c queue=fifo."),
        (("-c", "max_concurrency=7", "-c", "audit=true"), "-c max_concurrency=7."),
        (("--stage", "prod"), "--stage prod."),
    ],
)
def test_up_refuses_new_settings_when_a_stack_runs(moto_stack: MotoStack, asked: tuple[str, ...], named: str) -> None:
    state = moto_stack.target.local
    assert state is not None
    given = {"GivenSettings": "-c audit=true -c ledger_retention_seconds=forever"}
    replace(state, outputs={**state.outputs, **given}).write(moto_stack.home)
    refused = invoke("up", *asked)
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert f"The local stack Oneslot-dev is already running, and not with {named}" in refused.stderr
    same = ("--stage", "dev", "-c", "ledger_retention_seconds=forever", "-c", "audit=true")
    kept = invoke("up", *same)
    assert kept.exit_code == 0
    assert "as it was deployed. To deploy an edit: oneslot down, then oneslot up." in kept.stderr
