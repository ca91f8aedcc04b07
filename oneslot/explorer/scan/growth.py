"""A first event grows where the handler looks, until the handler does its work on it."""

import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote_plus

from oneslot.explorer.handlers.asked import At, Place
from oneslot.explorer.handlers.made import Tried
from oneslot.explorer.handlers.templates.sources import BUS, SQS, FunctionSource, chain
from oneslot.explorer.refusal import NotExplorable
from oneslot.explorer.scan.events import PLACES, Facts, stored_by
from oneslot.explorer.scan.first_events import NULL_PLACES, Edit, answer_of, edited, first_facts, leaves, other_of
from oneslot.explorer.scan.moves import each, guesses, moves_of, of_routes, text_of

MOST_TRIES = 100
"""How many events are tried. Each is one delivery, or two where it does not serve."""
MOST_BRANCHES = 5
"""How many events are explored beside the first, each for lines that no other one runs."""
TRIES_OF_A_BRANCH = 12
MOST_MEETING = 2
"""The events that share a row with the first."""
DECODE = "Decode the key with urllib.parse.unquote_plus."

_UNANSWERED = re.compile(r'answers=\{"([^"]+)"')
"""How a refusal of the explorer names the operation that it has no answer of."""


@dataclass(frozen=True)
class Grown:
    """What grew.

    Attributes:
        facts: those of the event on which the handler does most.
        serves: whether it does its work on it.
        branches: the facts of other events, each of which runs other lines and writes.
        meeting: what other events have in common with the first one, such as a row that both write, and their facts.
        fault: why it fails on an event that its source may send at any time; empty if it does not.
        refuses: whether it fails on each event that was tried, or answers that the event is wrong.
        tries: how many events were tried.
    """

    facts: Facts
    serves: bool
    branches: tuple[Facts, ...] = ()
    meeting: tuple[tuple[str, Facts], ...] = ()
    fault: str = ""
    refuses: bool = False
    tries: int = 0


@dataclass
class _Node:
    """An event that was tried, and the moves from it that were not: those that the handler asks for, then guesses."""

    facts: Facts
    run: Tried
    moves: list[Iterator[Sequence[Edit]]]

    @property
    def score(self) -> tuple[Any, ...]:
        """Return how far a handler comes: it should do its work, or else write, run its code, and read its event."""
        run, asked = self.run, self.run.asked
        is_empty = any(self.facts.get(place) == {} for place in NULL_PLACES if place != At.OLD)  # as AWS never sends it
        accepts = 0 if run.error or is_empty else 1 + run.accepts
        questions = 0 if run.serves else 2 * len(asked.found) + len(asked.missed)
        return run.serves and not is_empty, run.writes - asked.vain, run.most, accepts, questions

    @property
    def signature(self) -> tuple[Any, ...]:
        """Return what makes a try worth going on from."""
        asked = self.run.asked
        is_set_aside = not self.run.error  # as in a dead-letter queue, with a reason, or in a log
        noted = [*map(str, asked.errors), *(at for at in asked.found if at[0] == At.PAYLOAD)] if is_set_aside else []
        asks = (*map(frozenset, (noted, asked.missed, asked.wants, asked.compared, asked.absent)),)
        return self.run.error, self.score, asks


