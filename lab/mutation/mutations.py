"""The mutation operators: each removes or weakens one condition, fence, retry or classification of a module.

They work on syntax trees, so no list of places is kept by hand. A mutant's name is its file, function, operator and a digest
of its change rather than its line, so that the name survives edits elsewhere.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any, cast

Edit = Callable[[ast.AST], ast.AST]
"""Takes a copy of the node and returns its replacement."""

_TRUTHS = (True, False)
_BOUNDARIES: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
}


@dataclass(frozen=True)
class Mutant:
    """A mutated module. `name` is stable, `change` shows the mutation.

    `function` is its place: "Class.method", a class's name or "module".
    """

    name: str
    file: str
    function: str
    change: str
    _mutated: Callable[[], ast.AST] = field(repr=False, compare=False)

    @property
    def source(self) -> str:
        """The whole module."""
        return ast.unparse(ast.fix_missing_locations(self._mutated())) + "\n"


def mutants(file: str, source: str) -> Iterator[Mutant]:
    """Yield all mutants of one module; `file` is its path below the import root."""
    tree = ast.parse(source)
    _annotate(tree)
    seen: dict[str, int] = {}
    for node in ast.walk(tree):
        if getattr(node, "passed_over", False):
            continue
        for operator, edit in _edits(node):
            replacement = edit(_copied(node))
            if _canonical(replacement) == _canonical(node):
                continue
            before, after = _text(node), _text(replacement)
            change = f"{before}  ->  {operator if after == before else after}"
            # The digest is of a statement's first line, unless its body changes, so that edits of the rest keep the name.
            heads = [_canonical(one, head=True) for one in (node, replacement)]
            short = _hash(" -> ".join(heads if heads[0] != heads[1] else map(_canonical, (node, replacement))))[:6]
            name = f"{file}:{_function(node)}:{operator}:{short}"
            seen[name] = seen.get(name, 0) + 1
            if seen[name] > 1:
                name = f"{name}.{seen[name]}"
            yield Mutant(name, file, _function(node), change, partial(_copied, tree, {node: replacement}))


def digest(source: str) -> str:
    """Return a module's digest; comments, docstrings and layout make no difference."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node, clean=False):
            node.body[0] = ast.Pass()
    return _hash(_canonical(tree))[:16]


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _canonical(node: Any, *, head: bool = False) -> str:
    """Return a tree as text, equal in every version of Python, unlike `ast.dump`. `head` leaves out its body."""
    if isinstance(node, list):
        return f"[{', '.join(_canonical(one) for one in node)}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = ((name, value) for name, value in ast.iter_fields(node) if value is not None and value != [])
    shown = [f"{name}={_canonical(value)}" for name, value in fields if not (head and _is_body(value))]
    return f"{type(node).__name__}({', '.join(shown)})"


def _is_body(value: Any) -> bool:
    return isinstance(value, list) and isinstance(value[0], ast.stmt | ast.ExceptHandler | ast.match_case)


def _annotate(tree: ast.Module) -> None:
    """Note each node's parent and function, and mark docstrings, annotations and interfaces to be passed over."""

    def walk(node: ast.AST, function: str, passed_over: bool) -> None:
        node.function = function  # type: ignore[attr-defined]
        node.passed_over = passed_over  # type: ignore[attr-defined]
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            function = f"{function}.{node.name}".lstrip(".")
            if isinstance(node, ast.ClassDef) and any(_text(base).startswith("Protocol") for base in node.bases):
                passed_over = True
        first = node.body[0] if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef) and node.body else None
        for name, value in ast.iter_fields(node):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    child.parent = node  # type: ignore[attr-defined]
                    aside = name in ("annotation", "returns", "decorator_list", "bases", "type_params")
                    docstring = child is first and isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
                    walk(child, function, passed_over or aside or docstring)

    walk(tree, "", False)


def _function(node: ast.AST) -> str:
    return getattr(node, "function", "") or "module"


def _text(node: ast.AST) -> str:
    first, *more = ast.unparse(ast.fix_missing_locations(_copied(node))).splitlines() or [""]
    return f"{first} ..." if more else first


def _copied(node: Any, replaced: Mapping[ast.AST, ast.AST] = MappingProxyType({})) -> Any:
    """Return a copy of a tree without our notes, with some nodes replaced."""
    if isinstance(node, list):
        return [_copied(one, replaced) for one in node]
    if not isinstance(node, ast.AST):
        return node
    if node in replaced:
        return replaced[node]
    return type(node)(**{name: _copied(value, replaced) for name, value in ast.iter_fields(node)})


def _edits(node: ast.AST) -> Iterator[tuple[str, Edit]]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield from _expression_edits(node)
    elif isinstance(node, ast.If | ast.While | ast.IfExp | ast.comprehension):
        yield from _test_edits(node)
    elif isinstance(node, ast.Set | ast.Tuple):
        yield from _collection_edits(node)
    elif isinstance(node, ast.Dict):
        yield from _mapping_edits(node)
    elif isinstance(node, ast.Call):
        yield from _call_edits(node)
    elif isinstance(node, ast.stmt):
        yield from _statement_edits(node)
    elif isinstance(node, ast.BoolOp):
        for position in range(len(node.values)):
            yield "one operand less", _without("values", position, unwrap=True)
    elif isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _BOUNDARIES:
        yield "boundary", _boundary


