"""The report's plots: the rush, its drain, the latency, and the lives of the most eventful messages.

A plot is lines and marks on a canvas of 1,000 by 1,000; the template stretches it to the page and sets the words beside it in
the page's own type, so that they stay readable on a phone.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from oneslot.audit.report.data import Curve, ReportData, named_percentiles
from oneslot.audit.report.lives import CRASHED, LifeAttempt

# Roles rather than colours: the page has a light and a dark colour for each.
REQUESTS, DELIVERIES, DUPLICATES, BOOKED = "requests", "deliveries", "duplicates", "booked"
WARNING, BAD, QUIET = "warning", "bad", "quiet"
ANSWERED = (BOOKED, "■")
ATTEMPTS = {
    "duplicate": (DUPLICATES, "●"),
    "busy": (WARNING, "◇"),
    "fenced": (WARNING, "◆"),
    "quarantined": (WARNING, "▼"),
    "failed": (BAD, "▲"),
    CRASHED: (BAD, "✕"),
}
"""The role of the colour and the mark of an attempt without a first answer. The model has marks for answers."""

SIZE = 1_000
BARS_PER_DECADE = 10
# The marks of a logarithmic axis of milliseconds.
TICKS = {
    1: "1 ms",
    10: "10 ms",
    100: "100 ms",
    1_000: "1 s",
    10_000: "10 s",
    60_000: "1 min",
    600_000: "10 min",
    3_600_000: "1 h",
    36_000_000: "10 h",
    86_400_000: "1 day",
    864_000_000: "10 days",
}
# Of a phone's canvas, for a tick's words; the words of a time of day have twice as many letters.
TICK_WIDTH = SIZE // 6
TIMES_SHOWN = 3
# Marks closer than this part of a decade are drawn beside each other.
SAME_PLACE = 0.12
LANE = 0.22


@dataclass(frozen=True)
class Line:
    """A line of a plot. `path` is its SVG path, `total` the sum of what it shows. A line without a name has no legend."""

    role: str
    path: str
    name: str = ""
    total: int = 0
    style: str = ""


@dataclass(frozen=True)
class Mark:
    """A sign or a word on a plot."""

    x: float
    y: float
    role: str
    sign: str
    name: str
    words: str = ""


@dataclass(frozen=True)
class Figure:
    """One plot. Ticks are (place on the canvas, words). `label_width` is the room for the words on the left, in letters."""

    lines: Sequence[Line]
    x_ticks: Sequence[tuple[float, str]]
    y_ticks: Sequence[tuple[float, str]]
    title: str
    marks: Sequence[Mark] = ()

    @property
    def label_width(self) -> int:
        """The letters of the longest word on the left."""
        return max(len(words) for _, words in self.y_ticks)

    @property
    def legend(self) -> list[tuple[str, str, str]]:
        """The (role, sign, name) of every named line and mark, each once."""
        lines = [(line.role, "━", line.name) for line in self.lines if line.name]
        return list(dict.fromkeys([*lines, *((mark.role, mark.sign, mark.name) for mark in self.marks if mark.name)]))


def rush_figure(data: ReportData) -> Figure | None:
    """Return requests, deliveries and duplicates over time; None without requests."""
    return _over_time(data.rush, ("Deliveries", DELIVERIES), ("Requests", REQUESTS), ("Duplicates", DUPLICATES))


def drain_figure(data: ReportData) -> Figure | None:
    """Return how many requests were sent, were answered and waited, over time; None if the times are not known."""
    return _over_time(data.drain, ("Waiting", DUPLICATES), ("Sent", REQUESTS), ("Answered", BOOKED))


def latency_figure(data: ReportData) -> Figure | None:
    """Return the number of requests by latency on a logarithmic axis, with percentiles; None without answers."""
    if not data.latency:
        return None
    bars: Counter[int] = Counter()
    for milliseconds, count in data.latency:
        bars[math.floor(math.log10(max(milliseconds, 1)) * BARS_PER_DECADE)] += count
    places = range(min(bars) - 1, max(bars) + 2)
    low, high = to_the_next_marks(places[0] / BARS_PER_DECADE, (places[-1] + 1) / BARS_PER_DECADE)
    edges = [_between(place / BARS_PER_DECADE, low, high) for place in (*places, places[-1] + 1)]
    counts = [bars[place] for place in places]
    y_ticks = _counts(max(counts))
    path = _steps(edges, counts, y_ticks[-1][1]) + f"V{SIZE}"
    marked = named_percentiles(data.latency)[:-1]  # the last is too close to the one before
    found = [(name, _between(math.log10(max(at, 1)), low, high)) for name, at in marked]
    return Figure(
        [
            Line(BOOKED, path, "Requests", sum(counts), "filled"),
            *(Line(QUIET, f"M{x:.1f} 0V{SIZE}", style="dotted") for _, x in found),
        ],
        _durations(low, high),
        _words(y_ticks),
        "from sent to answered",
        # One name below the other, because the high percentiles are close together.
        [Mark(x, 45 + 90 * number, QUIET, name, "") for number, (name, x) in enumerate(found)],
    )


def timeline_figure(data: ReportData) -> Figure | None:
    """Return the attempts on the most eventful messages, each as a line with a mark at its end; None without attempts."""
    places = [place(attempt) for life in data.lives for attempt in life.attempts]
    if not places:
        return None
    low, high = to_the_next_marks(min(places) - 0.2, max(places) + 0.1)
    height = SIZE / len(data.lives)
    lines, marks = [], []
    of_outcome = {**data.model.words.marks, **ATTEMPTS}
    for row, life in enumerate(data.lives):
        for attempt, lane in zip(life.attempts, lanes(life.attempts), strict=True):
            role, sign = of_outcome.get(attempt.outcome, ANSWERED)
            y = (row + 0.5 + lane) * height
            begin, end = (_between(math.log10(max(at, 1)), low, high) for at in (attempt.begin_ms, attempt.end_ms))
            style = "dotted" if attempt.outcome == CRASHED else "thick"
            lines.append(Line(role, f"M{begin:.1f} {y:.1f}H{end:.1f}", style=style))
            marks.append(Mark(_between(place(attempt), low, high), y, role, sign, attempt.outcome, attempt.words))
    in_order = {outcome: number for number, outcome in enumerate(of_outcome)}
    marks.sort(key=lambda mark: in_order.get(mark.name, -1))
    rows = [((row + 0.5) * height, life.label) for row, life in enumerate(data.lives)]
    return Figure(lines, _durations(low, high), rows, "since it was sent", marks)


def to_the_next_marks(low: float, high: float) -> tuple[float, float]:
    """Return a range widened to the next mark of `TICKS` on either side, because an axis without marks says nothing."""
    marks = [math.log10(tick) for tick in TICKS]
    return (
        max((mark for mark in marks if mark <= low), default=low),
        min((mark for mark in marks if mark >= high), default=high),
    )


def place(attempt: LifeAttempt) -> float:
    """Return the position of an attempt's mark on the logarithmic axis: at its end.

    The time of a crash is known only as an interval, so its mark is in the middle.
    """
    at = (attempt.begin_ms + attempt.end_ms) / 2 if attempt.outcome == CRASHED else attempt.end_ms
    return math.log10(max(at, 1))


def lanes(attempts: Sequence[LifeAttempt]) -> list[float]:
    """Return each attempt's distance from the line of its message, so that no mark hides another."""
    found: list[float] = []
    for number, attempt in enumerate(attempts):
        near = {found[other] for other in range(number) if abs(place(attempts[other]) - place(attempt)) < SAME_PLACE}
        found.append(next((lane for lane in (0.0, LANE, -LANE) if lane not in near), 0.0))
    return found


