"""Counterexamples: paths that break a law, stored as JSON, and replayed step by step on the current code."""

import json
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from operator import itemgetter

from oneslot.explorer.aftermath import Aftermath
from oneslot.explorer.execution.process import HandlerEnd, capture_logs
from oneslot.explorer.explorer import BrokenLaws
from oneslot.explorer.faults import PERFORMED
from oneslot.explorer.renaming import rename, swap
from oneslot.explorer.scenario import SQS, ExploredSubject, Scenario
from oneslot.explorer.services.account import reads
from oneslot.explorer.state import ExploredState
from oneslot.explorer.system import WARM, Step, System
from oneslot.explorer.wording import describe_call, describe_observation, describe_world, lettered
from oneslot.explorer.world import ApiCall


class NotReplayable(ValueError):
    """The file is not a counterexample, or the code no longer takes its path; a sentence."""


LONGEST_STORY, LONGEST_LINE = 8, 160
"""The lines of a short path, and the characters of each."""
_LONG_KEY = re.compile(r"(?=\S*\d)(\S{20})[^\s;:]{5,}")
_Told = tuple[str, str, bool]
"""What a short path has of a step: who acts, what, and whether it is a fault."""
_USUAL = ("invoked", "message deleted", "the answer arrives")
_INVALID = "not a counterexample that `--save` wrote"


@dataclass(frozen=True)
class Move:
    """One step: the delivery (-1: none), its strand, the name of the step, the call ("": none)."""

    delivery: int
    strand: int
    what: str
    call: str