@dataclass
class _Search:
    """The events that were tried for one handler.

    Attributes:
        fixed: the places whose values the template gives.
        ends: when the search ends, by the clock of the whole scan.
        refusal: why the explorer cannot run the handler on one of them.
    """

    tried: Callable[[Facts], Tried]
    fixed: frozenset[Place]
    ends: float
    seen: dict[str, _Node | None] = field(default_factory=dict)
    refusal: str = ""
    nodes: list[_Node] = field(default_factory=list)

    @property
    def lacks(self) -> bool:
        """Whether the handler's work on no event runs some write that its code names."""
        runs = [one.run for one in self.nodes]
        return not {place for one in runs for place in one.wanted} <= {
            place for one in runs if one.serves for place in one.ran
        }

    def run(self, facts: Facts) -> _Node | None:
        """Return an event and what it does; None if it cannot be explored."""
        key = json.dumps(facts, sort_keys=True, default=str)
        if key not in self.seen:
            self.seen[key] = None
            try:
                run = self.tried(facts)
                self.nodes.append(_Node(facts, run, [moves_of(run), guesses(run)]))
                self.seen[key] = self.nodes[-1]
            except NotExplorable as error:
                answered = _answered(facts, str(error))
                if answered is not None:
                    self.seen[key] = self.run(answered)
                self.refusal = self.refusal or ("" if answered else str(error))
        return self.seen[key]

    def moved(self, node: _Node, edits: Sequence[Edit]) -> _Node | None:
        """Return the event that edits of open places lead to; None if there is none."""
        if any(at[0] == At.CLOSED or at in self.fixed for at, _ in edits):
            return None
        facts = edited(node.facts, edits)
        return None if facts is None else self.run(facts)

    def best_from(self, first: _Node, tries: int) -> _Node:
        """Return the best event that moves from the first one lead to."""
        nodes, best, signatures, most = [first] if first.moves else [], first, {first.signature}, len(self.seen) + tries
        while nodes and len(self.seen) < most and time.monotonic() < self.ends:
            node = max(reversed(nodes), key=lambda one: (len(one.moves), one.score))  # the newest of equals
            edits = next(node.moves[0], None)
            if edits is None:
                node.moves.pop(0)
                if node.score[0] and not self.lacks:
                    break
                nodes = [one for one in nodes if one.moves]
                continue
            known = len(self.seen)
            following = self.moved(node, edits)
            if len(self.seen) > known and following is not None and following.signature not in signatures:
                signatures.add(following.signature)
                nodes.append(following)
                best = max(best, following, key=lambda one: one.score)
        return best


def growth(source: FunctionSource, tried: Callable[[Facts], Tried], seconds: float) -> Grown:
    """Return what grows of a source's first event in some seconds.

    Raises `NotExplorable` if the handler does its work on no event, and cannot be run on some.
    """
    facts = first_facts(source)
    objects = {
        (At.PAYLOAD,)
        for one in chain(source)
        for way, at in PLACES.get(one.kind, {}).items()
        if way and at == At.PAYLOAD
    }
    search = _Search(tried, frozenset({*objects, *leaves(facts, ())}), time.monotonic() + seconds)
    first = search.run(facts)
    if first is None:
        raise NotExplorable(search.refusal)
    best = search.best_from(first, MOST_TRIES)
    if not best.score[0]:
        if search.refusal:
            raise NotExplorable(search.refusal)
        closed = [at[-1] for at, is_must in best.run.asked.missed.items() if is_must and at[0] == At.CLOSED]
        fault = next((f"{source.title} never sends {name!r}" for name in closed if f"'{name}'" in best.run.error), "")
        refuses = not any(one.run.accepts for one in search.nodes)
        return Grown(best.facts, serves=False, fault=fault, refuses=refuses, tries=len(search.seen))
    best, fault = _with_hazards(source, search, _fuller(search, best))
    branches = tuple(_branches(search, best))
    tries, meeting = len(search.seen), tuple(_meeting(source, search, best))
    return Grown(best.facts, serves=True, branches=branches, meeting=meeting, fault=fault, tries=tries)


def _fuller(search: _Search, best: _Node) -> _Node:
    """Return the event with the names that have a default, if the handler does its work on that: an added 0 hides a repeat."""
    for edits in each([(at, text_of(at)) for at in best.run.asked.missed if at[0] == At.PAYLOAD]):
        first = search.moved(best, edits) if any(at in best.run.asked.missed for at, _ in edits) else None
        node = search.best_from(first, TRIES_OF_A_BRANCH) if first else best
        if node.score[0] and node.run.ran >= best.run.ran and node.run.writes >= best.run.writes:
            best = node
    return best


