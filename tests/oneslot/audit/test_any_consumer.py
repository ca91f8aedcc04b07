"""The audit of a declared consumer that is not the appointments'."""

import html
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from oneslot.audit.conclusion import Conclusion
from oneslot.audit.errors import AuditRefused
from oneslot.audit.layout import Full, Part, item_line, write_export
from oneslot.audit.model import model_of
from oneslot.audit.report.page import headline, next_steps
from oneslot.declaration.declaration import Declaration
from oneslot.declaration.reading import choosing, parse_declaration
from oneslot.errors import InvalidDeclaration, LawFailed
from oneslot.laws.evidence import Evidence, check
from oneslot.laws.groups import judge
from oneslot.operator.evidence.malformed import malformed_evidence
from tests.kits.histories import arn
from tests.kits.order_histories import CORRUPTIONS, ORDERS, OrderHistory
from tests.kits.shop import SHOP, Shop
from tests.oneslot.audit.audit_answers import audit_found, audit_verdicts

pytestmark = pytest.mark.spark
Audited = Callable[..., Conclusion]


def test_each_generic_law_is_found_broken(audited: Audited, tmp_path: Path) -> None:
    """As `oneslot check` finds it, and nothing else; and an export that holds a row twice."""
    history = OrderHistory()
    for corrupt in CORRUPTIONS.values():
        corrupt(history)
    by_list = history.breaches()
    assert {(each.invariant, each.subject) for each in check(history.evidence(), ORDERS.laws)} == by_list
    history.charge("twice")
    history.ledger.append(history.ledger[-1])

    with choosing(ORDERS):
        conclusion = audited(history.write(tmp_path / "history"), tables=True)

    found = audit_found(tmp_path / "audit")
    report = (tmp_path / "audit" / "report.html").read_text()
    details = {breach.detail for breach in judge(history.evidence(), ORDERS.laws)}
    assert {detail for detail in details if detail not in html.unescape(report)} == set()
    assert set(CORRUPTIONS) - found == set()
    assert found == by_list | {("S1", "twice")}
    assert not conclusion.sound
    model = model_of(ORDERS)
    assert {law for law, _ in found} == set(model.sentences)
    assert headline(conclusion.document, model.words)[1].endswith(" done twice")
    assert next_steps(conclusion.document, model.words)[0].startswith("Done twice: stop the consumer")
    verdicts = audit_verdicts(tmp_path / "audit")
    assert {verdicts[each] for each in ("lost", "stuck", "twice")} == {"lost", "stuck", "duplicate_effect"}


@pytest.mark.slow
def test_sound_orders_get_verdicts_and_a_report(audited: Audited, tmp_path: Path) -> None:
    with choosing(ORDERS):
        conclusion = audited(OrderHistory().write(tmp_path / "history"), tables=True)

    assert conclusion.sentence == (
        "Each of 6 requests took effect at most once, and none is lost. 1 is still in flight."
    )
    counted = {name: count for name, count in conclusion.document["verdicts"].items() if count}
    assert counted == {"charged": 3, "free": 1, "quarantined": 1, "in_flight": 1}
    assert conclusion.document["sums"]["charges_rows"] == 3
    report = (tmp_path / "audit" / "report.html").read_text()
    assert "<span>0 lost</span> · <span>0 done twice</span>" in report
    assert "Of 6 requests, 3 are charged, 1 is free," in report
    text = re.sub(r"<[^>]*>|(?i:oneslot)", " ", report.partition("<main>")[2])
    assert not re.search(r"book|slot|practice|appointment|fit", text)


def test_attribute_that_no_row_has_is_refused(audited: Audited, tmp_path: Path) -> None:
    history = OrderHistory()
    for row in history.charges:
        row["at"] = row.pop("charged_at")
    remedy = r"No row of charges has the attribute charged_at, which tables\.charges\.time names\. Correct .* have at, order_id"
    with choosing(ORDERS), pytest.raises(AuditRefused, match=remedy):
        audited(history.write(tmp_path / "history"))