def _over_time(curve: Curve, *series: tuple[str, str]) -> Figure | None:
    """Return a figure of the counts in steps of time, by name and role; None without any. The first series is filled."""
    if not curve:
        return None
    times, *columns = zip(*curve, strict=True)
    edges = [SIZE * number / len(times) for number in range(len(times) + 1)]
    y_ticks = _counts(max(map(max, columns)))
    lines: list[Line] = []
    for (name, role), counts in zip(series, columns, strict=True):
        path, total = _steps(edges, counts, y_ticks[-1][1]), sum(counts)
        lines.append(Line(role, path, name, total) if lines else Line(role, f"{path}V{SIZE}", name, total, "filled"))
    several_days = times[0][:10] != times[-1][:10]
    shown = range(0, len(times), max(1, math.ceil(len(times) / TIMES_SHOWN)))
    words = [(edges[number], times[number][5:16] if several_days else times[number][11:]) for number in shown]
    return Figure(lines, words, _words(y_ticks), f"{times[0][:10]}, UTC" if not several_days else "UTC")


def _steps(edges: Sequence[float], counts: Sequence[int], top: int) -> str:
    """Return the path of a curve of steps: the count between an edge and the next one."""
    heights = [SIZE * (1 - count / top) for count in counts]
    steps = (f"V{height:.1f}H{edge:.1f}" for height, edge in zip(heights, edges[1:], strict=True))
    return f"M{edges[0]:.1f} {SIZE}{''.join(steps)}"


def _counts(most: int) -> list[tuple[float, int]]:
    """Return the ticks of an axis of counts from 0 to a round number that is at least `most`: (place, count)."""
    decade = 10 ** max(math.floor(math.log10(max(most, 1) / 4)), 0)
    step = next(factor * decade for factor in (1, 2, 5, 10, 20) if factor * decade * 4 >= most)
    number = max(math.ceil(most / step), 1)
    return [(SIZE * (1 - tick / number), tick * step) for tick in range(number + 1)]


def _words(ticks: Iterable[tuple[float, int]]) -> list[tuple[float, str]]:
    return [(at, f"{count:,}") for at, count in ticks]


def _between(value: float, low: float, high: float) -> float:
    return SIZE * min(max((value - low) / (high - low), 0), 1)


def _durations(low: float, high: float) -> list[tuple[float, str]]:
    """Return the marks of a logarithmic axis that have room beside each other."""
    found: list[tuple[float, str]] = []
    for tick, words in TICKS.items():
        at = _between(math.log10(tick), low, high)
        if low <= math.log10(tick) <= high and (not found or at - found[-1][0] >= TICK_WIDTH):
            found.append((at, words))
    return found
