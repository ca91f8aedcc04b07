"""What left the account, which message each effect belongs to, and what differs between runs of another time and ids."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from os.path import commonprefix
from typing import Any

from oneslot.explorer.wording import effect_name
from oneslot.explorer.world import EFFECT, World, from_text

GENERATED = "(generated)"
"""Stands for what is generated of a value."""

_WORD = re.compile(r"[^\W_]+|[\W_]")

Pattern = tuple[str, ...]
"""The parts of a text that are not generated, in their order: between each two of them something is."""

ANYTHING: Pattern = ("", "")
MANY, SHORT = 100, 3
"""From how many generated words on a text has others, of so few letters, that are equal in two runs by chance."""


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

    def learn(
        self, kind: str, first: Sequence[tuple[str, Mapping[str, Any]]], second: Sequence[tuple[str, Mapping[str, Any]]]
    ) -> None:
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
    ahead = len(commonprefix([one, other]))  # noqa: RUF071 - of words
    behind = len(commonprefix([one[ahead:][::-1], other[ahead:][::-1]]))  # noqa: RUF071
    is_long = sum(map(str.__ne__, one, other)) > MANY
    parts, is_open = [""], False
    for number, word in enumerate(one):
        is_end = number < ahead or number >= len(one) - behind
        is_chance = is_long and word.isalnum() and len(word) <= SHORT
        if not is_chance and (is_end or (len(one) == len(other) and word == other[number])):
            parts[-1] += word
            is_open = False
        elif not is_open:
            parts.append("")
            is_open = True
    return tuple(parts) if len(parts) > 1 and any(map(str.isalnum, "".join(parts))) else ANYTHING


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


_TARGET = ".target"
Effect = Mapping[str, Any]
Identity = tuple[str, str]
"""An effect's name, and the text of its parameters without what is generated."""


def effects_of(world: World) -> list[dict[str, Any]]:
    """Return what left the account: recorded effects, and messages sent to queues."""
    recorded = [from_text(value) for _, _, value in world.lines(EFFECT)]
    sent = [
        {"service": "sqs", "operation": "send_message", "target": queue, "parameters": dict(message)}
        for queue, messages in world.queues.items()
        for message in messages
    ]
    return sorted([*recorded, *sent], key=lambda one: json.dumps(one, sort_keys=True, default=repr))


def _leaves_of(effect: Effect) -> Iterator[tuple[str, Any]]:
    yield _TARGET, effect["target"]
    yield from leaves(effect["parameters"])


def _call(effect: Effect) -> str:
    return f"{effect['service']}.{effect['operation']}"


def identity(effect: Effect, masks: Masks) -> Identity:
    """Return what makes two effects the same one."""
    call = _call(effect)
    seen = {path: masks.hidden(call, "", path, value) for path, value in _leaves_of(effect)}
    name = call if seen.get(_TARGET) != effect["target"] else effect_name(effect)
    return name, json.dumps(seen, sort_keys=True, default=repr)


@dataclass
class Left:
    """What single deliveries without a fault leave outside of the account, and what schedules do more than once.

    Attributes:
        together: whether an invocation may take several messages. An effect that they have alike, such as the start of a
            crawler, may then happen once for all of them.
        twice: the effects that some schedule has more often, each with its message, and the most that was seen.
    """

    together: bool = False
    twice: dict[str, int] = field(default_factory=dict)
    _masks: Masks = field(default_factory=Masks)
    _runs: list[tuple[Sequence[int], Sequence[Sequence[Effect]]]] = field(default_factory=list)
    _most: Counter[Identity] = field(default_factory=Counter)
    _least: Counter[Identity] = field(default_factory=Counter)
    _calls: Counter[str] = field(default_factory=Counter)
    _messages: dict[Identity, set[int]] = field(default_factory=dict)

    def learn(
        self, order: Sequence[int], first: Sequence[Sequence[Effect]], second: Sequence[Sequence[Effect]]
    ) -> None:
        """Learn from two runs that differ only in time and ids: the effects after each message of an order."""
        for call in {_call(one) for one in first[-1]}:
            runs = ([("", dict(_leaves_of(one))) for one in run[-1] if _call(one) == call] for run in (first, second))
            self._masks.learn(call, *runs)
        self._runs.append((order, first))

    def settle(self) -> None:
        """Count the effects of all runs, once every generated leaf is known."""
        totals = []
        for order, after in self._runs:
            before: Counter[Identity] = Counter()
            for position, effects in zip(order, after, strict=True):
                now = self._counted(effects)
                for one in now - before:
                    self._messages.setdefault(one, set()).add(position)
                before = now
            totals.append(before)
        for total in totals:
            self._most |= total
            self._calls |= Counter(name for name, _ in total.elements())
        self._least = totals[0].copy()
        for total in totals:
            self._least &= total

    def compare(self, effects: Sequence[Effect]) -> tuple[list[str], list[str]]:
        """Return the effects, each with its message, that happened more often than in any run, and those that never did."""
        counts = self._counted(effects)
        others = [one for one in counts if one not in self._most]
        unknown = {one[0] for one in others}
        repeated = {self._text(one): counts[one] for one, most in self._most.items() if counts[one] > most}
        calls = Counter(name for name, _ in counts.elements())
        for name in unknown:
            if calls[name] > max(self._calls[name], 1) or any(counts[one] > 1 for one in others if one[0] == name):
                repeated[f"{name} with other content"] = calls[name]
        for text, count in repeated.items():
            self.twice[text] = max(count, self.twice.get(text, 0))
        missing = [
            self._text(one)
            for one, least in self._least.items()
            if counts[one] < (1 if self.together and len(self._messages[one]) > 1 else least) and one[0] not in unknown
        ]
        return list(repeated), missing

    def beyond(self, effects: Sequence[Effect], delivered: Sequence[int]) -> Iterator[str]:
        """Yield the effects, each with its message, that happened more often than these deliveries explain."""
        for one, count in self._counted(effects).items():
            times = [delivered[position] for position in self._messages.get(one, ()) if position < len(delivered)]
            if times and count > max(self._most[one], 1) * max(*times, 1):
                yield self._text(one)

    def _counted(self, effects: Sequence[Effect]) -> Counter[Identity]:
        return Counter(identity(effect, self._masks) for effect in effects)

    def _text(self, one: Identity) -> str:
        return f"{one[0]} for message {' or '.join(str(position + 1) for position in sorted(self._messages[one]))}"


@dataclass
class Answers:
    """What single deliveries answer, by the position of their message."""

    _masks: Masks = field(default_factory=Masks)
    _seen: list[tuple[int, str]] = field(default_factory=list)

    def learn(self, position: int, first: str, second: str) -> None:
        """Learn from the answers of two runs that differ only in time and ids."""
        self._masks.learn(str(position), [("", dict(leaves(first)))], [("", dict(leaves(second)))])
        self._seen.append((position, first))

    def differs(self, position: int, answer: str) -> str:
        """Return a sentence if no single delivery of the message answers that."""
        known = [one for at, one in self._seen if at == position]
        if not known or self._masked(position, answer) in [self._masked(position, one) for one in known]:
            return ""
        return f"message {position + 1} is answered with {answer[:60]}, and a single delivery with {known[0][:60]}"

    def _masked(self, position: int, answer: str) -> Any:
        return self._masks.hidden(str(position), "", "", answer)