def _meeting(source: FunctionSource, search: _Search, best: _Node) -> Iterator[tuple[str, Facts]]:
    """Yield other events that write a row or an object of the first one's, and differ in all else that they may.

    One that makes the same calls is the first event again, unless two environments may see the ids of two messages.
    """
    other, differences = other_of(source, best.facts, search.fixed)
    found: list[list[Edit]] = []
    if source.kind == SQS:
        yield "of one body", other

    def run_of(edits: Sequence[Edit]) -> Tried | None:
        node = search.run(edited(other, edits) or other) if time.monotonic() < search.ends else None
        return node.run if node and node.run.accepts else None

    def apart(row: tuple[str, str], kept: list[Edit], more: list[Edit]) -> list[Edit]:
        """Return the kept edits and those of the others, found by halves, that leave the row written."""
        run, half = run_of([*kept, *more]), len(more) // 2
        if run and row in run.changed:
            return [*kept, *more]
        return apart(row, apart(row, kept, more[:half]), more[half:]) if half else kept

    for row in sorted(best.run.changed):
        edits = apart(row, [], differences)
        run = run_of(edits)
        if run and row in run.changed and run.calls != best.run.calls and edits not in found:
            found.append(edits)
            yield f"that write one key of {row[0]}", edited(other, edits) or other
        if len(found) == MOST_MEETING:
            return


def _answered(facts: Facts, refusal: str) -> Facts | None:
    """Return the facts with an answer of the operation that a refusal names; None if it names none, or it has one."""
    named = _UNANSWERED.search(refusal)
    name = named[1] if named else ""
    if not name or name in facts or name in facts.get(At.ANSWERS, {}):
        return None
    if "://" in name:
        return {**facts, name: {"answer": "answer-1"}}
    made = answer_of(name)
    return None if made is None else {**facts, At.ANSWERS: {**facts.get(At.ANSWERS, {}), name: made}}


def _with_hazards(source: FunctionSource, search: _Search, best: _Node) -> tuple[_Node, str]:
    """Return the event with what any uploader may write: a key with a space, a plus and a letter beyond ASCII.

    S3 sends keys as they are in a URL, and EventBridge sends them plain.
    """
    stored = stored_by(source, best.facts)
    if stored is None or (At.KEY,) in search.fixed:
        return best, ""
    bucket, key = stored
    stem, dot, ending = key.rpartition(".")
    name = f"{stem} 1+é{dot}{ending}" if dot else f"{key} 1+é"
    node = search.run({**best.facts, At.KEY: name})
    if node is None or node.score[0]:
        return node or best, ""
    is_encoded = not any(one.kind == BUS for one in chain(source))
    if is_encoded and (At.OBJECTS, bucket, quote_plus(name, safe="/")) in node.run.asked.absent:
        what = (node.run.error or "it does nothing").rstrip(".")
        return best, f"{what}, because S3 encodes keys as in a URL. {DECODE}"
    return best, ""


def _branches(search: _Search, best: _Node) -> Iterator[Facts]:
    """Yield other events, each for a value that the handler compares with, if it then runs other lines and writes."""
    covered, found = set(best.run.ran), 0
    for one in search.nodes:  # such as what is set aside
        if one.score[0] and found < MOST_BRANCHES and one.run.ran & one.run.wanted - covered:
            covered |= one.run.ran
            found += 1
            yield one.facts
    for edits in [*([one] for one in best.run.asked.compared), *of_routes(best.run)]:
        if found == MOST_BRANCHES or time.monotonic() > search.ends:
            return
        node = search.moved(best, edits)
        if node is None or not node.run.ran - covered:
            continue
        before, search.fixed = search.fixed, search.fixed | {at for at, _ in edits}
        node = search.best_from(node, TRIES_OF_A_BRANCH)
        search.fixed = before
        if node.score[0] and node.run.writes and node.run.ran - covered:
            covered |= node.run.ran
            found += 1
            yield node.facts
