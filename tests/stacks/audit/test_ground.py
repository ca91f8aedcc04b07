"""The choice of a night: add changes to the audit of the day before, or audit in full."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from oneslot.audit.conclusion import VERSION
from tests.kits.stacks import Stage
from tests.stacks.audit.night import CHANGES, EARLIER, SOUND, World, definition


@pytest.mark.parametrize(
    "objects",
    [
        {},
        {"audits/2026-11-22/audit.json": "{"},
        {"audits/2026-11-22/audit.json": {name: EARLIER[name] for name in EARLIER if name != "forgotten_before"}},
        *(
            {"audits/2026-11-22/audit.json": {**EARLIER, **other}}
            for other in (
                {"version": VERSION - 1},
                {"version": None},
                {"retention_ms": 40 * 86_400_000},
                {"retention_ms": None},
                {"forgotten_before": 1_795_442_400_000},
            )
        ),
    ],
)
def test_night_is_full_when_no_earlier_audit_fits(world: World, objects: dict[str, Any]) -> None:
    """None is there, it is unreadable, or the job would refuse it: after an upgrade, or with another retention."""
    world.objects, world.verdict = dict(objects), SOUND
    world.run(CHANGES)
    assert {export["ExportType"] for export in world.called("exportTableToPointInTime")} == {"FULL_EXPORT"}
    assert "--previous" not in world.called("startJobRun.sync")[0]["Arguments"]


@pytest.mark.parametrize(
    ("earlier", "written"),
    [
        ({}, {"ledger_retention_seconds": 30 * 86_400}),
        (
            {"retention_ms": None, "forgotten_before": 1_795_442_400_000},
            {"ledger_retention": "forever", "ledger_forgotten_before": "2026-11-23T14:00:00Z"},
        ),
    ],
)
def test_retention_is_written_and_compared(
    audit: Stage, keys: Stage, earlier: dict[str, Any], written: dict[str, Any]
) -> None:
    """The next night compares the context that the job wrote."""
    machine = definition(replace(keys, part="-audit") if earlier else audit)
    other = {**EARLIER, "forgotten_before": 1}
    for before, ends in ((other, "FULL_EXPORT"), ({**EARLIER, **earlier}, "INCREMENTAL_EXPORT")):
        one = World(machine, {"audits/2026-11-22/audit.json": before}, SOUND)
        one.run(CHANGES)
        assert {export["ExportType"] for export in one.called("exportTableToPointInTime")} == {ends}
        assert [put["Body"] for put in one.called("putObject")] == [written]
