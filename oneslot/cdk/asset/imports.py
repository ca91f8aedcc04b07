"""What a handler's files import and its asset lacks: on Lambda each such import fails the first delivery."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath

OF_LAMBDA = frozenset(
    {"boto3", "botocore", "dateutil", "jmespath", "s3transfer", "six", "urllib3", "awslambdaric", "snapshot_restore_py"}
)
"""What Lambda's Python runtime brings beside the standard library: boto3 with its packages, and the runtime client."""
_CAUGHT = frozenset({"ImportError", "ModuleNotFoundError", "Exception"})


def missing_imports(sources: Mapping[PurePosixPath, bytes], asset: Iterable[PurePosixPath]) -> dict[str, PurePosixPath]:
    """Return each module that `sources` import and neither the asset nor Lambda has, with a file that imports it.

    An import whose failure is caught, or that only a type checker reads, counts as optional.
    """
    found = {path.parts[0].partition(".")[0] for path in asset}
    known = {*found, *OF_LAMBDA, *sys.stdlib_module_names, "__main__"}
    missing: dict[str, PurePosixPath] = {}
    for path, content in sources.items():
        try:
            names = list(_imported(ast.parse(content))) if path.suffix == ".py" else []
        except SyntaxError:  # of a newer Python, such as Lambda's
            continue
        missing |= {name: path for name in names if name not in known and name not in missing}
    return missing


def _imported(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Import():
            yield from (alias.name.partition(".")[0] for alias in node.names)
        case ast.ImportFrom(module=str(module), level=0):
            yield module.partition(".")[0]
        case ast.Try() if any(_names(handler.type) & _CAUGHT or handler.type is None for handler in node.handlers):
            for part in (*node.handlers, *node.orelse, *node.finalbody):
                yield from _imported(part)
        case ast.If() if "TYPE_CHECKING" in _names(node.test):
            for part in node.orelse:
                yield from _imported(part)
        case _:
            for part in ast.iter_child_nodes(node):
                yield from _imported(part)


def _names(node: ast.AST | None) -> set[str]:
    """Return the names in an expression, also those behind a dot."""
    parts = ast.walk(node) if node else ()
    return {str(getattr(part, "id", getattr(part, "attr", ""))) for part in parts}
