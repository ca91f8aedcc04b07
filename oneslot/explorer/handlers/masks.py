"""What is generated of what a handler leaves: the parts of values that differ between runs of another time and ids."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

GENERATED = "(generated)"
"""Stands for what is generated of a value."""

_WORD = re.compile(r"[^\W_]+|[\W_]")

Pattern = tuple[str, ...]
"""The parts of a text that are not generated, in their order: between each two of them something is."""

ANYTHING: Pattern = ("", "")

Leaves = Mapping[str, Any]
"""Values by their paths, as of `leaves`."""


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the path and the value of each leaf. JSON within a text is taken apart, too. What is empty is a leaf."""
    inner = _inner(value)
    if not inner or not isinstance(inner, (Mapping, list)):
        yield path, inner
        return
    for name, one in inner.items() if isinstance(inner, Mapping) else enumerate(inner):
        yield from leaves(one, f"{path}.{name}")


def _inner(value: Any) -> Any:
    """Return the JSON of a text that is JSON, the list of a set, else the value."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        with suppress(ValueError):
            return json.loads(value)
    return sorted(value, key=repr) if isinstance(value, (set, frozenset)) else value


@dataclass
class Masks:
    """What is generated, by kind ("orders", "sns.publish"), key and path. A mask hides no more of a value than that.

    A thing whose own key is generated has the key `GENERATED`. `names`: where the masks are, without keys.
    """

    names: set[str] = field(default_factory=set)
    _keys: set[tuple[str, str]] = field(default_factory=set)
    _patterns: dict[tuple[str, str, str], set[Pattern]] = field(default_factory=dict)

    def learn(self, kind: str, first: Sequence[tuple[str, Leaves]], second: Sequence[tuple[str, Leaves]]) -> None:
        """Learn from the things, each with its key, of two runs that differ only in time and ids."""
        others = list(second)
        lasting = {key for key, _ in second}
        for key, own in sorted(first, key=lambda one: one[0] not in lasting):
            alike = [one for one in others if one[0] == key] or others
            if not alike:
                return
            best = max(alike, key=lambda one: sum(one[1].get(path) == value for path, value in own.items()))
            others.remove(best)
            known = key if key == best[0] else GENERATED
            self._keys.add((kind, known))
            for path, value in own.items():
                if path in best[1] and best[1][path] != value:
                    self.names.add(f"{kind}{path}")
                    self._patterns.setdefault((kind, known, path), set()).add(_common(value, best[1][path]))

    def hidden(self, kind: str, key: str, path: str, value: Any) -> Any:
        """Return a value with what is generated of its leaves replaced."""
        inner = _inner(value)
        if not inner or not isinstance(inner, (Mapping, list)):
            known = key if (kind, key) in self._keys else GENERATED
            patterns = self._patterns.get((kind, known, path), set())
            return max((GENERATED.join(one) for one in patterns if _fits(one, value)), key=len, default=value)
        if isinstance(inner, Mapping):
            shown: Any = {name: self.hidden(kind, key, f"{path}.{name}", one) for name, one in inner.items()}
        else:
            shown = [self.hidden(kind, key, f"{path}.{number}", one) for number, one in enumerate(inner)]
        return value if shown == inner else shown


def _common(first: Any, second: Any) -> Pattern:
    """Return what two values have in common, in whole words: what one run made may share letters with another's."""
    if not isinstance(first, str) or not isinstance(second, str):
        return ANYTHING
    one, other = _WORD.findall(first), _WORD.findall(second)
    ahead = _alike(one, other)
    behind = _alike(one[ahead:][::-1], other[ahead:][::-1])
    parts, is_open = [""], False
    for number, word in enumerate(one):
        is_end = number < ahead or number >= len(one) - behind
        if is_end or (len(one) == len(other) and word == other[number]):
            parts[-1] += word
            is_open = False
        elif not is_open:
            parts.append("")
            is_open = True
    return tuple(parts) if len(parts) > 1 and any(map(str.isalnum, "".join(parts))) else ANYTHING


def _alike(one: Sequence[str], other: Sequence[str]) -> int:
    """Return how many words two texts have in common from their start."""
    return sum(1 for _ in takewhile(lambda words: words[0] == words[1], zip(one, other, strict=False)))


def _fits(pattern: Pattern, value: Any) -> bool:
    if pattern == ANYTHING:
        return True
    first, *between, last = pattern
    if not isinstance(value, str) or not value.startswith(first):
        return False
    at = len(first)
    for part in between:
        at = value.find(part, at + 1)
        if at < 0:
            return False
        at += len(part)
    return value.endswith(last) and at < len(value) - len(last)
