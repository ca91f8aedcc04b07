"""The audit's benchmark tells bad arguments in a sentence, before it writes anything, and its status says how it ended."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.audit import __main__ as audit
from benchmarks.harness.command import run_main


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--requests", "1000", "0"], "--requests must be 100 or more"),
        (["--requests", "1000", "--folder", "nowhere"], "--folder: there is no folder nowhere"),
    ],
)
def test_bad_arguments_are_told(
    arguments: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["audit", *arguments])
    monkeypatch.setattr(audit, "compare", lambda *_: pytest.fail("it was begun"))
    with pytest.raises(SystemExit) as ended:
        audit.main()
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def measured(broken: dict[str, int]) -> dict[str, Any]:
    """A measurement's answer."""
    return {"seconds": 1.0, "java": "21", "broken": broken}


@pytest.mark.parametrize(
    ("spark", "duckdb", "status"),
    [
        (measured(audit.SOWN), measured(audit.SOWN), 0),
        (measured({"I2": 1}), measured(audit.SOWN), 1),
        (measured({"I2": 1}), measured({"I2": 1}), 1),
        (None, measured(audit.SOWN), 1),
        (measured(audit.SOWN), None, 1),
        (KeyboardInterrupt(), None, 130),
    ],
    ids=["right", "Spark missed one", "both missed one", "Spark failed", "DuckDB failed", "interrupted"],
)
def test_the_status_says_how_it_ended(
    spark: Any, duckdb: Any, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measure(name: str, *_: str) -> dict[str, Any] | None:
        if isinstance(spark, KeyboardInterrupt):
            raise spark
        answers: dict[str, dict[str, Any] | None] = {"floor": measured({}), "spark": spark, "duckdb": duckdb}
        return answers[name]

    monkeypatch.setattr(sys, "argv", ["audit", "--requests", "100", "--folder", str(tmp_path)])
    monkeypatch.setattr(audit, "measure", measure)
    assert run_main(audit.main) == status
    assert not list(tmp_path.iterdir()), "nothing is left behind"


def test_duckdb_may_run_out_of_the_memory_that_spark_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does at ten million requests: a result, and no failure of the audit."""
    monkeypatch.setattr(sys, "argv", ["audit", "--requests", "100", "--folder", str(tmp_path)])
    monkeypatch.setattr(
        audit, "measure", lambda *given: None if "3g" in given and "duckdb" in given else measured(audit.SOWN)
    )
    assert audit.main() == 0
