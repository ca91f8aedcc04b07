"""`requirements.txt` is what a deployment needs, taken from the environment that the tests run in."""

from __future__ import annotations

from pathlib import Path

from oneslot.cdk.asset.vendoring import read_pins

ROOT = Path(__file__).resolve().parents[2]
# What a deployment never runs: the local run, Spark, the checks.
HEAVY = {"awscli", "duckdb", "ministack", "moto", "mypy", "pandas", "pyarrow", "pyspark", "pytest", "ruff"}


def test_deployment_gets_the_tested_versions() -> None:
    deployed, tested = (set(read_pins(ROOT / f"requirements{name}.txt")) for name in ("", "-dev"))
    assert deployed < tested


def test_deployment_installs_nothing_heavy() -> None:
    deployed = {pin.name for pin in read_pins(ROOT / "requirements.txt")}
    assert deployed.isdisjoint(HEAVY)
    assert {"aws-cdk-lib", "cdk-nag", "constructs", "boto3", "aws-lambda-powertools"} <= deployed


def test_lambda_asset_gets_the_tested_versions() -> None:
    assert set(read_pins(ROOT / "lambda_src" / "requirements.txt")) <= set(read_pins(ROOT / "requirements.txt"))
