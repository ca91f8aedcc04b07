"""The import contracts see every module of the product, and name its packages."""

import ast
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import grimp
import pytest
from importlinter.configuration import configure

ROOT = Path(__file__).resolve().parents[1]
LINTER: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
NOT_THE_PRODUCT = {"tests", "docs"}
STARTER = Path("oneslot/starter")
"""What `oneslot new` copies: a project of its own, which nothing of the product imports."""
# A graph holds packages only. CDK looks for this script beside them.
SCRIPT = Path("app.py")
SCRIPTS = (SCRIPT, Path("quickstart.py"))


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    """The graph that `lint-imports` builds."""
    configure()
    return grimp.build_graph(*LINTER["root_packages"], include_external_packages=True)


def product_files() -> list[Path]:
    """Every tracked Python file but tests and documentation."""
    listed = subprocess.run(
        ["/usr/bin/env", "git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, check=True, text=True
    )
    files = [Path(line) for line in listed.stdout.splitlines()]
    ours = [file for file in files if file.parts[0] not in NOT_THE_PRODUCT and STARTER not in file.parents]
    return [file for file in ours if (ROOT / file).exists()]


def module(file: Path) -> str:
    """The dotted name of a file, from the repository's folder."""
    parts = file.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_graph_has_every_file_of_the_product(graph: grimp.ImportGraph) -> None:
    files = product_files()
    assert set(SCRIPTS) <= set(files)
    assert Path("lambda_src/handler.py") in files
    assert [str(file) for file in files if file not in SCRIPTS and module(file) not in graph.modules] == []


def test_app_imports_the_stacks_and_the_construct_alone() -> None:
    tree = ast.parse((ROOT / SCRIPT).read_text(encoding="utf-8"))
    imported = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name for name in imported if name.partition(".")[0] != "stacks"} <= {"__future__", "oneslot.cdk"}


@pytest.mark.parametrize("name", [contract["name"] for contract in LINTER["contracts"]])
def test_contract_names_packages_alone(name: str) -> None:
    (options,) = (each for each in LINTER["contracts"] if each["name"] == name)
    named = [part for key in ("layers", "source_modules", "forbidden_modules") for part in options.get(key, [])]
    ours = [part for layer in named for part in layer.split(" | ") if part.split(".")[0] in LINTER["root_packages"]]
    assert ours
    for package in ours:
        folder = Path(*package.split("."))
        assert any((ROOT / parent / folder).is_dir() for parent in ("", "lambda_src")), package
