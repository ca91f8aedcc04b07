"""The audit's benchmark ends with 1 unless both judges agree and find exactly what was sown."""

import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from lab.benchmarks.audit import __main__ as audit


@pytest.fixture(autouse=True)
def no_history(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write no history: the measurements are fake."""
    for name in ("write_full", "sow"):
        monkeypatch.setattr(audit, name, lambda *_, **__: None)


def measured(broken: dict[str, int], booked: int = 100) -> dict[str, Any]:
    figures = {"seconds": 1.0, "cpu_seconds": 1.0, "peak_gb": 1.0}
    return {**figures, "violations": broken, "verdicts": {"booked": booked}}


@pytest.mark.parametrize(
    ("spark", "duckdb", "status"),
    [
        (measured(audit.SOWN), measured(audit.SOWN), 0),
        (measured({"I2": 1}), measured(audit.SOWN), 1),
        (measured({"I2": 1}), measured({"I2": 1}), 1),
        (measured(audit.SOWN, 99), measured(audit.SOWN), 1),
    ],
    ids=["right", "Spark missed one", "both missed one", "verdicts differ"],
)
def test_audit_returns_status_of_its_findings(
    spark: Any, duckdb: Any, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measure(name: str, *_: Path, **__: Any) -> Any:
        return {"spark": spark, "duckdb": duckdb}[name]

    monkeypatch.setattr(sys, "argv", ["audit", "--requests", "100"])
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(audit, "measure", measure)
    assert audit.main() == status
    assert not list(tmp_path.iterdir()), "nothing is left behind"
