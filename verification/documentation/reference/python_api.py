"""The public names of `oneslot`, with their signatures and the first lines of their docstrings."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from enum import Enum
from types import ModuleType
from typing import Any

import oneslot

WIDTH = 100


def names() -> str:
    """Return the public names: those of one line in a list, then a section for each other one, both by the alphabet."""
    found = [
        (name, _signatures(name, getattr(oneslot, name)), _summary(getattr(oneslot, name))) for name in oneslot.__all__
    ]
    short = [f"- `{text}`: {summary}".removesuffix(": ") for _, text, summary in found if "\n" not in text]
    sections = [f"## {name}\n\n```text\n{text}\n```\n\n{summary}\n" for name, text, summary in found if "\n" in text]
    return "\n".join([*short, "", *sections])


def _signatures(name: str, found: Any) -> str:
    if isinstance(found, ModuleType):
        functions = [each for each in vars(found).values() if inspect.isfunction(each)]
        own = [each for each in functions if each.__module__ == found.__name__ and not each.__name__.startswith("_")]
        return "\n".join(_signature(f"{name}.{each.__name__}", each) for each in own)
    if inspect.isclass(found) or inspect.isfunction(found):
        return "\n".join([_signature(name, found), *_methods(found)])
    if isinstance(found, Enum):
        return f"{name}: {type(found).__name__}"
    return f"{name} = {' | '.join(each.__name__ for each in found.__args__)}"


def _methods(found: Any) -> Iterator[str]:
    """Yield the public methods of a class, without those that every `Store` has."""
    if not inspect.isclass(found):
        return
    for method, each in vars(found).items():
        known = found is not oneslot.Store and method in vars(oneslot.Store)
        if inspect.isfunction(each) and not method.startswith("_") and not known:
            yield _signature(f".{method}", each, bound=True)


def _signature(name: str, found: Any, *, bound: bool = False) -> str:
    if inspect.isclass(found) and (getattr(found, "_is_protocol", False) or issubclass(found, BaseException)):
        return name
    signature = inspect.signature(found)
    parameters = list(signature.parameters.values())[1 if bound else 0 :]
    result = "" if inspect.isclass(found) or signature.return_annotation in ("None", None) else _result(signature)
    texts = [_parameter(each) for each in parameters]
    if (first := next((at for at, each in enumerate(parameters) if each.kind is each.KEYWORD_ONLY), None)) is not None:
        texts.insert(first, "*")
    one_line = f"{name}({', '.join(texts)}){result}"
    return (
        one_line
        if len(one_line) <= WIDTH
        else "\n    ".join([f"{name}(", *(f"{text}," for text in texts)]) + f"\n){result}"
    )


def _result(signature: inspect.Signature) -> str:
    return f" -> {signature.return_annotation}" if isinstance(signature.return_annotation, str) else ""


def _parameter(each: inspect.Parameter) -> str:
    kind = f": {each.annotation}" if isinstance(each.annotation, str) else ""
    if each.default is each.empty:
        return f"{'**' if each.kind is each.VAR_KEYWORD else ''}{each.name}{kind}"
    default = repr(each.default)
    return f"{each.name}{kind} = {'...' if default.startswith('<') else default}"


def _summary(found: Any) -> str:
    described = inspect.isclass(found) or inspect.isfunction(found) or isinstance(found, ModuleType)
    return " ".join((inspect.getdoc(found) or "").partition("\n\n")[0].split()) if described else ""
