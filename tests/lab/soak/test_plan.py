"""The plan's choices follow from its seed and shares, and survive JSON."""

from __future__ import annotations

from collections import Counter
from itertools import islice

from lab.soak.plan import NETWORK_SHARES, PROCESS_WEIGHTS, NetworkFault, NetworkPlan, disturbances

CALLS = 20_000


def choices(seed: int, calls: int = 2_000) -> list[NetworkFault | None]:
    plan = NetworkPlan(seed, NETWORK_SHARES)
    return [plan.fault("UpdateItem", number) for number in range(1, calls + 1)]


def test_plan_follows_from_its_seed() -> None:
    assert choices(1) == choices(1)
    assert choices(1) != choices(2)
    assert list(islice(disturbances(1, 4.0), 100)) == list(islice(disturbances(1, 4.0), 100))
    assert list(islice(disturbances(1, 4.0), 100)) != list(islice(disturbances(2, 4.0), 100))


def test_plan_draws_for_each_operation_alone() -> None:
    plan = NetworkPlan(1, NETWORK_SHARES)
    assert [plan.fault("Query", number) for number in range(1, 500)] != choices(1, 499)


def test_plan_draws_each_fault_near_its_share() -> None:
    counts = Counter(choices(1, CALLS))
    for fault, share in NETWORK_SHARES.items():
        assert 0.4 * share * CALLS <= counts[fault] <= 2 * share * CALLS, fault
    happened = list(islice(disturbances(1, 4.0), 2_000))
    assert {each.fault for each in happened} == set(PROCESS_WEIGHTS)
    assert 3.5 < happened[-1].at / len(happened) < 4.5


def test_script_overrides_the_shares() -> None:
    plan = NetworkPlan(3, NETWORK_SHARES, {("TransactWriteItems", 1): NetworkFault.DROPPED})
    assert plan.fault("TransactWriteItems", 1) is NetworkFault.DROPPED
    assert NetworkPlan.from_json(plan.to_json()) == plan
