"""Each number of AWS's or of the protocol is written once."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from oneslot.cdk import numbers
from oneslot.runtime.sqs import queue
from oneslot.runtime.stores import memory

PACKAGE = Path(queue.__file__).parents[2]
ABOUT = {"receives": "receives|receive_count", "visibility": "visibility", "retention": "retention", "lease": "lease"}


def _numbers(file: Path) -> Iterator[tuple[str, str]]:
    """Yield what each number is about that a file writes, and the number as it is written."""
    for node in ast.walk(ast.parse(file.read_text())):
        pairs: list[tuple[ast.AST, ast.AST | None]] = []
        if isinstance(node, ast.Assign):
            pairs = [(target, node.value) for target in node.targets]
        elif isinstance(node, ast.AnnAssign):
            pairs = [(node.target, node.value)]
        elif isinstance(node, ast.FunctionDef):
            pairs = list(zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True))
        for target, value in pairs:
            name = str(getattr(target, "id", getattr(target, "arg", ""))).lower()
            about = next((one for one, words in ABOUT.items() if re.search(words, name)), "")
            written = isinstance(value, ast.Constant | ast.BinOp) and not any(
                isinstance(one, ast.Constant) and not isinstance(one.value, int | float) for one in ast.walk(value)
            )
            if about and value is not None and written and ast.unparse(value) not in ("0", "1", "True", "False"):
                yield about, ast.unparse(value)


def test_number_of_receives_visibility_retention_or_lease_is_written_in_one_place() -> None:
    places = defaultdict(list)
    for file in sorted(PACKAGE.rglob("*.py")):
        # The construct may not import the runtime, whose packages a synthesis lacks: the next test compares them.
        if not file.is_relative_to(PACKAGE / "cdk"):
            for one in _numbers(file):
                places[one].append(str(file.relative_to(PACKAGE)))

    assert places["receives", "5"] == ["runtime/sqs/queue.py"]
    assert {one: files for one, files in places.items() if len(files) > 1} == {}


def test_construct_has_the_numbers_of_the_runtime() -> None:
    construct, runtime = numbers.Numbers(), queue.Deferral()

    assert numbers.FEWEST_RECEIVES == queue.FEWEST_RECEIVES
    assert construct.max_receive_count == runtime.max_receive_count == queue.USUAL_RECEIVES
    assert construct.longest_lease_seconds == runtime.longest_lease_seconds
    assert construct.ledger_retention_seconds == memory.RETENTION_SECONDS
