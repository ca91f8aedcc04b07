"""Clocks, chance and threads come from `Surroundings` alone, so that the simulation can replace them."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from oneslot.runtime.surroundings import Surroundings

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


def test_check_exempts_only_modules_that_need_it() -> None:
    assert {module for module in OUTSIDE if real_modules((ONESLOT / module).read_text(encoding="utf-8"))} == OUTSIDE


def test_clock_follows_the_system_after_a_freeze(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that counts from the start stands still with a frozen environment, and is a picture's after a restore."""
    surroundings = Surroundings()
    for now in (2_000_000_000_000, 1_000_000_000_000):
        monkeypatch.setattr(time, "time_ns", lambda now=now: now * 1_000_000)
        assert surroundings.now_ms() == now


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here; Lambda's system has them")
def test_forks_of_one_snapshot_draw_different_ids() -> None:
    """As environments do with SnapStart. With the same fence neither could tell its own claim from the other's."""
    restored = (
        "import os; from oneslot.runtime.surroundings import Surroundings; made = Surroundings()\n"
        "first = made.new_id(), made.jitter()\n"
        "for _ in range(2):\n"
        "    child = os.fork()\n"
        "    if not child:\n"
        "        print(made.new_id(), made.jitter(), flush=True)\n"
        "        os._exit(0)\n"
        "    os.waitpid(child, 0)\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", restored],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    (one, one_pause), (other, other_pause) = (line.split() for line in told.stdout.splitlines())
    assert one != other
    assert one_pause != other_pause
