"""The entry of the command line: missing packages, the machine's refusals, numbers that are not finite."""

import re
import runpy
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import boto3
import pytest
from _pytest.assertion.rewrite import AssertionRewritingHook
from botocore.exceptions import NoRegionError

from oneslot.errors import DeclarationNotFound, pip_install
from oneslot.operator.explanations import explain

ROOT = Path(__file__).resolve().parents[2]
SITE_PACKAGES = sysconfig.get_paths()["purelib"]
PROGRAM = "import sys; sys.path.append({packages!r}); from oneslot.__main__ import main; main()"
"""Runs the command line of the current folder, without the editable installation of this checkout."""


@dataclass(frozen=True)
class Without:
    """A finder that raises for one package, as in an installation without it."""

    package: str

    def find_spec(self, name: str, *_: object) -> None:
        if name == self.package:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def test_command_line_names_a_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("oneslot.operator.cli", "click"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    # pytest rewrites the modules of a distribution with a plugin, and runpy cannot run those.
    finders = [each for each in sys.meta_path if not isinstance(each, AssertionRewritingHook)]
    monkeypatch.setattr(sys, "meta_path", [Without("click"), *finders])
    sentence = f"Error: The command line needs click, which is missing; run: {pip_install('cli')}"
    with pytest.raises(SystemExit, match=f"^{re.escape(sentence)}$"):
        runpy.run_module("oneslot", run_name="__main__")


@pytest.mark.slow
def test_verb_is_refused_when_no_consumer_is_declared(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "oneslot", tmp_path / "oneslot", ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-S", "-c", PROGRAM.format(packages=SITE_PACKAGES), "ledger", "show", "order-1"]

    refused = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    helped = subprocess.run([*command[:-3], "--help"], cwd=tmp_path, capture_output=True, text=True, check=False)

    assert refused.returncode == 2
    assert DeclarationNotFound.code in refused.stderr
    verbs = re.findall(r"^  ([a-z]+)  ", helped.stdout.partition("Options:")[2], re.MULTILINE)
    assert {"check", "dlq", "ledger", "worker"} <= set(verbs)
    assert "seed" not in verbs


def test_explain_names_the_variable_that_boto3_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    (name,) = (word.strip(",.") for word in str(explain(NoRegionError())).split() if word.startswith("AWS_"))
    for known in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(known, raising=False)
    monkeypatch.setenv(name, "eu-north-1")
    assert boto3.session.Session().region_name == "eu-north-1"
