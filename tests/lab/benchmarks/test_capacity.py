"""The capacity model: its limits, its sums, and its page."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from lab.benchmarks.capacity.__main__ import ADVICE, batch_ms, cases, main
from lab.benchmarks.capacity.model import (
    ACCOUNT_CONCURRENCY,
    DECAY_SECONDS,
    LEDGER_WRITES,
    MOST_BATCHES,
    NEW_TABLE_WRITES,
    PEAK_PER_SECOND,
    SLOT_WRITES,
    Morning,
    Setup,
    concurrency,
    simulate,
)
from stacks.settings import STAGES, Settings
from tests.lab.benchmarks.conftest import Refuse

REPOSITORY = Path(__file__).resolve().parents[3]
MONDAY = Morning("Monday")
ROOMY = Setup(100, account_concurrency=10_000, warm_writes=1_000_000)


def test_morning_has_englands_telephone_demand() -> None:
    out = simulate(MONDAY, ROOMY)
    assert out.messages == pytest.approx(PEAK_PER_SECOND * DECAY_SECONDS, rel=0.001)
    assert out.messages == pytest.approx(571_000, rel=0.01), "the peak was derived from 571,000 calls"
    assert out.longest_wait < 5


def test_lambda_scales_from_five_batches_by_five_a_second() -> None:
    assert concurrency(ROOMY, 0) == (5, "Lambda's scaling")
    assert concurrency(ROOMY, 60) == (305, "Lambda's scaling")
    assert concurrency(ROOMY, 3_600) == (1_250, "the mapping's maximum")
    assert concurrency(replace(ROOMY, max_concurrency=50), 3_600) == (50, "max_concurrency")


@pytest.mark.parametrize(
    ("limit", "morning", "setup"),
    [
        ("Lambda's scaling", Morning("m", peak=2_000), ROOMY),
        ("max_concurrency", Morning("m", peak=2_000), replace(ROOMY, max_concurrency=8)),
        ("account concurrency", Morning("m", peak=20_000), replace(ROOMY, account_concurrency=100)),
        ("the mapping's maximum", Morning("m", peak=500_000, largest_practice=1e-6), replace(ROOMY, warm_writes=10**9)),
        ("a table's writes", Morning("m", peak=2_000), replace(ROOMY, warm_writes=4_000)),
        ("one practice's partition", Morning("m", peak=2_000, largest_practice=0.5), ROOMY),
        (
            "in flight",
            Morning("m", peak=4_000_000, largest_practice=1e-9),
            replace(ROOMY, batch_size=1_000, warm_writes=10**9),
        ),
    ],
)
def test_each_limit_can_bind(limit: str, morning: Morning, setup: Setup) -> None:
    out = simulate(morning, setup)
    assert out.worst == limit, out.limits
    assert limit in ADVICE


def test_provisioned_pollers_run_before_the_rush() -> None:
    polled = Setup(500, account_concurrency=20_000, pollers=20)
    assert concurrency(polled, 0) == (200, "Lambda's scaling")
    assert concurrency(polled, 60) == (1_200, "Lambda's scaling")
    assert concurrency(polled, 36_000) == (20_000, "account concurrency")


def test_maximum_throughput_holds_a_warm_table_back() -> None:
    storm = Morning("storm", peak=4_800)
    capped = simulate(storm, Setup(500, warm_writes=40_000, maximum_writes=8_000))
    assert capped.peak_writes == pytest.approx(8_000)
    assert capped.limits["a table's writes"] > 0


def test_duplicates_cost_less_than_requests() -> None:
    storm = Morning("storm", peak=4_800)
    assert simulate(replace(storm, duplicates=0.9), ROOMY).dollars < simulate(storm, ROOMY).dollars / 3


def test_setups_have_the_settings_of_the_stages() -> None:
    maxima = {setup.max_concurrency for _, name, setup in cases(100) if name.startswith(("dev", "prod"))}
    assert maxima == {STAGES["dev"].max_concurrency, STAGES["prod"].max_concurrency}
    settings, setup = Settings(stage="dev"), Setup(100)
    assert (setup.batch_size, setup.memory_mb) == (settings.batch_size, settings.lambda_memory_mb)
    assert setup.candidates == settings.candidate_slots


def test_batch_time_is_read_from_a_delivery_log() -> None:
    lines = ["{}", "not json"]
    for request, slowest in (("a", 50), ("b", 90), ("c", 70)):
        lines += [
            json.dumps(
                {"message": "delivery", "function_request_id": request, "finished": 1_000 + ms, "attempt_ms": ms}
            )
            for ms in [20] * 9 + [slowest]
        ]
    assert batch_ms(lines) == (70.0, 3)
    with pytest.raises(ValueError, match="no batch of ten records"):
        batch_ms(lines[:5])


Run = Callable[..., str]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command; return its output."""

    def run(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["capacity", *arguments])
        main()
        return capsys.readouterr().out

    return run


def test_page_has_the_table_of_the_model(run: Run) -> None:
    page = (REPOSITORY / "lab" / "docs" / "capacity.md").read_text(encoding="utf-8")
    block = re.search(
        r"<!-- generated: python -m lab.benchmarks.capacity (--batch-ms (\d+)) -->\n(.*?)<!-- end -->", page, re.DOTALL
    )
    assert block is not None
    given, milliseconds, table = block.groups()
    printed = run(*given.split()).splitlines(keepends=True)
    assert table == "".join(line for line in printed if line.startswith("|"))
    assert page.count(f"{milliseconds} ms for a batch of ten") == 1


def test_page_has_the_order_of_the_limits() -> None:
    """Compare each rate of the page's sentence, in requests a second, to two figures."""
    page = (REPOSITORY / "docs" / "understand" / "cost.md").read_text(encoding="utf-8").replace("\n", " ")
    batch = int(re.findall(r"with a batch of (\d+) ms \(a faster", page)[0])
    sentence = page.partition("only Lambda's lines up):")[2].partition("The queue itself")[0]
    rates = [int(number.replace(",", "")) for number in re.findall(r"([\d,]+) (?:a second )?(?:with|for)", sentence)]
    second = 10 * 1_000 / batch
    writes = max(SLOT_WRITES, LEDGER_WRITES)
    stages = [STAGES[stage].max_concurrency or 0 for stage in ("dev", "prod")]
    model = [
        *(batches * second for batches in stages),
        40_000 / writes,
        ACCOUNT_CONCURRENCY * second,
        MOST_BATCHES * second,
    ]
    assert rates == [pytest.approx(rate, rel=0.01) for rate in model]
    assert NEW_TABLE_WRITES / writes == pytest.approx(rates[1], rel=0.01), "about the same for a table never warmed"


def test_command_prints_json(run: Run) -> None:
    assert len(json.loads(run("--json"))["cases"]) == len(cases(1))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--batch-ms", "0"], "--batch-ms must be a number above 0"),
        (["--batch-ms", "nan"], "--batch-ms must be a number above 0"),
        (["--batch-ms", "inf"], "--batch-ms must be a number above 0"),
        (["--log", "nowhere"], "--log: nowhere cannot be used"),
    ],
)
def test_command_rejects_bad_arguments(arguments: list[str], said: str, refuse: Refuse) -> None:
    assert said in refuse(main, arguments)
