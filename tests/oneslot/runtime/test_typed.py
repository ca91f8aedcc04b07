"""`typed`: what a body must be, for each kind of shape, and what a refusal says."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NotRequired, Required, TypedDict

import pytest
from pydantic import BaseModel, ValidationError

from oneslot import JsonMessage, Unprocessable, typed


@dataclass(frozen=True)
class Order:
    """An order with each type that a JSON body can hold, a constant, and a field that no body gives."""

    CURRENCY: ClassVar[str] = "GBP"
    customer: str
    pieces: int
    total: float = 0.0
    gift: bool = False
    note: str | None = None
    state: str = field(default="new", init=False)


class OrderDict(TypedDict):
    """The same as a TypedDict, in short."""

    customer: str
    note: NotRequired[str]


class PartialOrder(TypedDict, total=False):
    """One whose fields are optional, but for one."""

    customer: Required[str]
    note: str


class OrderModel(BaseModel):
    """The same as a pydantic model, in short."""

    customer: str
    pieces: int


def test_typed_reads_a_dataclass_with_what_it_holds() -> None:
    body = {"customer": "ada", "pieces": 2, "total": 12.5, "note": None, "later": "ignored", "state": "ignored"}
    message = typed(Order)("m-1", "digest", body)
    assert message == JsonMessage("m-1", "digest", Order("ada", 2, 12.5))


def test_typed_reads_a_typed_dict_and_a_model() -> None:
    assert typed(OrderDict)("m-1", "digest", {"customer": "ada"}).body == {"customer": "ada"}
    assert typed(OrderModel)("m-1", "", {"customer": "ada", "pieces": 2}).body.pieces == 2
    with pytest.raises(ValidationError):
        typed(OrderModel)("m-1", "digest", {"customer": "ada"})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"customer": 4711}, "customer must be text"),
        ({"pieces": True}, "pieces must be a whole number"),
        ({"pieces": 1.5}, "pieces must be a whole number"),
        ({"total": "12.5"}, "total must be a number"),
        ({"gift": 1}, "gift must be true or false"),
        ({"note": 5}, "note must be text or null"),
    ],
)
def test_typed_names_the_field_and_not_its_value(change: dict[str, Any], said: str) -> None:
    with pytest.raises(Unprocessable, match=f"^invalid_field: {said}$"):
        typed(Order)("m-1", "digest", {"customer": "ada", "pieces": 2, **change})


def test_typed_names_what_is_missing_of_a_body() -> None:
    for shape in (OrderDict, PartialOrder):
        with pytest.raises(Unprocessable, match="customer must be text"):
            typed(shape)("m-1", "digest", {"note": "urgent"})
    with pytest.raises(Unprocessable, match="the body must be an object"):
        typed(OrderDict)("m-1", "digest", "text")


def test_typed_refuses_an_annotation_that_it_cannot_check() -> None:
    @dataclass
    class Odd:
        lines: list[str]

    with pytest.raises(TypeError, match=r"Odd.lines has the type .*list.*pydantic"):
        typed(Odd)


USE = """
from dataclasses import dataclass
from typing import TypedDict
from oneslot import Effects, JsonMessage, consumer_from_environment, typed

@dataclass
class Order:
    pieces: int

class Named(TypedDict):
    customer: str

def take(order: JsonMessage[Order]) -> Effects:
    return Effects({"pieces": order.body.pieces})

def name(order: JsonMessage[Named]) -> Effects:
    return Effects({"customer": order.body["customer"]})

def plain(order: JsonMessage) -> Effects:
    return Effects({"customer": order.body["customer"]})

right = (consumer_from_environment(take, typed(Order)), consumer_from_environment(name, typed(Named)))
untyped = consumer_from_environment(plain)

def misspelt(order: JsonMessage[Order]) -> Effects:
    return Effects({"pieces": order.body.peices})  # wrong

another = consumer_from_environment(take, typed(Named))  # wrong
"""


@pytest.mark.slow
@pytest.mark.parametrize("checker", ["mypy", "basedpyright"])
def test_checkers_know_the_body_of_a_typed_consumer(checker: str, tmp_path: Path) -> None:
    program = tmp_path / "use.py"
    program.write_text(USE)
    settings = {"include": ["use.py"], "typeCheckingMode": "standard", "extraPaths": [str(Path.cwd())]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    options = ["--strict", str(program)] if checker == "mypy" else ["--project", str(tmp_path)]
    run = subprocess.run([sys.executable, "-m", checker, *options], capture_output=True, text=True, check=False)
    found = {int(line) for line in re.findall(r"use\.py:(\d+):.*error", run.stdout)}
    assert found == {at for at, line in enumerate(USE.splitlines(), 1) if line.endswith("# wrong")}
