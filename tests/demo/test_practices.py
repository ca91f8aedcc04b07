"""Made-up practices have the size of England's."""

from __future__ import annotations

import statistics

from demo.practices import LARGEST_A_YEAR, MEDIAN_A_YEAR, synthetic_demand, synthetic_practices


def test_synthetic_demand_is_repeatable_and_of_the_national_size() -> None:
    practices = synthetic_practices(500)
    years = [demand.appointments for demand in synthetic_demand(practices, seed=1)]
    assert years == [demand.appointments for demand in synthetic_demand(practices, seed=1)]
    assert years != [demand.appointments for demand in synthetic_demand(practices, seed=2)]
    assert 0.85 < statistics.median(years) / MEDIAN_A_YEAR < 1.15
    assert max(years) <= LARGEST_A_YEAR
