"""The audit's benchmark: its arguments, and its exit status."""

from __future__ import annotations

import sys
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
    return {**figures, "java": "21", "broken": broken, "verdicts": {"booked": booked}}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--requests", "1000", "0"], "--requests must be 100 or more"),
        (["--requests", "1000", "--folder", "nowhere"], "--folder: nowhere does not exist"),
    ],
)
def test_audit_rejects_bad_arguments_before_it_measures(
    arguments: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(audit, "compare", lambda *_: pytest.fail("measured"))
    monkeypatch.setattr(sys, "argv", ["audit", *arguments])
    with pytest.raises(SystemExit, match="2"):
        audit.main()
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("spark", "duckdb", "status"),
    [
        (measured(audit.SOWN), measured(audit.SOWN), 0),
        (measured({"I2": 1}), measured(audit.SOWN), 1),
        (measured({"I2": 1}), measured({"I2": 1}), 1),
        (measured(audit.SOWN, 99), measured(audit.SOWN), 1),
        (None, measured(audit.SOWN), 1),
        (measured(audit.SOWN), None, 1),
    ],
    ids=["right", "Spark missed one", "both missed one", "verdicts differ", "Spark failed", "DuckDB failed"],
)
def test_audit_returns_status_of_its_findings(
    spark: Any, duckdb: Any, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measure(name: str, *_: str) -> dict[str, Any] | None:
        answers: dict[str, dict[str, Any] | None] = {"spark": spark, "duckdb": duckdb}
        return answers[name]

    monkeypatch.setattr(sys, "argv", ["audit", "--requests", "100", "--folder", str(tmp_path)])
    monkeypatch.setattr(audit, "measure", measure)
    assert audit.main() == status
    assert not list(tmp_path.iterdir()), "nothing is left behind"
