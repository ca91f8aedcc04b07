"""What an exploration reached: the statements of the handler's functions that ran, and the calls that met a fault."""

import ast
import re
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from oneslot.explorer.execution.process import RunningInvocation
from oneslot.explorer.handlers.surroundings.chance import DRAW
from oneslot.explorer.services.account import operations, reads, services

RAN = "__ran__"
"""The name of `ran` in a handler's modules."""

ANSWERED = '{"answer"'
"""How the text of an observation begins that is not an error."""

Place = tuple[str, int, int]
"""The file of a statement, its first and its last line."""

_METHODS = ("POST", "PUT", "PATCH", "DELETE", "GET")

_BODIES = {"body", "cases"}

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

_CHANGES = re.compile(
    r"(?:admin_|batch_|transact_)?(?:put|update|delete|create|send|start|write|execute|upload|copy|publish|invoke)(?:_\w+)?"
)
"""How the names of operations begin that change something. One counts if it is of a service that the code names."""
_HTTP = ("requests", "httpx", "urllib3", "aiohttp")
_WRITES = {
    **{"Effects": ("oneslot",), "batch_writer": ("dynamodb",), "send_messages": ("sqs",)},
    **{"upload_file": ("s3",), "upload_fileobj": ("s3",), "put": ("s3", *_HTTP), "post": _HTTP, "patch": _HTTP},
}
"""What else changes something, in code that names one of these services or packages: Oneslot, resources of boto3, HTTP."""

_OF_QUEUES = ("change_message_visibility", "delete_message", DRAW)
"""The calls that change nothing but how a message comes again."""


def ran(place: Place) -> None:
    """Note that a statement of the running handler runs."""
    process: Any = RunningInvocation.running
    if process is not None:
        process.code.reached.ran.add(place)


@dataclass(frozen=True, eq=False)
class _Function:
    """A function, its statements, the names that it refers to, and those of them that it calls."""

    name: str
    places: list[Place]
    names: set[str]
    calls: set[str]