def _statement_edits(node: ast.stmt) -> Iterator[tuple[str, Edit]]:
    if isinstance(node, ast.Raise):
        yield "no raise", lambda copied: ast.Pass()
    elif isinstance(node, ast.Match):
        for position in range(len(node.cases) - 1):
            yield "cases swapped", _swapped(position)
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield "not called", lambda copied: ast.Pass()
    elif (
        isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Attribute | ast.Subscript)
        and not _function(node).endswith("__init__")  # wiring, without which nothing works
    ):
        yield "not noted", lambda copied: ast.Pass()


def _collection_edits(node: ast.Set | ast.Tuple) -> Iterator[tuple[str, Edit]]:
    """Yield edits of a classification (caught, compared or transient values), and of writes that go together."""
    parent = getattr(node, "parent", None)
    classifies = isinstance(node, ast.Set) or isinstance(parent, ast.ExceptHandler | ast.Compare | ast.comprehension)
    together = isinstance(parent, ast.Call) and _text(parent.func) == "Effects"
    if len(node.elts) > 1 and (classifies or together):
        for position in range(len(node.elts)):
            yield "one element less", _without("elts", position)
    if getattr(parent, "arg", None) == "remove" and node.elts:
        yield "removes nothing", lambda copied: ast.Tuple([], ast.Load())


def _expression_edits(node: ast.Constant) -> Iterator[tuple[str, Edit]]:
    """Yield edits of conditions in DynamoDB's language: each conjunct made true, with its values still used."""
    text = str(node.value)
    if text == " AND ":
        yield "any condition is enough", lambda copied: ast.Constant(" OR ")
    elif text == "ALL_OLD":
        yield "refusals bring no row", lambda copied: ast.Constant("NONE")
    elif " AND " in text or re.fullmatch(r"attribute_(not_)?exists\([#\w]+\)", text):
        parts = text.split(" AND ")
        for position, part in enumerate(parts):
            if part.strip():
                weak = [*parts[:position], f"({part} OR NOT {part})", *parts[position + 1 :]]
                yield "condition always true", _constantly(" AND ".join(weak))


def _constantly(value: object) -> Edit:
    return lambda copied: ast.Constant(value)  # type: ignore[arg-type]


def _test_edits(node: ast.If | ast.While | ast.IfExp | ast.comprehension) -> Iterator[tuple[str, Edit]]:
    tests = node.ifs if isinstance(node, ast.comprehension) else [node.test]
    for position, test in enumerate(tests):
        if isinstance(test, ast.Constant) or _text(test) == "TYPE_CHECKING":  # nothing runs its imports
            continue
        for truth in _TRUTHS:
            if isinstance(node, ast.While) and truth:
                continue  # an endless loop is never overlooked

            def edit(copied: ast.AST, position: int = position, truth: bool = truth) -> ast.AST:
                if isinstance(copied, ast.comprehension):
                    copied.ifs[position] = ast.Constant(truth)
                elif isinstance(copied, ast.If | ast.While | ast.IfExp):
                    copied.test = ast.Constant(truth)
                return copied

            yield f"always {truth}".lower(), edit


def _without(field: str, position: int, unwrap: bool = False) -> Edit:
    def edit(copied: ast.AST) -> ast.AST:
        values = getattr(copied, field)
        del values[position]
        return values[0] if unwrap and len(values) == 1 else copied

    return edit


def _boundary(copied: ast.AST) -> ast.AST:
    if isinstance(copied, ast.Compare):
        copied.ops = [_BOUNDARIES[type(copied.ops[0])]()]
    return copied


def _mapping_edits(node: ast.Dict) -> Iterator[tuple[str, Edit]]:
    """Yield edits of what an `Update` expects and sets. An empty expectation becomes that of its own key."""
    role = getattr(getattr(node, "parent", None), "arg", None)
    if role not in ("expect", "set"):
        return
    call = getattr(getattr(node, "parent", None), "parent", None)
    for position in range(len(node.keys)):

        def edit(copied: ast.AST, position: int = position) -> ast.AST:
            if not isinstance(copied, ast.Dict):
                return copied
            del copied.keys[position], copied.values[position]
            if not copied.keys and role == "expect" and isinstance(call, ast.Call):
                keys = [keyword.value for keyword in call.keywords if keyword.arg == "key"]
                return cast("ast.AST", _copied([*keys, *call.args[1:2]][0]))
            return copied

        yield f"not in {role}", edit


def _swapped(position: int) -> Edit:
    def edit(copied: ast.AST) -> ast.AST:
        if isinstance(copied, ast.Match):
            one, other = copied.cases[position], copied.cases[position + 1]
            one.body, other.body = other.body, one.body
        return copied

    return edit


def _call_edits(node: ast.Call) -> Iterator[tuple[str, Edit]]:
    name = _text(node.func)
    if name == "self._retried":
        yield "no patience", lambda copied: ast.Call(node.args[0], [], [])
    if name.endswith(".surroundings.new_id"):
        yield "always the same id", _constantly("same-id-for-everybody")
    for position, keyword in enumerate(node.keywords):
        if keyword.arg == "ClientRequestToken" and not _text(keyword.value).endswith(".new_id()"):
            fresh = ast.parse("self.surroundings.new_id()", mode="eval").body

            def edit(copied: ast.AST, position: int = position, fresh: ast.expr = fresh) -> ast.AST:
                if isinstance(copied, ast.Call):
                    copied.keywords[position].value = fresh
                return copied

            yield "a new token for each attempt", edit
        if keyword.arg == "once":
            yield "no once", _without("keywords", position)
    if name == "Effects":
        for position in range(1, len(node.args)):
            yield "an effect less", _without("args", position)
