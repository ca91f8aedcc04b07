"""Laws judge a subject by the rows that name it: the same breaches as in the whole evidence, or a refusal."""

from collections.abc import Iterator

import pytest

from demo.declared import CONSUMER
from oneslot.errors import LawFailed, LawNotLocal
from oneslot.laws.evidence import Evidence, Law
from oneslot.laws.groups import judge, named_by
from oneslot.laws.schema import Table
from tests.kits.shop import NOT_LOCAL, SHOP, Shop
from tests.oneslot.audit.audit_answers import evidence_of
from tests.oneslot.audit.corruptions import corrupted


def test_law_of_two_tables_is_local_when_its_rows_name_the_subject() -> None:
    shop = Shop()
    assert judge(shop.evidence(), SHOP.laws) == []
    shop.corrupt()
    found = [(breach.subject, breach.detail) for breach in judge(shop.evidence(), SHOP.laws)]
    assert ("s-3", "costs 3 and its parts 7") in found


def test_law_is_refused_when_it_is_not_local() -> None:
    """Although the whole evidence has no breach. The error shows how a row names a subject with two key attributes."""
    refusal = r"law customers_count_orders is not local, .* 0 breaches .* 1 .* c-1 .*`lines.warehouse/lines.sku`"
    with pytest.raises(LawNotLocal, match=refusal):
        judge(Shop().evidence(), [NOT_LOCAL])
    orders = Table("orders", ("order_id",), names=("lines.warehouse/lines.sku",))
    order = {"order_id": "o-1", "lines": [{"warehouse": "north", "sku": "a"}]}
    assert list(named_by(orders, order)) == ["o-1", ("north", "a")]


def test_law_reads_no_attribute_that_is_not_declared() -> None:
    def reads(evidence: Evidence) -> Iterator[tuple[str, str]]:
        yield from ((key, row["note"]) for key, row in evidence.rows("orders").items())

    with pytest.raises(
        LawFailed,
        match=r"The law reads raised KeyError 'note' at .*test_groups.py:\d+\. Correct it, name what it reads",
    ):
        judge(Shop().evidence(), [Law("reads", "", reads)])


def test_error_of_a_law_shows_no_value() -> None:
    def raises(evidence: Evidence) -> Iterator[tuple[str, str]]:
        for key, row in evidence.rows("orders").items():
            raise ValueError(f"the patient of {key} is 9990000018: {row}")
        yield "", ""

    with pytest.raises(LawFailed) as refusal:
        judge(Shop().evidence(), [Law("raises", "", raises)])
    assert "9990000018" not in str(refusal.value)
    assert refusal.value.__cause__ is refusal.value.__context__ is None


@pytest.mark.parametrize("seed", [21, 33, 5])
def test_groups_show_each_breach_of_the_whole_when_everything_is_corrupted(seed: int) -> None:
    world, sown = corrupted(seed)
    evidence = evidence_of(world)
    whole = {(breach.invariant, breach.subject, breach.detail) for breach in CONSUMER.check(evidence)}
    assert {(each.invariant, each.subject, each.detail) for each in judge(evidence, CONSUMER.laws)} == whole
    assert {*sown.values()} <= {(law, subject) for law, subject, _ in whole}
