"""The package's names, and the entry of the command line: missing packages, refusals, numbers that are not finite."""

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

import oneslot
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


def test_package_has_every_public_name() -> None:
    assert set(oneslot.__all__) <= set(dir(oneslot))
    for name in oneslot.__all__:
        assert hasattr(oneslot, name), name


def test_package_has_no_other_name() -> None:
    with pytest.raises(AttributeError, match="module 'oneslot' has no attribute 'Ledger'"):
        getattr(oneslot, "Ledger")  # noqa: B009 - mypy knows that it is missing


def test_package_imports_nothing_heavy_before_its_use() -> None:
    program = "import sys, oneslot; oneslot.Effects({}); print(*{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "oneslot" in loaded
    assert loaded & {"asyncio", "boto3", "botocore", "aws_lambda_powertools"} == set()


def test_scan_action_installs_hashed_lists_alone() -> None:
    action = (ROOT / ".github/actions/scan/action.yml").read_text(encoding="utf-8")
    listed, built = re.findall(r"pip install --quiet (.*)", action)
    assert listed == '--require-hashes -r "$ONESLOT/requirements/explorer.txt"'
    assert built == '--no-deps --no-build-isolation "$ONESLOT"'
