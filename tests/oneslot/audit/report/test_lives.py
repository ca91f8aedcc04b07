"""The lives of messages and the axis of latencies, from a few hand-written lines."""

import re
from types import SimpleNamespace
from typing import Any

import pytest

from oneslot.audit.report.data import drain_curve
from oneslot.audit.report.figures import LANE, TICKS, lanes, latency_figure
from oneslot.audit.report.lives import CRASHED, LifeAttempt, attempts_of


def line(outcome: str, finished: int, claim: int | None = None, claimed_by: str | None = None) -> Any:
    """Return a line of the delivery log as it travels."""
    given = {"sent": 1_000, "attempt_ms": 10, "receive_count": 1}
    return {**given, "outcome": outcome, "finished": finished, "consumption_count": claim, "claimed_by": claimed_by}


def test_life_shows_a_crash_for_a_claim_without_a_line() -> None:
    """Two claims are counted and one line exists, so the first claim crashed before the second took over."""
    lines = [line("busy", 1_500), line("booked", 4_000, 2, "b"), line("duplicate", 5_000, 2, "b")]
    shown = [(attempt.outcome, attempt.begin_ms, attempt.end_ms, attempt.step) for attempt in attempts_of(lines, 2)]
    assert shown == [
        ("busy", 490, 500, "busy"),
        (CRASHED, 500, 2_990, "claim 1 crashed"),
        ("booked", 2_990, 3_000, "claim 2 took over: booked"),
        ("duplicate", 3_990, 4_000, "duplicate"),
    ]


def test_life_shows_no_crash_when_lines_explain_all_claims() -> None:
    """A fenced consumer wrote its line; a failed or refused attempt released its claim; a duplicate found a finished one."""
    fenced = [line("booked", 2_000, 2, "b"), line("fenced", 2_500, 1, "a")]
    failed, refused = ([line(end, 1_500), line("booked", 2_000, 2, "b")] for end in ("failed", "quarantined"))
    found = [line("duplicate", 1_500, 1, "a"), line("duplicate", 2_500, 1, "a")]
    for lines, claims in ((fenced, 2), (failed, 2), (refused, 2), (found, 1)):
        assert CRASHED not in {attempt.outcome for attempt in attempts_of(lines, claims)}
    assert attempts_of([], 3) == ()


def test_life_stays_in_order_when_a_clock_is_behind() -> None:
    """The consumer's clock shows 0.5 s where SQS showed 1 s."""
    lines = [line("busy", 500), line("booked", 900, 2, "b")]
    attempts = attempts_of(lines, 2)
    assert [(attempt.outcome, attempt.begin_ms, attempt.end_ms) for attempt in attempts] == [
        ("busy", 0, 10),
        (CRASHED, 10, 400),
        ("booked", 400, 410),
    ]


def test_lanes_separate_marks_at_the_same_place() -> None:
    """A later mark is back on the line."""
    attempts = [
        LifeAttempt("booked", 0, 100, "", ""),
        LifeAttempt("busy", 0, 101, "", ""),
        LifeAttempt("duplicate", 0, 900, "", ""),
    ]
    assert lanes(attempts) == [0.0, LANE, 0.0]


@pytest.mark.parametrize("milliseconds", [0, 1, 250, 1_000, 59_999, 10**10])
def test_latency_axis_has_marks_around_a_single_time(milliseconds: int) -> None:
    """Even if all answers took the same time."""
    data: Any = SimpleNamespace(latency=[(milliseconds, 500)])
    figure = latency_figure(data)
    assert figure is not None
    marks = [round(at, 1) for at, _ in figure.x_ticks]
    line = [float(at) for at in re.findall(r"H([0-9.]+)", figure.lines[0].path)]
    assert min(marks) <= min(line)
    assert max(marks) >= max(line) or milliseconds > max(TICKS)


def test_waiting_is_what_was_sent_and_not_answered() -> None:
    """The second that is empty is drawn, too."""
    sent = [{"AT": 1_000, "requests": 5}, {"AT": 3_000, "requests": 1}]
    drain = drain_curve(sent, [{"AT": 3_000, "requests": 4}])
    assert [counts for _, *counts in drain] == [[0, 0, 0], [5, 5, 0], [5, 5, 0], [2, 6, 4], [2, 6, 4]]
    assert drain_curve(sent, []) == ()
    assert drain_curve([], []) == ()