class Reached:
    """What ran, and what met a fault.

    Attributes:
        ran: the statements that ran.
        calls: the operation and the line of each call that was made, by its text.
        answered: the texts of those that AWS has accepted at some time.
        met: the operation and the line of each call that met a fault.
    """

    def __init__(self, roots: Sequence[Path], named: Set[Any]) -> None:
        self._roots, self._named_by_code = roots, named
        self._vendored = tuple(f"{one}/" for one in {*map(str, _vendored(roots))})
        self._functions: list[_Function] = []
        self._function_of: dict[Place, _Function] = {}
        self._named_writes: dict[Place, str] = {}
        self._if_failing: set[tuple[str, int]] = set()
        """The files and lines within `except`, or in what `otherwise` of a write names: no event need reach them."""
        self.routes: list[tuple[str, str]] = []
        """The method and the path of each route that a decorator names, as Powertools, Flask and FastAPI do."""
        self.names: set[str] = set()
        """The names that a subscript or `get` reads, in lower case: those of AWS's answers begin with a capital."""
        self._named_outside: set[str] = set()
        """The names that the modules' own statements refer to."""
        self.forget()

    def forget(self) -> None:
        """Forget what ran."""
        self.ran: set[Place] = set()
        self.calls: dict[str, tuple[str, str]] = {}
        self.answered: set[str] = set()
        self.met: set[tuple[str, str]] = set()

    def marked(self, tree: ast.Module, file: str) -> ast.Module:
        """Let each statement of the functions in a file note that it runs, unless it is a package's. This changes the tree."""
        if f"{file.removesuffix('.py')}/".startswith(self._vendored):
            return tree
        functions = [node for node in ast.walk(tree) if isinstance(node, _FUNCTIONS)]
        otherwise: list[Any] = [one for one in ast.walk(tree) if getattr(one, "arg", "") == "otherwise"]
        named = {name for one in otherwise for name in _names(one)}
        failing: list[Any] = [node for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler)]
        failing += [one for one in functions if one.name in named]
        self._if_failing |= {(file, line) for one in failing for line in range(one.lineno, one.end_lineno + 1)}
        self._named_outside |= {name for one in tree.body if not isinstance(one, _FUNCTIONS) for name in _names(one)}
        for function in functions:
            names = _names(function)
            self.routes += _routes(function)
            self.names |= {name for one in ast.walk(function) for name in _read(one) if name[:1].islower()}
            calls, places = {*_called(function)}, sorted(_marked(function, file, self._named_writes))
            self._functions.append(_Function(function.name, places, names, calls))
            self._function_of |= dict.fromkeys(places, self._functions[-1])
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
        return tuple(f"{self.named(file)}:{_lines(spans)}" for file, spans in sorted(found.items()))

    @property
    def writes(self) -> dict[Place, str]:
        """The statements that name a write, in functions that are concerned: "put_item at app.py:12"."""
        own = {function.name for function in self._functions}
        places = {place for one in self._concerned() for place in one.places}
        return {
            (file, line, last): f"{name} at {self.named(file)}:{line}"
            for (file, line, last), name in sorted(self._named_writes.items())
            if (file, line, last) in places and name not in own and self._is_write(name)
        }

    def _is_write(self, name: str) -> bool:
        """Return whether a call of this name changes something with a service or a package that the code names."""
        if name in _WRITES:
            return not self._named_by_code.isdisjoint(_WRITES[name])
        return any(name in operations(one) for one in self._named_by_code & services())

    @property
    def done(self) -> set[Place]:
        """The statements that ran, without those that AWS has always refused."""
        lines = {line for text, (_, line) in self.calls.items() if text in self.answered}
        refused = {line for _, line in self.calls.values()} - lines
        at = {(file, int(line)) for file, _, line in (one.rpartition(":") for one in refused if one)}
        return {
            (file, first, last)
            for file, first, last in self.ran
            if not any((file, n) in at for n in range(first, last + 1))
        }

    @property
    def wanted(self) -> set[Place]:
        """The statements that name a write, and that some event should reach, because what runs calls their functions."""
        places = {place for one in self._concerned(by_calls=True) for place in one.places}
        return {place for place in places.intersection(self.writes) if place[:2] not in self._if_failing}

    @property
    def unwritten(self) -> tuple[str, ...]:
        """The writes that the code names, or else those that were sent, while AWS accepts none of its own."""
        named, sent = self.writes, {one: text in self.answered for text, one in self.calls.items() if is_write(one[0])}
        lines = {line for (_, line), is_answered in sent.items() if is_answered}
        if lines - {""} or (lines and not (named and self.done.isdisjoint(named))):
            return ()
        return (*named.values(),) or tuple(f"{name} at {self.named(line)}" for name, line in sorted(sent))

    @property
    def passed_by(self) -> tuple[str, ...]:
        """The functions of a handler if none of its own statements ran: a library returned before it called them."""
        return () if self.ran else tuple(one.name for one in self._functions if one.places)

    def _concerned(self, *, by_calls: bool = False) -> list[_Function]:
        """Return what ran, and what that or the modules' own statements name (or call), so not another handler's functions."""
        concerned: list[_Function] = []
        names = set() if by_calls else self._named_outside
        did_run = {self._function_of[place] for place in self.ran}
        more = [one for one in self._functions if one.name in names or one in did_run]
        while more:
            concerned += more
            names = names.union(*(one.calls if by_calls else one.names for one in more))
            more = [one for one in self._functions if one.name in names and one not in concerned]
        return concerned

    @property
    def wrote(self) -> int:
        """The number of places whose calls changed something."""
        return sum(is_write(operation) for operation, _ in {self.calls[text] for text in self.answered})

    @property
    def unmet(self) -> tuple[str, ...]:
        """The calls that never met a fault: "put_item at app.py:12"."""
        return tuple(
            f"{operation} at {self.named(line)}" if line else operation
            for operation, line in sorted({*self.calls.values()} - self.met)
        )

    def named(self, place: str) -> str:
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


