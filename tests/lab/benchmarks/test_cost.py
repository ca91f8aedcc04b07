"""The cost page: its units, its sums and its tables."""

from __future__ import annotations

import re

import pytest

from lab.benchmarks.billed_time import FINISHED, NEW, OURS, POWERTOOLS
from lab.benchmarks.cost import COMPARED, FIFO, PAGE, Measured, Prices, bill, filled, measured, read
from stacks.settings import STAGES


@pytest.mark.slow
@pytest.mark.embedded_aws
def test_page_has_the_units_that_are_consumed() -> None:
    today = measured(service_ms=0, runs=2)

    def units(every: list[Measured]) -> dict[tuple[str, str], tuple[float, float]]:
        return {(one.handler, one.batch): (one.write_units, one.read_units) for one in every}

    assert {key: pytest.approx(value) for key, value in units(read()).items()} == units(today)


def test_page_has_the_tables_of_the_model() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert filled(page) == page


def test_bill_is_the_sum_of_its_parts() -> None:
    prices = Prices(
        million_write_units=1,
        million_read_units=10,
        million_standard_requests=70,
        million_fair_requests=30,
        million_fifo_requests=200,
        million_invocations=1_000,
        gigabyte_second=0.5,
    )
    one = bill(Measured(OURS, NEW, write_units=3, read_units=2, lambda_ms=4), prices, memory_mb=1_024)
    assert one.gigabyte_seconds == pytest.approx(4_000)
    assert one.dollars == pytest.approx(3 * 1 + 2 * 10 + 1.2 * 100 + 0.1 * 1_000 + 4_000 * 0.5)
    fifo = bill(Measured(FIFO, NEW, write_units=3, read_units=2, lambda_ms=4), prices, memory_mb=1_024)
    assert fifo.dollars - one.dollars == pytest.approx(1.2 * 100)


def test_page_compares_all_handlers_with_the_stacks_memory() -> None:
    figures = read()
    assert {(one.handler, one.batch) for one in figures} == {
        (name, kind) for name in COMPARED for kind in (NEW, FINISHED) if (name, kind) != (FIFO, FINISHED)
    }
    assert {stage.lambda_memory_mb for stage in STAGES.values()} == {512}
    known = {(one.handler, one.batch): one for one in figures}
    assert known[OURS, FINISHED].write_units == 1, "a duplicate costs one refused write"
    assert known[OURS, NEW].write_units > known[POWERTOOLS, NEW].write_units, "as the page says"


def test_page_has_the_order_of_the_limits() -> None:
    """A booking writes each table with four units: `test_units.py` counts them."""
    page = PAGE.read_text(encoding="utf-8")
    batch = int(re.findall(r"with a batch of (\d+) ms:", page)[0])
    rates = [int(number.replace(",", "")) for row in re.findall(r"^\| (\d[^|]*) \|", page, re.MULTILINE)
             for number in row.split(", or ")]  # fmt: skip
    stages = [STAGES[stage].max_concurrency or 0 for stage in ("dev", "prod")]
    second = 10 * 1_000 / batch
    model = [*(batches * second for batches in stages), 4_000 / 4, 40_000 / 4, 1_000 * second, 1_250 * second]
    assert rates == [pytest.approx(rate, rel=0.01) for rate in model]
