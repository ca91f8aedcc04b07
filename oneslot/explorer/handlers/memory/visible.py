"""Which calls in a handler's source leave nothing hidden: all that Python holds during them is in variables.

While a call runs, Python also holds values that no variable names: the iterator of a `for`, the left side of `a() + b()`.
Loops get a variable for their iterator. A call beside other hidden values is not visible, and its histories stay apart.
"""

import ast
import dis
import functools
import inspect
from collections import defaultdict
from collections.abc import Iterable, Iterator
from types import CodeType, FrameType
from typing import Any

Place = tuple[int | None, int | None]
"""The line and the column at which a call ends: no two calls have the same."""

Call = tuple[ast.expr, frozenset[str]]
"""What is called, and the variables that the statement has read."""

_HEADS = {
    **{ast.If: "test", ast.While: "test", ast.For: "iter"},
    **{ast.Expr: "value", ast.Assign: "value", ast.AnnAssign: "value", ast.Return: "value"},
}
_BODIES = (ast.If, ast.While, ast.For, ast.Try)
_POPPED = (ast.BoolOp, ast.IfExp, ast.UnaryOp, ast.Attribute, ast.NamedExpr)
"""Expressions that hold no value while their later parts are computed."""
_IN_ORDER = (ast.Call, ast.keyword, ast.BinOp, ast.Compare, ast.Subscript, ast.Dict, ast.List, ast.Tuple, ast.Set)
"""Expressions that hold the values of their earlier parts."""


class Loop:
    """The iterator of a `for`, in a variable."""

    def __init__(self, values: Any) -> None:
        self.iterator = iter(values)

    def __iter__(self) -> "Loop":
        return self

    def __next__(self) -> Any:
        return next(self.iterator)


_SUSPENDABLE = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR

LOOP = "__loop__"
"""The name of `Loop` in a handler's modules."""

LOOP_NAME = "_loop_"
"""How the names of the variables for iterators start."""


class _Loops(ast.NodeTransformer):
    """Names the iterators of the loops in functions, and lets `x.__hash__()` be `hash(x)`, which is the explorer's."""

    def __init__(self) -> None:
        self._count = 0
        self._within = False

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.ClassDef) -> ast.AST:
        within, self._within = self._within, not isinstance(node, ast.ClassDef)
        self.generic_visit(node)
        self._within = within
        return node

    visit_ClassDef = visit_FunctionDef  # noqa: N815 - as `ast` names it

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        match node:
            case ast.Call(ast.Attribute(value, "__hash__") as called, [], []) if not isinstance(value, ast.Call):
                name = ast.copy_location(ast.Name("hash", ast.Load()), called)
                return ast.copy_location(ast.Call(name, [value], []), node)
        return node

    def visit_For(self, node: ast.For) -> ast.AST:
        self.generic_visit(node)
        if self._within:
            self._count += 1
            at: dict[str, Any] = {"lineno": node.lineno, "col_offset": node.col_offset}
            at |= {"end_lineno": node.lineno, "end_col_offset": node.col_offset}
            name = ast.Name(f"{LOOP_NAME}{self._count}", ast.Store(), **at)
            call = ast.Call(ast.Name(LOOP, ast.Load(), **at), [node.iter], [], **at)
            node.iter = ast.NamedExpr(name, call, **at)
        return node


