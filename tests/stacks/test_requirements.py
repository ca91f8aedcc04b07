"""`requirements.txt` is what a deployment needs, taken from the environment that the tests run in."""

from __future__ import annotations

import re
import subprocess
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


def test_make_installs_nothing_without_a_hash() -> None:
    recipes = (ROOT / "Makefile").read_text(encoding="utf-8").replace("\\\n", " ")
    installs = [line for line in recipes.splitlines() if "pip install" in line]
    assert len(installs) >= 5
    assert [line for line in installs if "--require-hashes" not in line and "--no-deps -e ." not in line] == []


def test_make_takes_the_installers_line_alone() -> None:
    (command,) = re.findall(
        r"^\t@(sed -n .*requirements-run\.txt) >", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE
    )
    shown = subprocess.run(
        ["/bin/sh", "-c", command.replace("$$", "$")], cwd=ROOT, capture_output=True, text=True, check=True
    )
    first, *rest = shown.stdout.splitlines()
    assert first.startswith("uv==")
    assert len(rest) > 10
    assert {line.strip().split(":")[0] for line in rest} == {"--hash=sha256"}
