"""The page of the benchmarks holds every figure and nothing from outside; and small parts of the benchmarks themselves."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from benchmarks.__main__ import page
from benchmarks.cold_start import package, package_sizes
from benchmarks.contention import STRATEGIES, choosing
from benchmarks.growth import measure
from benchmarks.rush import DUPLICATES, demands, requests, slots

FIGURES: dict[str, Any] = {
    "billed_time": [{"handler": "ours <now>", "batch": "ten new", "service_ms": 5.0, "billed_ms": 31.25}],
    "cold_start": {
        "starts": {"floor": {"cpu_ms": 300.0}},
        "imports_ms": {"boto3": 12.0},
        "package_kb": {"ours": 138.0},
    },
    "contention": [{"strategy": "random", "free_slots": 10, "candidates": 16, "retries_per_booking": 0.5}],
    "growth": [{"messages": 1_000, "cpu_ms": 0.4}],
    "rush": [{"handler": "ours", "per_second": 321.0, "server_mb": [50, 51]}],
    "rush, consumers killed": [{"handler": "ours", "per_second": 123.0, "server_mb": []}],
    "machine": "a machine",
    "when": "2026-11-21T22:00+00:00",
}


def test_every_figure_is_on_the_page_and_nothing_is_fetched() -> None:
    text = page(FIGURES)
    for expected in ("31.25 ms", "ours &lt;now&gt;", "300 ms", "12.00 ms", "138 KB", "0.50", "1,000", "50 → 51", "123"):
        assert expected in text
    assert "http" not in text
    assert "<now>" not in text


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        ("json.decoder", "standard library"),
        ("botocore.endpoint", "botocore"),
        ("aws_lambda_powertools.utilities.batch.base", "aws_lambda_powertools.utilities.batch"),
        ("aws_lambda_powertools.logging", "aws_lambda_powertools"),
    ],
)
def test_imports_are_summed_by_package(module: str, expected: str) -> None:
    assert package(module) == expected


def test_the_package_is_what_the_function_needs() -> None:
    sizes = package_sizes()
    assert {"aws-lambda-powertools", "our own code"} <= set(sizes)
    assert all(size > 0 for size in sizes.values())


def test_the_choice_is_ours_again_afterwards() -> None:
    from appointments import allocation

    before = vars(allocation)["choose"]
    with choosing(STRATEGIES["first free"]):
        assert vars(allocation)["choose"] is STRATEGIES["first free"]
    assert vars(allocation)["choose"] is before


def test_the_rush_has_thirty_percent_twice_and_a_slot_for_everybody() -> None:
    bodies = requests(demands(None, 20), 1_000)
    copies = Counter(body["message_id"] for body in bodies)
    assert len(copies) == 1_000
    assert Counter(copies.values()) == {1: round(1_000 * (1 - DUPLICATES)), 2: round(1_000 * DUPLICATES)}
    wanted = Counter(
        (body["practice"], body["delivery_channel"]) for body in {b["message_id"]: b for b in bodies}.values()
    )
    made = list(slots(bodies))
    assert Counter((slot["practice"], slot["delivery_channel"]) for slot in made) == wanted
    assert len({(slot["practice"], slot["slot_id"]) for slot in made}) == len(made)
    assert all(bodies[0]["not_before"] <= slot["start"] < bodies[0]["not_after"] for slot in made)


def test_a_messages_cost_does_not_grow_with_what_is_there() -> None:
    few, many = measure(100, 10, batches=5), measure(2_000, 10, batches=5)
    assert (few.calls, few.write_units, few.read_units) == (many.calls, many.write_units, many.read_units)
