"""The quick look that follows from a declaration: it says what the laws say, or leaves a subject to them."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

import pytest

from lab.mutants.groups import Rows, carried, differing_in
from oneslot.audit.judge.columns import plain_of
from oneslot.declaration.reading import parse_declaration
from oneslot.errors import LawFailed
from oneslot.laws.evidence import Evidence, Law
from oneslot.laws.schema import Effect, Row
from tests.oneslot.audit.audit_answers import looked_at

SHOP = """
name = "shop"
handler = "app.handler"
stack = "Shop"
laws = ["tests.oneslot.audit.judge.test_plain.stock_adds_up", "tests.oneslot.audit.judge.test_plain.orders_are_noted"]
[tables.orders]
key = ["customer", "number"]
request = "number"
rows = 1
outcomes = ["taken"]
names = ["article"]
attributes = ["customer", "number", "article", "pieces"]
[tables.stock]
key = ["article"]
attributes = ["article", "left"]
[tables.notes]
key = ["id"]
request = "tests.oneslot.audit.judge.test_plain.requests_of"
by_request = true
rows = 1
names = ["by", "customer/number"]
lacking = "tests.oneslot.audit.judge.test_plain.lacks_text"
attributes = ["id", "for", "by", "customer", "number", "text"]
[outcomes.taken]
request = "id"
[outcomes.sold_out]
[outcomes.undone]
names = "order"
"""
"""Orders with two key attributes, a counter that names no request, and notes, each of a request that another may undo."""
DECLARATION = parse_declaration(SHOP, None)
IDS = tuple(f"o{number}" for number in range(9))
VALUES: dict[str, Mapping[str, tuple[Any, ...]]] = {
    "ledger": {
        **{"status": ("IN_PROGRESS",), "consumption_count": (0, 2), "unsent": (1,)},
        "result": ('{"outcome":"undone","order":"o1"}', '{"outcome":"taken","id":"o2"}', "{", '{"outcome":"sold_out"}'),
        "message_id": ("pot", "c/o2", "other"),
    },
    "orders": {"number": (*IDS, "pot", 7), "article": ("pot", "o1", "?x"), "pieces": (0, 2, "3"), "customer": ("d",)},
    "stock": {"article": ("c/o2", "?x", *IDS), "left": (0, "10")},
    "notes": {
        **{"id": ("pot", "other", 7), "for": ("o1", "pot", "pot", "", 7), "by": ("o1", "o1", "o2", "", "pot", 7)},
        **{"number": ("o1", "other"), "text": ("",)},
    },
    "deliveries": {
        "outcome": ("sold_out", "taken", "fenced", "quarantined"),
        **{"answer": ("b",), "consumption_count": (2,), "message_id": ("pot", "c/o2", "other")},
    },
    "accepted": {"message_id": ("pot", "c/o2", "other")},
}
"""What a fault writes, by source and attribute."""


def stock_adds_up(evidence: Evidence) -> Iterator[tuple[str, str]]:
    """An article's stock is ten without the pieces of its orders."""
    ordered: Counter[str] = Counter()
    for order in evidence.rows("orders").values():
        ordered[order["article"]] += order.get("pieces", 0)
    for article, row in evidence.rows("stock").items():
        if row.get("left") != 10 - ordered[article]:
            yield article, f"has {row.get('left')} left"


def orders_are_noted(evidence: Evidence) -> Iterator[tuple[tuple[str, str], str]]:
    """A note is about an order that is there, and each has pieces."""
    yield from ((key, "is of nothing") for key, order in evidence.rows("orders").items() if order.get("pieces") == 0)
    for note in evidence.rows("notes").values():
        order = (note.get("customer", ""), note.get("number", ""))
        if all(order) and order not in evidence.rows("orders"):
            yield order, "is noted, and not there"


def requests_of(note: Row) -> Iterator[str | Effect]:
    """Return the request that wrote a note, and the one that undid it."""
    yield note.get("for", note["id"])
    if "by" in note:
        yield Effect(note["by"], None, "undone")


def lacks_text(note: Row) -> Iterator[str]:
    """Return `text` if a note has none."""
    if not note.get("text"):
        yield "text"


def sound(random: Random) -> Rows:
    """Return rows in which no law is broken."""
    found: Rows = []
    left = dict.fromkeys(("pot", "pan", "lid"), 10)
    for name in IDS:
        outcome = random.choice(("taken", "taken", "sold_out"))
        if outcome == "taken":
            article = random.choice([*left])
            left[article] -= 1
            order = {"customer": "c", "number": name}
            found.append(("orders", {**order, "article": article, "pieces": 1}))
            found.append(("notes", {**order, "id": name, "text": "x"}))
        row = {"message_id": name, "status": "COMPLETE", "consumption_count": 1, "updated": 5}
        accepted = {"message_id": name, "sent": 1, "copies": 1}
        found += [("ledger", {**row, "result": json.dumps({"outcome": outcome, "id": name})}), ("accepted", accepted)]
        line = {"message_id": name, "sent": 1, "finished": 9, "consumption_count": 1, "claimed_by": "c", "answer": "a"}
        found += [("deliveries", {**line, "outcome": word}) for word in (outcome, "duplicate")[: random.randrange(3)]]
    return [*found, *(("stock", {"article": name, "left": several}) for name, several in left.items())]


def break_one(rows: Rows, random: Random) -> None:
    """Make one random fault."""
    source = random.choice([*VALUES])
    at = random.choice([number for number, (name, _) in enumerate(rows) if name == source])
    name = random.choice([*VALUES[source]])
    row = {**rows[at][1], name: random.choice(VALUES[source][name])}
    row |= {"lease_until": 1} if source == "ledger" else {}
    match random.choice(("change", "change", "change", "add", "remove", "list")):
        case "change":
            rows[at] = source, row
        case "add":
            rows.append((source, row))
        case "remove":
            rows[at] = source, {each: value for each, value in row.items() if each != name}
        case "list":
            listed = random.choice(("waiting", "dead-letters", "dropped"))
            rows.append((listed, {"message_id": random.choice(IDS), "at": 1}))


@pytest.mark.parametrize("seeds", range(0, 240, 40))
def test_derived_look_and_laws_agree_when_a_history_has_faults(seeds: int) -> None:
    """On every verdict, figure and table of a whole history, and of half of its subjects with the rows that name them."""
    for seed in range(seeds, seeds + 40):
        random = Random(seed)
        rows = sound(random)
        for _ in range(random.randrange(5)):
            break_one(rows, random)
        assert differing_in(rows, DECLARATION, chunks=1 + seed % 2) == [], seed


def test_derived_look_finds_most_subjects_of_a_sound_history() -> None:
    """Requests, rows with several key attributes, and a counter."""
    rows = sound(Random(5))

    found, _ = looked_at(carried(rows, DECLARATION), DECLARATION)

    assert found is not None
    orders = {f"#c/{row['number']}" for source, row in rows if source == "orders"}
    assert {*IDS, *orders, "pot", "pan", "lid"} == set(found.table["key"].to_pylist())


def test_law_that_raises_is_named_when_the_derived_look_asks_it() -> None:
    rows = [*sound(Random(5)), ("orders", {"customer": "c", "number": "o99"})]
    with pytest.raises(LawFailed, match=r"The law stock_adds_up raised KeyError 'article' at .*test_plain\.py"):
        looked_at(carried(rows, DECLARATION), DECLARATION)


def test_consumer_has_no_derived_look_when_its_law_judges_each_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.stock_adds_up", Law("L1", "", of_request=lambda _: None))
    assert plain_of(parse_declaration(SHOP, None)) is None
