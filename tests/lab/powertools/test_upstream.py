"""Powertools' own tests of idempotency, run against our persistence layer from a checkout beside the project.

`git clone https://github.com/aws-powertools/powertools-lambda-python`, then
`POWERTOOLS_SOURCE=powertools-lambda-python make test`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.lab.powertools.deviations import DEVIATIONS, NOT_OURS

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[2]
TESTS = Path("tests/functional/idempotency/_boto3")
SOURCE = os.environ.get("POWERTOOLS_SOURCE", "")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, bool]:
    """Return each upstream test case, by name and parameters, and whether it passed."""
    source = Path(SOURCE).resolve()
    assert (source / TESTS).is_dir(), f"POWERTOOLS_SOURCE is {SOURCE}, which has no {TESTS}"
    report = tmp_path_factory.mktemp("upstream") / "report.xml"
    run = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", str(TESTS), "-c", os.devnull, "--rootdir", str(source)),
            *("-p", "upstream_adapter", "-p", "no:cacheprovider", "-q", f"--junitxml={report}"),
        ],
        cwd=source,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(HERE), str(REPOSITORY)]),
            "PYTHONDONTWRITEBYTECODE": "1",
            "AWS_DEFAULT_REGION": "eu-west-2",
        },
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert report.exists(), run.stdout[-2000:] + run.stderr[-2000:]
    return {
        case.attrib["name"]: not any(child.tag in ("failure", "error", "skipped") for child in case)
        for case in ET.parse(report).getroot().iter("testcase")  # noqa: S314  pytest wrote this file
    }


pytestmark = pytest.mark.skipif(
    not SOURCE, reason="set POWERTOOLS_SOURCE to a checkout of aws-powertools/powertools-lambda-python to run its tests"
)


def name(case: str) -> str:
    return case.partition("[")[0]


def test_upstream_tests_pass_except_deviations(results: Mapping[str, bool]) -> None:
    assert len(results) >= 90
    assert {case for case, passed in results.items() if not passed and name(case) not in DEVIATIONS} == set()


def test_deviation_fails_upstream(results: Mapping[str, bool]) -> None:
    assert {case for case, passed in results.items() if passed and name(case) in DEVIATIONS} == set()
    assert set(DEVIATIONS) <= {name(case) for case in results}


def test_every_skipped_upstream_folder_has_a_reason() -> None:
    folders = {path.name for path in (Path(SOURCE).resolve() / TESTS).parent.iterdir() if path.name.startswith("_")}
    assert {each for each in folders if not each.startswith("__")} == {TESTS.name, *NOT_OURS}
