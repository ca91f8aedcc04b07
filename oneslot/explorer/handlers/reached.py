"""What an exploration reached: the statements of the handler's functions that ran, and the calls that met a fault."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from oneslot.explorer.execution.process import RunningInvocation

RAN = "__ran__"
"""The name of `ran` in a handler's modules."""

Place = tuple[str, int, int]
"""The file of a statement, its first and its last line."""

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def ran(place: Place) -> None:
    """Note that a statement of the running handler runs."""
    process: Any = RunningInvocation.running
    if process is not None:
        process.code.reached.ran.add(place)


class Reached:
    """What ran, and what met a fault.

    Attributes:
        ran: the statements that ran.
        calls: the operation and the line of each call that was made, by its text.
        met: the operation and the line of each call that met a fault.
    """

    def __init__(self, roots: Sequence[Path]) -> None:
        self._roots = roots
        self._functions: list[list[Place]] = []
        self.forget()

    def forget(self) -> None:
        """Forget what ran."""
        self.ran: set[Place] = set()
        self.calls: dict[str, tuple[str, str]] = {}
        self.met: set[tuple[str, str]] = set()

    def marked(self, tree: ast.Module, file: str) -> ast.Module:
        """Let each statement of the functions in a file note that it runs. This changes the tree."""
        for function in [node for node in ast.walk(tree) if isinstance(node, _FUNCTIONS)]:
            self._functions.append(sorted(_marked(function, file)))
        return tree

    @property
    def unrun(self) -> tuple[str, ...]:
        """The lines that did not run, of the functions that did: "app.py:12-14"."""
        found: list[str] = []
        for places in sorted(self._functions):
            for did_run, group in groupby(places, self.ran.__contains__):
                (file, first, _), *_, (_, _, last) = [*(held := list(group)), held[-1]]
                if not did_run and not self.ran.isdisjoint(places):
                    found.append(f"{self._named(file)}:{first}" + (f"-{last}" if last > first else ""))
        return tuple(found)

    @property
    def unmet(self) -> tuple[str, ...]:
        """The calls that never met a fault: "put_item at app.py:12"."""
        return tuple(
            f"{operation} at {self._named(line)}" if line else operation
            for operation, line in sorted({*self.calls.values()} - self.met)
        )

    def _named(self, place: str) -> str:
        """Return a file, or one of its lines, below the handler's folders."""
        return next((place[len(f"{one}/") :] for one in self._roots if place.startswith(f"{one}/")), place)


def _marked(node: ast.AST, file: str) -> Iterator[Place]:
    """Put a mark before each statement within a node, but not within a function, and yield their places."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (*_FUNCTIONS, ast.expr)):
            yield from _marked(child, file)
    for held in vars(node).values():
        if isinstance(held, list) and held and isinstance(held[0], ast.stmt):
            is_documented = isinstance(held[0], ast.Expr) and isinstance(held[0].value, ast.Constant)
            statements = held[1:] if is_documented else held[:]
            places = [(file, one.lineno, _last_line(one)) for one in statements]
            yield from places
            pairs = zip(map(_mark, statements, places), statements, strict=True)
            held[:] = [*held[: len(held) - len(statements)], *(one for pair in pairs for one in pair)]


def _mark(statement: ast.stmt, place: Place) -> ast.stmt:
    mark = ast.Expr(ast.Call(ast.Name(RAN, ast.Load()), [ast.Constant(place)], []))  # type: ignore[arg-type]
    mark.lineno = mark.end_lineno = statement.lineno
    mark.col_offset = mark.end_col_offset = statement.col_offset
    return ast.fix_missing_locations(mark)


def _last_line(statement: ast.stmt) -> int:
    """Return the last line of a statement; of one with a body, its first."""
    has_body = hasattr(statement, "body") or hasattr(statement, "cases")
    return statement.lineno if has_body else statement.end_lineno or statement.lineno
