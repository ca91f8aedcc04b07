"""A preemption point before every statement of chosen modules, while a simulation runs.

Each function of a module gets the code object of the same function, compiled with a call of `POINT` before each statement.
Classes, closures and defaults stay the same objects, so code outside of the simulation sees no difference.
"""

import ast
import contextlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

POINT = "__point__"


class _Points(ast.NodeTransformer):
    """Adds a point before each statement in a function."""

    def __init__(self) -> None:
        self._depth = 0

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self._depth += 1
        self.generic_visit(node)
        self._depth -= 1
        return node

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        if self._depth:
            for name in ("body", "orelse", "finalbody"):
                statements = getattr(node, name, None)
                if isinstance(statements, list) and not isinstance(node, ast.ClassDef):
                    setattr(node, name, [each for statement in statements for each in _with_point(statement)])
        return node


def _with_point(statement: ast.stmt) -> list[ast.stmt]:
    is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    if is_text or isinstance(statement, ast.Global | ast.Nonlocal | ast.Import | ast.ImportFrom):
        return [statement]
    point = ast.Expr(ast.Call(ast.Name(POINT, ast.Load()), [], []))
    return [ast.fix_missing_locations(ast.copy_location(point, statement)), statement]


def _codes(code: CodeType) -> Iterator[tuple[tuple[str, int], CodeType]]:
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield (each.co_qualname, each.co_firstlineno), each
            yield from _codes(each)


def _functions(container: Any, module: str, seen: set[int]) -> Iterator[FunctionType]:
    for value in list(vars(container).values()):
        for each in (value, *(getattr(value, name, None) for name in ("__func__", "fget", "fset", "__wrapped__"))):
            if isinstance(each, FunctionType) and each.__module__ == module and id(each) not in seen:
                seen.add(id(each))
                yield each
        if isinstance(value, type) and value.__module__ == module and id(value) not in seen:
            seen.add(id(value))
            yield from _functions(value, module, seen)


class Instrumented:
    """Modules with points. `POINT` does nothing until `set_point`."""

    def __init__(self, modules: Iterable[ModuleType]) -> None:
        self._modules = list(modules)
        self._original: list[tuple[FunctionType, CodeType]] = []
        self.set_point(lambda: None)
        for module in self._modules:
            path = str(module.__file__)
            tree = _Points().visit(ast.parse(Path(path).read_text(encoding="utf-8"), path))
            codes = dict(_codes(compile(tree, path, "exec", dont_inherit=True)))
            for function in _functions(module, module.__name__, set()):
                code = codes.get((function.__code__.co_qualname, function.__code__.co_firstlineno))
                if code is not None:
                    self._original.append((function, function.__code__))
                    function.__code__ = code

    def set_point(self, point: Callable[[], None]) -> None:
        """Call `point` before each statement from now on."""
        for module in self._modules:
            vars(module)[POINT] = point

    def remove(self) -> None:
        """Give every function its own code again."""
        for function, code in self._original:
            function.__code__ = code
        for module in self._modules:
            vars(module).pop(POINT, None)


@contextlib.contextmanager
def instrumented(modules: Iterable[ModuleType]) -> Iterator[Instrumented]:
    """Instrument modules within a `with` block."""
    points = Instrumented(modules)
    try:
        yield points
    finally:
        points.remove()
