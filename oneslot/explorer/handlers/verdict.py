"""The verdict on a handler, level by level, as it is printed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal


@dataclass(frozen=True)
class Level:
    """One step from mild to wild. `apart`: no two invocations overlap. `{by}` in `likely` stands for who delivers."""

    name: str
    likely: str
    apart: bool
    faulty: bool


LEVELS = (
    Level("twice", "{by} delivers some messages twice, without any fault", True, False),
    Level("one fault, then again", "a crash, a timeout or a lost answer, and {by} delivers again", True, True),
    Level("at the same time", "two deliveries overlap, without any fault", False, False),
    Level("all of it", "a fault while two deliveries overlap", False, True),
)


def levels_of(*, fifo: bool, groups: int) -> tuple[Level, ...]:
    """Return the levels of a queue. On FIFO a message comes again if it was not acknowledged, and groups may overlap."""
    if not fifo:
        return LEVELS
    return LEVELS[1:] if groups > 1 else LEVELS[1:2]


@dataclass(frozen=True)
class Explored:
    """The figures of one level."""

    name: str
    complete: bool
    states: int
    schedules: int
    executions: int
    seconds: float


Kind = Literal["holds", "breaks", "not finished", "needs an event"]
STATUSES: dict[Kind, int] = {"holds": 0, "breaks": 1, "not finished": 3, "needs an event": 4}
"""The exit status of each verdict; 2 is a mistake on the command line, or a handler that is refused."""


@dataclass(frozen=True)
class Result:
    """The verdict.

    Attributes:
        kind: whether all levels are complete and none breaks the law, one breaks it, the budget ended before, or no
            delivery made a write that the code names.
        verdict: one sentence.
        counterexample: what to read about a breach: the shortest path, or how the handler fails without a fault.
        length: the steps of that path.
        levels: the figures of each level.
        line: the file and line of the handler whose call the fault met, or whose call was the path's last.
        cause: the law and what breaks it, and the call of `line`: no key, value, line or time, so it stays as the breach does.
        schedule: that path for a program: the delivery (-1: none), what happens, and the operation ("": none).
        outside: outside effects that may happen more often than in a run without a fault.
        unrun: if it holds, the lines that no schedule ran, of the handler's functions that ran.
        unmet: if it holds, the calls that never met a fault, because they follow one.
        written, unwritten: the writes that the code names, which ran, or never did although some event should reach them.
        remark: why "holds" speaks of one record at a time, which message changes nothing after another one, or why Lambda
            cannot read what the handler reports.
        in_pair: whether two records in flight break it.
        remedy: if it is not finished, what would complete the next level.
        reads_environment: whether the handler reads a hash, host or process, which each environment has of its own.
        raised: the last exception within the handler when nothing goes wrong, whether or not it is caught.
        masked: the attributes, as "table.attribute", that are not compared, because time or chance generates them.
        short: how the shortest path differs from a run without a fault, in eight lines at most.
        fails_anyway: whether it fails without a fault in a way that no other event would spare it.
    """

    handler: str
    kind: Kind
    verdict: str
    counterexample: str = ""
    length: int = 0
    level: str = ""
    levels: tuple[Explored, ...] = ()
    outside: tuple[str, ...] = ()
    seconds: float = 0.0
    masked: tuple[str, ...] = ()
    line: str = ""
    cause: str = ""
    schedule: tuple[tuple[int, str, str], ...] = ()
    unrun: tuple[str, ...] = ()
    unmet: tuple[str, ...] = ()
    written: tuple[str, ...] = ()
    unwritten: tuple[str, ...] = ()
    remark: str = ""
    in_pair: bool = False
    remedy: str = ""
    raised: str = ""
    reads_environment: bool = False
    fails_anyway: bool = False
    short: str = ""

    @property
    def holds(self) -> bool:
        """Whether every schedule of every level was explored, and none breaks the law."""
        return self.kind == "holds"

    def remarked(self, remark: str) -> Result:
        """Return this verdict with another remark."""
        return replace(self, remark=f"{self.remark} {remark}".strip())

    def also(self, other: Result) -> Result:
        """Return this verdict, which holds, with what only another exploration of the same handler has run."""
        written = (*dict.fromkeys((*self.written, *other.written)),)
        return replace(
            self,
            unrun=tuple(one for one in self.unrun if one in other.unrun),
            unmet=tuple(one for one in self.unmet if one in other.unmet),
            remark=self.remark or other.remark,
            written=written,
            unwritten=tuple(one for one in dict.fromkeys((*self.unwritten, *other.unwritten)) if one not in written),
        )

    @property
    def reached(self) -> tuple[str, ...]:
        """What "holds" does not speak of, in sentences."""
        caught = (self.raised,) if self.raised and self.holds else ()
        masked = self.masked if self.holds else ()
        found = {
            "No schedule runs": self.unrun,
            "Never met by a fault": self.unmet,
            "Without a fault it catches": caught,
            "Not compared, because time or chance generates it": masked,
        }
        sentences = [f"{what}: {', '.join(named)}." for what, named in found.items() if named]
        return (*sentences, *([self.remark] if self.remark else []))

    @property
    def document(self) -> dict[str, Any]:
        """What `--json` prints."""
        return {**asdict(self), "holds": self.holds}

    def text(self, *, verbose: bool) -> str:
        """Return the verdict to read: with the whole path, or with what it does unlike a run without a fault."""
        if verbose or not self.short:
            return str(self)
        return str(replace(self, counterexample=self.short))

    def __str__(self) -> str:
        lines = [f"{self.handler}: {self.verdict}"]
        lines += [f"  {_figures(one, self)}" for one in self.levels]
        lines += [f"  may happen twice: {one}" for one in self.outside]
        lines += [f"  {one}" for one in self.reached]
        lines += [f"  {self.remedy}"] if self.remedy else []
        return "\n".join([*lines, *(["", self.counterexample] if self.counterexample else [])])


def _figures(one: Explored, result: Result) -> str:
    if one.complete:
        return f"{one.name}: complete, {one.schedules:,} schedules, {one.states:,} states, {one.seconds:.1f} s"
    end = "stopped at the breach" if result.kind == "breaks" else "not finished, because the budget ended"
    return f"{one.name}: {end}, {one.states:,} states, {one.seconds:.1f} s"


def over_budget(possible: Sequence[Level], at: Level, copies: int, faults: int) -> str:
    """Return the verdict if the budget ends at a level: the levels before it are complete."""
    number = possible.index(at)
    complete = ", ".join(
        f'"{one.name}" (copies {copies}, faults {faults if one.faulty else 0})' for one in possible[:number]
    )
    text = f'no breach found, but the budget ended at level {number + 1} of {len(possible)}, "{at.name}"'
    return f"{text}; complete: {complete}" if complete else f"{text}; no level is complete"
