"""The choice of a night: add changes to the audit of the day before, or audit in full."""

from __future__ import annotations

from typing import Any

import pytest

from oneslot.pipeline.judge.conclusion import VERSION
from stacks.audit.states import definition
from tests.stacks.audit.night import CHANGES, EARLIER, SOUND, World, plan


@pytest.mark.parametrize(
    "other",
    [
        {"version": VERSION - 1},
        {"version": None},
        {"retention_ms": 40 * 86_400_000},
        {"retention_ms": None},
        {"forgotten_before": 1_795_442_400_000},
    ],
)
def test_night_is_full_when_the_earlier_audit_does_not_fit(world: World, other: dict[str, Any]) -> None:
    """An upgrade or another retention makes the job refuse changes on top of the earlier audit."""
    world.objects["audits/2026-11-22/audit.json"] = {**EARLIER, **other}
    world.verdict = SOUND
    world.run(CHANGES)
    assert {export["ExportType"] for export in world.called("exportTableToPointInTime")} == {"FULL_EXPORT"}
    assert "--previous" not in world.called("startJobRun.sync")[0]["Arguments"]


def test_night_is_full_when_the_earlier_audit_is_unreadable(
    world: World,
) -> None:
    for earlier in ({name: value for name, value in EARLIER.items() if name != "forgotten_before"}, "{"):
        one = World(world.definition, {"audits/2026-11-22/audit.json": earlier}, SOUND)
        one.run(CHANGES)
        assert {export["ExportType"] for export in one.called("exportTableToPointInTime")} == {"FULL_EXPORT"}


@pytest.mark.parametrize(
    ("given", "earlier", "written"),
    [
        (
            {"ledger_retention_seconds": None},
            {"retention_ms": None},
            {"ledger_retention": "forever"},
        ),
        (
            {"ledger_forgotten_before": "2026-11-23T14:00:00Z"},
            {"forgotten_before": 1_795_442_400_000},
            {"ledger_retention_seconds": 30 * 86_400, "ledger_forgotten_before": "2026-11-23T14:00:00Z"},
        ),
    ],
)
def test_retention_is_written_and_compared(
    given: dict[str, Any], earlier: dict[str, Any], written: dict[str, Any]
) -> None:
    """The next night compares the context that the job wrote."""
    machine = definition(plan(**given))
    for before, ends in ((EARLIER, "FULL_EXPORT"), ({**EARLIER, **earlier}, "INCREMENTAL_EXPORT")):
        one = World(machine, {"audits/2026-11-22/audit.json": before}, SOUND)
        one.run(CHANGES)
        assert {export["ExportType"] for export in one.called("exportTableToPointInTime")} == {ends}
        assert [put["Body"] for put in one.called("putObject")] == [written]