def _vendored(roots: Sequence[Path]) -> Iterator[Path]:
    """Yield the modules of packages that are installed beside the handler's code, or in a layer."""
    for record in (one for root in roots for one in root.glob("*.dist-info/RECORD")):
        for line in record.read_text(errors="replace").splitlines():
            yield record.parents[1] / line.partition(",")[0].partition("/")[0].removesuffix(".py")


def is_write(operation: str) -> bool:
    """Return whether a call changes more than how a message comes again."""
    return operation not in _OF_QUEUES and not reads(operation)


def _routes(function: Any) -> Iterator[tuple[str, str]]:
    """Yield the method and the path of each decorator such as `@app.get("/orders/<id>")`."""
    for one in function.decorator_list:
        if isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute) and one.args:
            path = one.args[0].value if isinstance(one.args[0], ast.Constant) else None
            given = [text.value for text in ast.walk(one) if isinstance(text, ast.Constant) and text.value in _METHODS]
            method = one.func.attr.upper()
            if isinstance(path, str) and path.startswith("/") and (method in _METHODS or method == "ROUTE"):
                yield (method if method in _METHODS else (given or ["GET"])[0]), path


def _read(node: ast.AST) -> Iterator[str]:
    """Yield the names that an expression or a pattern reads: `row["id"]`, `row.get("id")`, `case {"id": one}`."""
    read: list[Any] = [getattr(node, "slice", None), *(node.keys if isinstance(node, ast.MatchMapping) else ())]
    if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "get":
        read += node.args[:1]
    yield from (one.value for one in read if isinstance(one, ast.Constant) and isinstance(one.value, str))


def _called(node: ast.AST) -> Iterator[str]:
    """Yield the functions that a statement calls by name, and all attributes: `submit(table.put_item)` calls later."""
    for one in ast.walk(node):
        if isinstance(one, ast.Attribute):
            yield one.attr
        elif isinstance(one, ast.Call) and isinstance(one.func, ast.Name):
            yield one.func.id


def _marked(node: ast.AST, file: str, writes: dict[Place, str]) -> Iterator[Place]:
    """Put a mark before each statement within a node, but not within a function, and yield their places.

    The name of a write in a statement is kept in `writes`.
    """
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (*_FUNCTIONS, ast.expr)):
            yield from _marked(child, file, writes)
    for held in vars(node).values():
        if isinstance(held, list) and held and isinstance(held[0], ast.stmt):
            is_documented = isinstance(held[0], ast.Expr) and isinstance(held[0].value, ast.Constant)
            statements = held[1:] if is_documented else held[:]
            # Of a statement with a body, its first line alone.
            spans: list[Any] = [
                (one.lineno, one.lineno if vars(one).keys() & _BODIES else one.end_lineno) for one in statements
            ]
            places: list[Place] = [(file, *span) for span in spans]
            yield from places
            for one, place in zip(statements, places, strict=True):
                parts = [part for part in ast.iter_child_nodes(one) if isinstance(part, ast.expr | ast.withitem)]
                names = [name for part in parts for name in _called(part)]
                writes.update((place, name) for name in names if name in _WRITES or _CHANGES.fullmatch(name))
            pairs = zip(map(_mark, statements, places), statements, strict=True)
            held[:] = [*held[: len(held) - len(statements)], *(one for pair in pairs for one in pair)]


def _mark(statement: ast.stmt, place: Place) -> ast.stmt:
    mark = ast.Expr(ast.Call(ast.Name(RAN, ast.Load()), [ast.Constant(place)], []))  # type: ignore[arg-type]
    mark.lineno = mark.end_lineno = statement.lineno
    mark.col_offset = mark.end_col_offset = statement.col_offset
    return ast.fix_missing_locations(mark)
