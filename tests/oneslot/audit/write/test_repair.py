"""The audit's repair list is accepted by `oneslot dlq redrive`, and dropped messages are accounted for."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from oneslot.audit import job
from oneslot.audit.settings import AuditSettings
from tests.kits.consumer import booking, record
from tests.kits.moto_stack import NOW, MotoStack, document, invoke, moto_stack

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["moto_stack"]  # a fixture


def audit(name: str, folder: Path) -> dict[str, Any]:
    """Export and audit the stack as a user would. Return the JSON document."""
    history, answer = str(folder / f"{name}-history"), str(folder / name)
    document(invoke("export", "--output", history, "--json"))
    return document(invoke("audit", "--history", history, "--output", answer, "--json"))


@pytest.mark.slow
@pytest.mark.spark
def test_repair_list_leads_to_a_sound_audit(spark: SparkSession, moto_stack: MotoStack, tmp_path: Path) -> None:
    """One request ran out of receives and is redriven; two cannot succeed and are dropped."""
    moto_stack.bench.deliver(record(booking("fine", **NOW)), record("no JSON"))
    moto_stack.bench.deliver(record(booking("wrong", nhs_number="9990000019")))
    moto_stack.put_dead_letter(booking("exhausted", **NOW))
    sent = [("fine", 1), ("wrong", 1), ("exhausted", 1)]
    lines = [json.dumps({"message_id": name, "sent": at, "copies": 1}) for name, at in sent]
    # The producer crashed while it wrote its last line.
    moto_stack.target.archive.write_text("\n".join(lines) + '\n{"message_id": "cut-o')
    moto_stack.write_log()

    before = audit("before", tmp_path)
    assert {name: count for name, count in before["verdicts"].items() if count} == {"booked": 1, "quarantined": 3}
    repair = tmp_path / "before" / "repair" / "redrive.jsonl"
    assert [json.loads(line)["message_id"] for line in repair.read_text().splitlines()] == ["exhausted"]

    moved = document(invoke("dlq", "redrive", "--file", str(repair), "--yes", "--json"))
    assert (moved["moved"], moved["not_found"]) == (1, [])
    moto_stack.consume()
    dropped = document(invoke("dlq", "drop", "--all", "--accept-loss", "--yes", "--json"))
    assert dropped["dropped"] == 2

    after = audit("after", tmp_path)
    assert {name: count for name, count in after["verdicts"].items() if count} == {"booked": 2, "dropped": 2}
    assert "2 were dropped from the dead-letter queue by an operator" in after["sentence"]
    assert not any(after["violations"].values())
    assert (tmp_path / "after" / "repair" / "redrive.jsonl").read_text() == ""

    # Without the operator log the dropped requests are missing.
    shutil.rmtree(tmp_path / "after-history" / "dropped")
    settings = AuditSettings(str(tmp_path / "after-history"), str(tmp_path / "missed"), tables=False)
    assert job.audit(spark, settings).document["verdicts"]["lost"] == 2