def test_law_that_raises_is_refused_with_its_place(
    audited: Audited, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = OrderHistory()
    history.charges[0].pop("pence")
    with choosing(ORDERS), pytest.raises(LawFailed) as refusal:
        audited(history.write(tmp_path / "history"))
    said = str(refusal.value)
    assert said.startswith("The law every_order_costs_something raised KeyError 'pence' at ")
    assert said.endswith("name what it reads in `attributes` of its table, or remove it from `laws`.")
    assert "order_book.py:" in said
    assert not (tmp_path / "audit").exists()


ROW = {
    "pence": Decimal("2.5"),
    "whole": 10**20,
    "paid": True,
    "none": [None, 1],
    "of": {"B": "b"},
    "tags": {"x", "y"},
    "numbers": {1, 2},
    "raw": b"\0",
}
MIXED = """
name = "shop"
handler = "app.handler"
stack = "Shop"
laws = [
  "tests.oneslot.audit.test_any_consumer.nothing_is_negative",
  "tests.oneslot.audit.test_any_consumer.nothing_has_every_type",
]
[tables.shop]
key = ["pk", "sk"]
request = "request"
rows = 1
attributes = ["pk", "sk", "request", "left"]
[tables.stock]
key = ["number"]
attributes = ["number", "left"]
[tables.marks]
key = ["raw", "at"]
attributes = ["raw", "at", "left"]
[tables.baskets]
key = ["id"]
[tables.named]
key = ["id"]
attributes = ["id", "pence", "whole", "paid", "none", "of", "tags", "numbers", "raw"]
"""
"""A table of two keys with rows that name no request, one that is counted, one under bytes, two with rows of every type."""


def nothing_is_negative(evidence: Evidence) -> Iterator[tuple[Any, str]]:
    """Nothing has less than nothing left."""
    for table in ("shop", "stock", "marks"):
        for key, row in evidence.rows(table).items():
            if row.get("left", 0) < 0:
                yield key, f"has {row['left']} left"


def nothing_has_every_type(evidence: Evidence) -> Iterator[tuple[str, str]]:
    """No row is as DynamoDB's clients return the one of every type."""
    for table in ("baskets", "named"):
        yield from ((key, "") for key, row in evidence.rows(table).items() if row == {"id": key, **ROW})


def found_by_both(
    audited: Audited, declaration: Declaration, tables: Mapping[str, Sequence[Mapping[str, Any]]], folder: Path
) -> set[tuple[str, str]]:
    """Return the breaches in these rows that check finds, after asserting that the audit finds the same, and no reject."""
    history = OrderHistory(charges=[])
    history.write(folder / "history")
    for name, rows in tables.items():
        lines = [item_line(row) for row in rows]
        write_export(folder / "history" / name, arn(name), Full(history.now), [Part(b"".join(lines), len(lines))])
    of_tables = {name: declaration.schema.tables[name].by_key(rows) for name, rows in tables.items()}
    evidence = declaration.evidence(**of_tables, ledger={row["message_id"]: row for row in history.ledger})
    found = {(each.invariant, each.subject) for each in judge(evidence, declaration.laws)}
    with choosing(declaration):
        conclusion = audited(folder / "history")
    assert audit_found(folder / "audit") == found
    assert (malformed_evidence(evidence), conclusion.document["rejects"]["lines"]) == ([], 0)
    return found


def test_keys_of_any_type_are_judged_as_check_judges_them(audited: Audited, tmp_path: Path) -> None:
    tables: dict[str, list[dict[str, Any]]] = {
        "shop": [
            {"pk": "CUSTOMER#c", "sk": "ORDER#o-1", "request": "o-1"},
            {"pk": "CUSTOMER#c", "sk": "COUNT", "left": -1},
        ],
        "stock": [{"number": Decimal("0.0000000001"), "left": -1}, {"number": 7, "left": -2}, {"number": 8, "left": 1}],
        "marks": [{"raw": b"\xff", "at": 1, "left": -3}],
        "baskets": [{"id": "all", **ROW}],
        "named": [{"id": "by name", **ROW}],
    }

    found = found_by_both(audited, parse_declaration(MIXED, None), tables, tmp_path)

    negative = {"CUSTOMER#c/COUNT", "0.0000000001", "7", "/w==/1"}
    whole = {("nothing_has_every_type", subject) for subject in ("all", "by name")}
    assert found == {("nothing_is_negative", subject) for subject in negative} | whole


LINED = """
name = "shop"
handler = "app.handler"
stack = "Shop"
laws = ["tests.oneslot.audit.test_any_consumer.stock_is_what_orders_left"]
[tables.charges]
key = ["id"]
names = ["lines.article", "gifts"]
[tables.stock]
key = ["article"]
"""
"""Orders with lines and a set of gifts, each about an article."""


def stock_is_what_orders_left(evidence: Evidence) -> Iterator[tuple[str, str]]:
    """An article's stock is ten without what the orders took."""
    taken: Counter[str] = Counter()
    for order in evidence.rows("charges").values():
        taken.update({line["article"]: line["count"] for line in order["lines"]})
        taken.update(order.get("gifts", ()))
    for article, row in evidence.rows("stock").items():
        if row["left"] != 10 - taken[article]:
            yield article, f"has {row['left']} left after {taken[article]}"


def test_law_over_lists_and_sets_is_local_when_names_have_their_elements(audited: Audited, tmp_path: Path) -> None:
    orders = [
        {"id": f"o-{number}", "lines": [{"article": name, "count": 1} for name in several], "gifts": {"bow"}}
        for number, several in enumerate((["pot", "pan"], ["pan"], ["lid", "pot"]))
    ]
    stock = [{"article": name, "left": left} for name, left in {"pot": 8, "pan": 7, "lid": 9, "bow": 7}.items()]

    found = found_by_both(audited, parse_declaration(LINED, None), {"charges": orders, "stock": stock}, tmp_path)

    assert found == {("stock_is_what_orders_left", "pan")}


@pytest.mark.slow
def test_law_over_two_tables_finds_the_same_breaches_in_check_and_audit(audited: Audited, tmp_path: Path) -> None:
    shop = Shop()
    shop.corrupt()
    tables = {"orders": [*shop.orders.values()], "parts": [*shop.parts.values()], "customers": []}

    found = found_by_both(audited, SHOP, tables, tmp_path)

    assert {subject for law, subject in found if law == "parts_add_up"} == {"s-3", "s-7", "s-9"}


@pytest.mark.slow
def test_audit_of_another_consumer_is_not_continued(audited: Audited, small_audit: Path, tmp_path: Path) -> None:
    with choosing(ORDERS), pytest.raises(AuditRefused, match="of another consumer"):
        audited(OrderHistory().write(tmp_path / "history"), previous=str(small_audit))


def test_outcome_that_is_a_verdict_is_refused() -> None:
    """A game that is lost is not a lost request."""
    game = UNDECLARED + "[outcomes.lost]"
    with pytest.raises(InvalidDeclaration, match="orders: the outcome 'lost' is also a verdict of the audit"):
        model_of(parse_declaration(game, None))


UNDECLARED = """
name = "orders"
handler = "app.handler"
stack = "Orders"
[tables.charges]
key = ["order_id"]
request = "order_id"
"""


@pytest.mark.slow
def test_consumer_that_declares_no_outcomes_is_judged(audited: Audited, tmp_path: Path) -> None:
    """Any answer is complete, whatever it names."""
    history = OrderHistory()
    history.ledger[0]["result"] = json.dumps({"it's": "done"})
    history.deliveries[0]["outcome"] = "complete"
    document: dict[str, Any] = {}
    with choosing(parse_declaration(UNDECLARED, None)):
        document |= audited(history.write(tmp_path / "history")).document
    assert document["sound"], document["sentence"]
    assert document["verdicts"]["complete"] == 4
