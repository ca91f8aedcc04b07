"""Clocks, chance and threads come from `Surroundings` alone, so that the simulation can replace them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ONESLOT = Path(__file__).resolve().parents[3] / "oneslot"
ROOMS = ("runtime", "worker", "local/mapping", "sending", "repair")
REAL = {"time", "threading", "queue", "random", "uuid", "concurrent"}
OUTSIDE = {"runtime/surroundings.py", "local/mapping/bootstrap.py", "local/mapping/handler_process.py"}
"""The surroundings themselves, and what runs or starts the handlers' real processes."""


def modules() -> list[str]:
    paths = [path.relative_to(ONESLOT) for room in ROOMS for path in sorted((ONESLOT / room).rglob("*.py"))]
    return [str(path) for path in paths if str(path) not in OUTSIDE]


def real_modules(source: str) -> set[str]:
    """Return the modules of `REAL` that a module names, by an import anywhere in it."""
    return {name.partition(".")[0] for name in _imported(ast.parse(source))} & REAL


def _imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield str(node.module)


@pytest.mark.parametrize("module", modules())
def test_module_takes_clocks_and_threads_from_surroundings(module: str) -> None:
    assert real_modules((ONESLOT / module).read_text(encoding="utf-8")) == set()


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import time", "time"),
        ("import concurrent.futures as futures", "concurrent"),
        ("from threading import Lock", "threading"),
        ("def wait():\n    from uuid import uuid4", "uuid"),
        ("from concurrent import futures", "concurrent"),
    ],
)
def test_check_finds_an_import_of_a_real_module(source: str, found: str) -> None:
    assert real_modules(source) == {found}


def test_check_exempts_only_modules_that_need_it() -> None:
    assert {module for module in OUTSIDE if real_modules((ONESLOT / module).read_text(encoding="utf-8"))} == OUTSIDE