@dataclass(frozen=True)
class Counterexample:
    """All that a replay needs, and the laws that were broken when the path was found."""

    subject: str
    scenario: str
    deliveries: tuple[tuple[int, ...], ...]
    faults: int
    expiries: int
    laws: tuple[str, ...]
    where: str
    moves: tuple[Move, ...]

    def to_json(self) -> str:
        """Return the text of its file."""
        return json.dumps(asdict(self), indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "Counterexample":
        """Return the counterexample in a file's text. Raises `NotReplayable` for another file."""
        try:
            fields = json.loads(text)
            deliveries = tuple(map(tuple, fields["deliveries"]))
            moves = tuple(Move(**move) for move in fields["moves"])
            return cls(**{**fields, "deliveries": deliveries, "laws": tuple(fields["laws"]), "moves": moves})
        except (KeyError, RecursionError, TypeError, ValueError) as error:
            raise NotReplayable(_INVALID) from error


@capture_logs()
def counterexample(system: System, breach: BrokenLaws) -> Counterexample:
    """Return the path of a breach, with the deliveries' own names."""
    scenario = system.scenario
    state = system.start
    moves: list[Move] = []
    for canonical in breach.path[1:]:
        step = next(step for step in system.steps(state) if system.canonical(step.state) == canonical)
        moves.append(_move(system, step))
        state = step.state
    return Counterexample(
        subject=system.subject.name,
        scenario=scenario.name,
        deliveries=scenario.deliveries,
        faults=scenario.faults,
        expiries=scenario.expiries,
        laws=breach.laws,
        where=breach.where,
        moves=tuple(moves),
    )


@dataclass(frozen=True)
class ReplayedPath:
    """The lines that describe a path, the laws that it breaks now, and how it differs from a run without a fault."""

    lines: tuple[str, ...]
    broken: tuple[str, ...]
    short: tuple[str, ...] = ()


@capture_logs()
def replay(kept: Counterexample, scenario: Scenario, subject: ExploredSubject) -> ReplayedPath:
    """Walk the path on the current code. Raises `NotReplayable` at a step that cannot be taken."""
    try:
        sized = replace(scenario, deliveries=kept.deliveries, faults=kept.faults, expiries=kept.expiries)
    except (TypeError, ValueError) as error:
        raise NotReplayable(f"{_INVALID}: {error}") from error
    system = System(sized, subject)
    state = system.start
    before = _rows(system, state.world)
    lines, broken, told = list(_heading(kept, sized, before)), list[str](), list[_Told]()
    for number, move in enumerate(kept.moves, 1):
        step = next((step for step in system.steps(state) if _move(system, step) == move), None)
        if step is None:
            raise NotReplayable(f"step {number} ({move.what}) cannot be taken, because the code has changed")
        state = step.state
        lines.append(f"{number:3}  {_describe_step(system, step)}")
        told += _told(system, step)
        lines += _changes(before, after := _rows(system, state.world))
        before = after
        broken += step.breaches
        broken += system.in_state(state.world, state.acknowledged, sized.clock(state.expiries))
    if kept.where == "aftermath":
        for line, who, text in _what_came_after(system, state, {move.delivery for move in kept.moves}):
            lines.append(line)
            told += [(who, text, False)] if text else []
        broken += Aftermath(system)(state)
    lines += [f"  => {law}" for law in dict.fromkeys(broken)] or ["  => no law is broken"]
    short = [f"{', '.join(_deliveries(sized))}.", *_shortened(told, LONGEST_STORY - 1)]
    return ReplayedPath(tuple(map(lettered, lines)), tuple(dict.fromkeys(broken)), tuple(map(lettered, short)))


def _told(system: System, step: Step) -> Iterator[_Told]:
    """Yield who acts in a step, and what: writes, faults, and how an invocation ends. The usual rest is left out."""
    described = _describe_step(system, step)
    who, text = described[0], described[3:]
    is_read = step.call >= 0 and reads(ApiCall(system.requests.texts[step.call]).parts[0])
    if step.name == PERFORMED.name and is_read:
        text = text.partition("; ")[2]
    if text and text not in _USUAL:
        yield who, text.replace(" -> done", ""), step.fault


def _shortened(told: Sequence[_Told], most: int) -> list[str]:
    """Return at most `most` lines, which name all faults. A line has what one delivery does until another acts."""
    lines = list[str]()
    acts = [(who, list(held)) for who, held in groupby(told, key=itemgetter(0))]
    for steps, alike in groupby(acts, key=lambda one: [step[1:] for step in one[1]]):
        whos, did = [who for who, _ in alike], "; ".join(text for text, _ in steps)
        names = [f"{whos[0]} to {whos[-1]}"] if whos[2:] else whos
        needed = [text for text, is_fault in steps if is_fault or text == steps[-1][0]]
        lines += [_fitting(f"{name}: {did}", needed) for name in names]
    if len(lines) <= most:
        return lines
    first, last = lines[: most // 2], lines[most // 2 + 1 - most :]
    lost = [text for _, text, is_fault in told if is_fault and not any(text in line for line in (*first, *last))]
    return [*first, _fitting(f"... {len(lines) - most + 1} more; --verbose shows them", lost), *last]


def _fitting(line: str, needed: Sequence[str]) -> str:
    """Return a line that is not too long: with shorter keys, and at its end with the needed parts that it would lose."""
    if len(line) > LONGEST_LINE:
        line, *needed = (_LONG_KEY.sub(r"\1...", one) for one in (line, *needed))
    cut = textwrap.shorten(line, LONGEST_LINE, placeholder=" ...")
    lost = "; ".join(one for one in needed if one not in cut)
    left = max(LONGEST_LINE // 2, LONGEST_LINE - len(lost))
    return f"{textwrap.shorten(line, left, placeholder=' ... ')}{lost}" if lost else cut


def _heading(kept: Counterexample, scenario: Scenario, before: Sequence[str]) -> Iterator[str]:
    if scenario.plain:
        yield f"The shortest path: {', '.join(_deliveries(scenario))}."
        yield "  before:" if before else "  before: the tables are empty"
    else:
        yield f"{kept.subject}: {scenario.name} ({scenario.size})"
        yield f"  {scenario.sentence}"
        yield "  before:"
    yield from (f"      {line}" for line in before)


def _deliveries(scenario: Scenario) -> Iterator[str]:
    for positions in dict.fromkeys(scenario.deliveries):
        names = [_letter(name) for name, one in enumerate(scenario.deliveries) if one == positions]
        numbers = " and ".join(str(position + 1) for position in positions)
        what = f"message {numbers}" if len(scenario.messages) > 1 else "the message"
        yield f"{' and '.join(names)} deliver{'s' if len(names) == 1 else ''} {what}"


def _letter(delivery: int) -> str:
    return chr(65 + delivery)


def _rows(system: System, world: int) -> list[str]:
    scenario = system.scenario
    return list(describe_world(system.worlds[world], scenario.tables, scenario.start, scenario.plain))


def _changes(before: Sequence[str], after: Sequence[str]) -> list[str]:
    held = {line.split(":")[0] for line in after}
    changed = [f"      {line}" for line in after if line not in before]
    return changed + [f"      gone: {line}" for line in before if line.split(":")[0] not in held]


def _what_came_after(system: System, state: ExploredState, made_before: set[int]) -> Iterator[tuple[str, str, str]]:
    """Yield the lines of the end of a schedule, each with who acts and what a short path has of it.

    `made_before`: the deliveries on the path.
    """
    scenario, name = system.scenario, max(made_before, default=-1) + 1
    delivered = {position for one in made_before if one >= 0 for position in scenario.deliveries[one]}
    if not scenario.plain:
        more = ", then once more" if scenario.once_more else ""
        yield f"     then faults stop; messages are delivered until acknowledged{more}", "", ""
        return
    made, now, before = Aftermath(system).deliveries(state), scenario.clock(state.expiries), _rows(system, state.world)
    forgets = "has deleted" if scenario.deliverer == SQS else "does not repeat"
    nothing = f"What came after: nothing, because {scenario.deliverer} {forgets} the message."
    yield "What came after, without a fault:" if made else nothing, "", ""
    for number, one in enumerate(made):
        letter, later = _letter(name + number), (one.at - now) / 1000
        message = f"message {one.position + 1}" if len(scenario.messages) > 1 else "the message"
        message = message if one.position < len(scenario.messages) else "what was sent to its queue"
        when = f"{later:,.0f} s later " if later >= 1 else ""
        again = " again" if one.position in delivered else ""
        warm = WARM if one.environment else ""
        yield f"     {letter}  {when}{scenario.deliverer} delivers {message}{again}{warm and f', {warm}'}", letter, warm
        delivered.add(one.position)
        for request, observation, world in one.delivered.steps:
            call = ApiCall(system.requests.texts[request])
            text = f"{describe_call(call, scenario.tables)} -> {_seen(system, request, observation)}"
            is_read = reads(call.parts[0])
            yield f"     {letter}  {text}", letter, "" if is_read else text.removesuffix(" -> done")
            after = _rows(system, world)
            yield from ((change, "", "") for change in _changes(before, after))
            before = after
        text = f"ends, {_ending(one.delivered.outcome, 0, plain=True)}"
        yield f"     {letter}  {text}", letter, text


_OF_OTHERS = {
    "message deleted": "the answer arrives",
    "crash before the message is deleted": "crash before the answer arrives",
}
"""The names of steps where no queue holds the message."""


def _move(system: System, step: Step) -> Move:
    call = "" if step.call < 0 else system.requests.texts[step.call]
    return Move(step.delivery, step.strand, step.name, call)


def _describe_step(system: System, step: Step) -> str:
    plain, running = system.scenario.plain, any(code >= 0 for code in step.state.codes)
    who = "-" if step.delivery < 0 else _letter(step.delivery)
    call = ""
    if step.call >= 0:
        call = describe_call(ApiCall(system.requests.texts[step.call]), system.scenario.tables)
    if step.name == "time passes":
        again = "the message is visible again" if system.scenario.deliverer == SQS else "the event comes again"
        passed = "its time is nearly over" if running else again
        return f"{who}  time passes, and {passed if plain else 'every lease ends'}"
    text = f"{who}  {call}"
    if step.name != PERFORMED.name:
        name = step.name if system.scenario.deliverer == SQS else _OF_OTHERS.get(step.name, step.name)
        text += f"{': ' if call else ''}{name}"
    if step.node < 0:
        return text
    node = system.behaviour_of[step.delivery].nodes[step.node]
    if step.observation >= 0:
        seen = _seen(system, step.call, step.observation)
        text += "" if plain and step.name.startswith(seen) else f" -> {seen}"
    if node.outcome is not None:
        text += f"; ends, {_ending(node.outcome, step.delivery, plain)}"
    return text


def _seen(system: System, request: int, observation: int) -> str:
    seen = describe_observation(system.observations.texts[observation])
    is_read = system.scenario.plain and ApiCall(system.requests.texts[request]).parts[0] == "get_item"
    return "nothing there" if is_read and seen == "done" else seen


def _ending(ended: HandlerEnd, delivery: int, plain: bool = False) -> str:
    if ended.error is not None:
        return f"by {ended.error.partition(': An error occurred (')[0] if plain else ended.error}"
    outcomes = [json.loads(rename(line, swap(delivery)))["outcome"] for line in ended.lines]
    said = "reports a failure" if ended.failed else "acknowledges"
    if ended.failed and ended.raised:
        said = f"{said}, after {ended.raised.partition(': An error occurred (')[0]}"
    return f"{', '.join(outcomes)}: {said}" if outcomes else said
