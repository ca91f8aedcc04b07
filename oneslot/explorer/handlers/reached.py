"""What an exploration reached: the statements of the handler's functions that ran, and the calls that met a fault."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from oneslot.explorer.execution.process import RunningInvocation

RAN = "__ran__"
"""The name of `ran` in a handler's modules."""

Place = tuple[str, int, int]
"""The file of a statement, its first and its last line."""

_WRITES = re.compile(
    r"(?:put|update|delete|send|publish|transact_write|batch_write|invoke|start|create|upload|copy|execute)_\w+|publish|invoke"
)
"""The names of boto3's methods that change something."""
_READS = (
    "get",
    "batch_get",
    "query",
    "scan",
    "list",
    "describe",
    "head",
    "receive",
    "select",
    "random",
    "transact_get",
)

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def ran(place: Place) -> None:
    """Note that a statement of the running handler runs."""
    process: Any = RunningInvocation.running
    if process is not None:
        process.code.reached.ran.add(place)


@dataclass(frozen=True)
class _Function:
    """A function, its statements, and the names that it refers to."""

    name: str
    places: list[Place]
    names: set[str]


class Reached:
    """What ran, and what met a fault.

    Attributes:
        ran: the statements that ran.
        calls: the operation and the line of each call that was made, by its text.
        met: the operation and the line of each call that met a fault.
    """

    def __init__(self, roots: Sequence[Path]) -> None:
        self._roots = roots
        self._functions: list[_Function] = []
        self._writes: dict[Place, str] = {}
        """The statements that change something in AWS, by the looks of them, and by which method."""
        self._named_outside: set[str] = set()
        """The names that the modules' own statements refer to."""
        self.forget()

    def forget(self) -> None:
        """Forget what ran."""
        self.ran: set[Place] = set()
        self.calls: dict[str, tuple[str, str]] = {}
        self.met: set[tuple[str, str]] = set()

    def marked(self, tree: ast.Module, file: str) -> ast.Module:
        """Let each statement of the functions in a file note that it runs. This changes the tree."""
        functions = [node for node in ast.walk(tree) if isinstance(node, _FUNCTIONS)]
        self._named_outside |= {name for one in tree.body if not isinstance(one, _FUNCTIONS) for name in _names(one)}
        for function in functions:
            names = _names(function)
            self._writes |= _written(function, file)
            self._functions.append(_Function(function.name, sorted(_marked(function, file)), names))
        return tree

    @property
    def unrun(self) -> tuple[str, ...]:
        """The lines of each file that did not run, of functions that did or that those name: "app.py:12-14, 20"."""
        found: dict[str, list[tuple[int, int]]] = {}
        for function in self._concerned():
            for did_run, group in groupby(function.places, self.ran.__contains__):
                (file, first, _), *_, (_, _, last) = [*(held := list(group)), held[-1]]
                if not did_run:
                    found.setdefault(file, []).append((first, last))
        return tuple(f"{self._named(file)}:{_lines(spans)}" for file, spans in sorted(found.items()))

    def _concerned(self) -> list[_Function]:
        """Return the functions that ran, and those that they or the modules' own statements name, and so on.

        Another handler in the same file is none of them.
        """
        concerned = [one for one in self._functions if not self.ran.isdisjoint(one.places)]
        names = self._named_outside.union(*(one.names for one in concerned))
        while more := [one for one in self._functions if one.name in names and one not in concerned]:
            concerned += more
            names = names.union(*(one.names for one in more))
        return concerned

    @property
    def wrote(self) -> int:
        """The number of places whose calls changed something."""
        return sum(not op.rpartition(".")[2].startswith(_READS) for op, _ in {*self.calls.values()})

    @property
    def unrun_writes(self) -> tuple[str, ...]:
        """The calls of boto3 that would have changed something, in functions that are concerned."""
        return tuple(
            f"{name} at {self._named(place[0])}:{place[1]}"
            for function in self._concerned()
            for place, name in self._writes.items()
            if place in function.places and place not in self.ran
        )

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


def _lines(spans: Sequence[tuple[int, int]]) -> str:
    """Return spans of lines in their order, without those within another one."""
    outer = (one for one in sorted(spans) if not any(a <= one[0] and one[1] <= b and (a, b) != one for a, b in spans))
    return ", ".join(f"{first}-{last}" if last > first else str(first) for first, last in outer)


def _names(node: ast.AST) -> set[str]:
    """Return the names and attributes in a statement."""
    found = (getattr(one, "id", getattr(one, "attr", None)) for one in ast.walk(node))
    return {name for name in found if isinstance(name, str)}


def _written(function: ast.AST, file: str) -> dict[Place, str]:
    """Return the statements that call a method of boto3 that changes something."""
    found: dict[Place, str] = {}
    for one in ast.walk(function):
        if isinstance(one, ast.stmt) and not hasattr(one, "body"):
            for call in ast.walk(one):
                name = call.func.attr if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else ""
                if _WRITES.fullmatch(name):
                    found[file, one.lineno, _last_line(one)] = name
    return found


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
