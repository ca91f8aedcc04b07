"""`oneslot audit` refuses a wrong folder before Spark starts."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from oneslot.errors import HistoryRefused
from oneslot.operator.commands import audit


def test_audit_refuses_a_folder_without_exports_before_spark_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def started(*_: object) -> None:
        raise AssertionError("Spark started")

    monkeypatch.setattr(audit, "open_spark", started)
    (tmp_path / "ledger" / "AWSDynamoDB").mkdir(parents=True)
    answer = CliRunner().invoke(audit.audit, ["--history", str(tmp_path), "--output", str(tmp_path / "answer")])
    assert isinstance(answer.exception, HistoryRefused)
    assert str(answer.exception) == (
        f"{tmp_path}/slots holds no export: AWSDynamoDB/<export id> is missing. Export slots."
    )
