"""What the import of `oneslot.cdk` chooses: CDK's Node.js and the folder of its packages; and its error without CDK."""

import subprocess
import sys
from pathlib import Path

import pytest

from oneslot.cdk.node import CACHE_ROOT_VARIABLE, CACHE_VARIABLE, NODE_VARIABLE, choose_cache, choose_node
from oneslot.errors import pip_install


def node_package(folder: Path) -> None:
    """A package `somenode` with a `node` in it."""
    (folder / "somenode" / "bin").mkdir(parents=True)
    (folder / "somenode" / "__init__.py").touch()
    (folder / "somenode" / "bin" / "node").touch()


def test_node_comes_from_the_installed_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node_package(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    environment: dict[str, str] = {}
    choose_node(environment, package="somenode")
    assert environment == {NODE_VARIABLE: str(tmp_path / "somenode" / "bin" / "node")}


def test_node_variable_stays_when_it_is_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node_package(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    environment = {NODE_VARIABLE: "/their/node"}
    choose_node(environment, package="somenode")
    assert environment == {NODE_VARIABLE: "/their/node"}


def test_node_comes_from_path_without_the_package() -> None:
    environment: dict[str, str] = {}
    choose_node(environment, package="no_such_package")
    assert environment == {}


def test_jsii_cache_is_in_the_environment_unless_it_is_set(tmp_path: Path) -> None:
    environment: dict[str, str] = {}
    choose_cache(environment, str(tmp_path))
    assert environment == {CACHE_ROOT_VARIABLE: str(tmp_path / "jsii")}
    for theirs in ({CACHE_ROOT_VARIABLE: "/their/folder"}, {CACHE_VARIABLE: "enabled"}):
        environment = dict(theirs)
        choose_cache(environment, str(tmp_path))
        assert environment == theirs
    environment = {}
    choose_cache(environment, str(tmp_path / "missing"))  # as one that is read-only, which is none to root
    assert environment == {CACHE_VARIABLE: "disabled"}


def test_import_names_the_extra_when_cdk_is_missing() -> None:
    program = """
import importlib.util
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "aws_cdk" else find(name, *rest)
import oneslot.cdk
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    said = f"ModuleNotFoundError: aws-cdk-lib is missing; run: {pip_install('cdk')}"
    assert done.stderr.splitlines()[-1] == said