class Visible:
    """The visible calls of the handler's files, each with what it calls."""

    def __init__(self) -> None:
        self._places: dict[str, dict[Place, Call]] = {}
        self._at: dict[tuple[CodeType, int], Call | None] = {}

    def parsed(self, source: str, path: str) -> ast.Module:
        """Return the tree of a file, whose loops have variables."""
        tree: ast.Module = _Loops().visit(ast.parse(source, path))
        shared = {
            name for node in ast.walk(tree) if isinstance(node, (ast.Global, ast.Nonlocal)) for name in node.names
        }
        self._places[path] = {
            (call.end_lineno, call.end_col_offset): (call.func, names)
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef)
            for computed, names in _computed(node.body, shared)
            for call in _visible(computed, shared)
        }
        return tree

    def calls(self, frame: FrameType, callee: CodeType | None, name: str) -> bool:
        """Return whether a frame waits at a visible call of the function with this code and name, and of nothing else."""
        key = (frame.f_code, call_at(frame))
        if key not in self._at:
            code, at = key
            is_call = not code.co_flags & _SUSPENDABLE and dis.opname[code.co_code[at]].startswith("CALL")
            _, end_line, _, end_column = list(code.co_positions())[at // 2]
            self._at[key] = self._places.get(code.co_filename, {}).get((end_line, end_column)) if is_call else None
        match self._at[key]:
            case ast.Name(called), _ if callee is not None:
                value = frame.f_locals.get(called, frame.f_globals.get(called))
                return getattr(value, "__code__", None) is callee
            case ((ast.Name(called) | ast.Attribute(attr=called)), _):
                return called == name
        return False

    def variables(self, frame: FrameType) -> dict[str, Any]:
        """Return the variables that a frame may still read. It waits at a visible call."""
        at = call_at(frame)
        live, call = read_later(frame.f_code, at), self._at[frame.f_code, at]
        held = call[1] if call is not None else frozenset()
        return {
            name: value
            for name, value in frame.f_locals.items()
            if live is None or name in live or name in held or name.startswith(LOOP_NAME)
        }


def call_at(frame: FrameType) -> int:
    """Return the offset of the instruction at which a frame waits."""
    code, at = frame.f_code.co_code, frame.f_lasti
    while at and dis.opname[code[at]] == "CACHE":  # behind the instruction are its caches
        at -= 2
    return at


def _computed(statements: list[ast.stmt], shared: set[str]) -> Iterator[tuple[ast.expr, frozenset[str]]]:
    """Yield what each statement computes while nothing hidden is held, and the variables that it has read by then."""
    for one in statements:
        head = getattr(one, _HEADS[type(one)]) if type(one) in _HEADS else None
        if isinstance(one, ast.AugAssign):
            head = one.value if _is_harmless(one.target, shared) else None
        if head is not None:
            read = [head, one.target] if isinstance(one, ast.AugAssign) else [head]
            yield head, frozenset(node.id for part in read for node in ast.walk(part) if isinstance(node, ast.Name))
        if isinstance(one, _BODIES):
            yield from _computed([*one.body, *one.orelse], shared)


def _visible(node: ast.AST, shared: set[str]) -> Iterator[ast.Call]:
    """Yield the visible calls in an expression that nothing hidden is held beside."""
    if isinstance(node, ast.Call):
        yield node
    parts: Iterable[ast.AST] = ()
    if isinstance(node, _POPPED):
        parts = (child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr))
    elif isinstance(node, _IN_ORDER):
        parts = _until_hidden(node, shared)
    for part in parts:
        yield from _visible(part, shared)


def _until_hidden(node: ast.AST, shared: set[str]) -> Iterator[ast.AST]:
    """Yield the parts of an expression as long as those before are constants, or names that no call can change."""
    parts = [child for child in ast.iter_child_nodes(node) if isinstance(child, (ast.expr, ast.keyword))]
    for part in sorted(parts, key=lambda one: (one.lineno, one.col_offset)):
        yield part
        called = isinstance(node, ast.Call) and part is node.func and _is_name(part)
        if not (called or _is_harmless(part, shared)):
            return


def _is_harmless(node: ast.AST, shared: set[str]) -> bool:
    if isinstance(node, ast.keyword):
        return _is_harmless(node.value, shared)
    return isinstance(node, ast.Constant) or (isinstance(node, ast.Name) and node.id not in shared)


def _is_name(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) or (isinstance(node, ast.Attribute) and _is_name(node.value))


_LOOK_AROUND = {"locals", "vars", "dir", "eval", "exec", "globals"}
"""Functions that may read any variable."""

_ENDS = (
    *("RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE"),
    *("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT"),
)
"""Instructions that the next one does not follow."""


@functools.lru_cache(maxsize=10_000)
def read_later(code: CodeType, offset: int) -> frozenset[str] | None:
    """Return the local variables that may be read after the instruction at `offset`; None for all of them."""
    if _LOOK_AROUND & set(code.co_names):
        return None
    following = _Function(code).after.get(offset)
    return None if following is None else frozenset(following) | {*code.co_cellvars, *code.co_freevars}


@functools.lru_cache(maxsize=1_000)
class _Function:
    """The variables that are live before and after each instruction of a function, by its offset."""

    def __init__(self, code: CodeType) -> None:
        self._instructions = list(dis.get_instructions(code))
        entries: Any = dis.Bytecode(code)
        self._handlers = [(one.start, one.end, one.target) for one in entries.exception_entries]
        self.after: dict[int, set[str]] = defaultdict(set)
        self._before: dict[int, set[str]] = defaultdict(set)
        while self._improved():
            pass

    def _improved(self) -> bool:
        changed = False
        for position in reversed(range(len(self._instructions))):
            one = self._instructions[position]
            after = set[str]().union(*(self._before[target] for target in self._targets(position)))
            caught = set[str]().union(
                *(self._before[to] for start, end, to in self._handlers if start <= one.offset < end)
            )
            named = one.argval if one.opcode in dis.haslocal else ()
            names = {named} if isinstance(named, str) else set(named)
            before = caught | (after - names if one.opname == "STORE_FAST" else after | names)
            changed |= before != self._before[one.offset]
            self._before[one.offset], self.after[one.offset] = before, after | caught
        return changed

    def _targets(self, position: int) -> list[int]:
        one = self._instructions[position]
        targets = [one.argval] if one.opcode in dis.hasjrel or one.opcode in dis.hasjabs else []
        if one.opname not in _ENDS and position + 1 < len(self._instructions):
            targets.append(self._instructions[position + 1].offset)
        return targets
