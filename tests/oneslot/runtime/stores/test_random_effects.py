"""Random effects end the same over the DynamoDB in memory, over moto and over the embedded AWS, and a late copy repeats none.

    ONESLOT_EXAMPLES=1250 python -m pytest tests/oneslot/runtime/stores/test_random_effects.py      10,000 transactions

moto differs from DynamoDB in these. It takes true for 1, cannot order values of two types, and does not measure what is
absent: that is not asked. It refuses a transaction as a whole where one write does not fit its item; DynamoDB says so in
that write's reason, after every condition. The embedded AWS removes a path whose parent is missing, which DynamoDB and moto
refuse as an invalid path: there a history ends, because the tables then differ.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from decimal import Decimal
from typing import Any

import pytest
from boto3.dynamodb.conditions import Attr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from moto import mock_aws

from oneslot.dynamodb_in_memory import InMemoryDynamoDB
from oneslot.local.aws.connection import Connection
from oneslot.runtime.effects import Check, Delete, Effects, Item, Once, Put, Update, Write
from oneslot.runtime.protocol import IN_PROGRESS, Claim, Committed, Taken
from oneslot.runtime.stores.dynamodb import DynamoDBLedger
from oneslot.runtime.values import from_attributes, to_attributes
from tests.kits.consumer import Clock, moto_client
from tests.kits.stores import claim, ledger_over

EXAMPLES = int(os.environ.get("ONESLOT_EXAMPLES", "15"))
TRANSACTIONS = 8
"""Of each example."""

numbers = st.sampled_from([0, 1, 2, -1, Decimal("0.5"), Decimal("12.50")])
values = st.recursive(
    numbers | st.sampled_from(["", "a", "b", b"\x00", None, True, {"a"}, {1, 2}, {b"a"}]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=3,
)
items = st.fixed_dictionaries(
    {},
    optional={
        "left": numbers,
        "name": st.sampled_from(["a", "ab", "b"]),
        "tags": st.sampled_from([{"a"}, {"a", "b"}, {"c"}]),
        "log": st.lists(values, max_size=2),
        "at": st.fixed_dictionaries({"shelf": st.sampled_from("AB")}, optional={"row": st.lists(numbers, max_size=2)}),
        "any": values,
    },
)
ITEMS: list[tuple[str, dict[str, Any]]] = [
    ("stock", {"sku": "socks"}),
    ("stock", {"sku": "hats"}),
    ("shop", {"customer": "c", "line": 1}),
    ("shop", {"customer": "c", "line": 2}),
    ("scans", {"digest": b"\x01"}),
]
EVERY_ITEM = [*ITEMS, ("stock", {"sku": "mark"})]
keys = st.sampled_from(ITEMS)
conditions = st.recursive(
    st.one_of(
        st.builds(
            lambda name, value: Attr("left").__getattribute__(name)(value), st.sampled_from(["gte", "lt"]), numbers
        ),
        st.builds(lambda value: Attr("name").begins_with(value), st.sampled_from("ab")),
        st.builds(lambda value: Attr("tags").contains(value), st.sampled_from("ab")),
        st.builds(lambda value: Attr("at.shelf").eq(value), st.sampled_from("AB")),
        st.builds(lambda value: Attr("at.row[0]").ne(value), numbers),
        st.builds(lambda name: Attr(name).exists(), st.sampled_from(["left", "at.row", "log[0]", "gone"])),
        st.builds(lambda low, high: Attr("left").is_in([low, high]), numbers, numbers),
        st.just(Attr("left").between(0, 1)),
        st.just(Attr("any").attribute_type("S")),
    ),
    lambda inner: st.builds(lambda one, two: one & two, inner, inner) | st.builds(lambda one: ~one, inner),
    max_leaves=3,
)
equalities = st.fixed_dictionaries(
    {}, optional={"left": numbers, "name": st.sampled_from("ab"), ("at", "shelf"): st.just("A")}
)


def tell(found: Item) -> Effects:
    return Effects({"found": sorted(found)})


expected = st.none() | st.none() | conditions | equalities.filter(bool)
answers = st.none() | st.just(tell)


@st.composite
def writes(draw: st.DrawFn, item: tuple[str, dict[str, Any]]) -> Write:
    (table, key), kind, expect = item, draw(st.sampled_from([0, 1, 2, 3, 4, 4, 4])), draw(expected)
    otherwise = None if expect is None else draw(answers)
    match kind:
        case 0:
            return Put(table, {**draw(items), **key}, otherwise=draw(answers))
        case 1:
            return Put(table, {**draw(items), **key}, replace=True, expect=expect, otherwise=otherwise)
        case 2:
            return Delete(table, key, expect, otherwise)
        case 3:
            return Check(table, key, draw(conditions | equalities.filter(bool)), draw(answers))
    change: dict[str, Any] = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "set": st.dictionaries(
                    st.sampled_from(["name", "any", ("at", "shelf"), ("log", 0)]), values, max_size=2
                ),
                "remove": st.sampled_from([("name",), (("at", "row"),), (("log", 0),), ("left",)]),
                "add": st.sampled_from([{"left": 1}, {"left": Decimal("-0.5")}, {"tags": {"z"}}, {"any": 1}]),
                "append": st.sampled_from([{"log": [1]}, {"fresh": ["a", 2]}, {("at", "row"): [3]}]),
            },
        )
    )
    if not any(change.values()):
        change = {"set": {"name": "c"}}
    return Update(table, key, expect, otherwise=otherwise, **change)


effects = st.lists(keys, min_size=1, max_size=3, unique_by=repr).flatmap(lambda each: st.tuples(*map(writes, each)))


MISFIT = "a write does not fit its item"


def end_of(ledger: DynamoDBLedger, mine: Claim, decided: Sequence[Write], once: bool) -> object:
    """Return how one commit ends: its outcome without ids, or the error's class and text."""
    mark = Once(Put("stock", {"sku": "mark"})) if once else None
    try:
        outcome = ledger.commit(mine, Effects({"outcome": "done"}, decided, once=mark))
    except Exception as error:
        return MISFIT if "Validation" in str(error) else (type(error).__name__, str(error))
    return ("taken", outcome.instead and outcome.instead()) if isinstance(outcome, Taken) else outcome


def kept(ledger: DynamoDBLedger) -> dict[str, list[Any]]:
    """Return every item of the tables of effects, by one call."""
    wanted: dict[str, dict[str, list[Any]]] = {}
    for table, key in EVERY_ITEM:
        wanted.setdefault(ledger.tables[table], {"Keys": []})["Keys"].append(to_attributes(key))
    responses = ledger.client.batch_get_item(RequestItems=wanted)["Responses"]
    return {table: sorted(map(from_attributes, items), key=repr) for table, items in responses.items() if items}


CLAIMS = [Claim(f"m-{at}", "mine", 1, Clock().now + 30_000) for at in range(TRANSACTIONS)]


def begin(ledger: DynamoDBLedger, items: Iterable[tuple[tuple[str, Item], Item]]) -> None:
    """Leave these items and the claimed rows alone, by one call: moto takes long to claim."""
    there = {repr(at): {**item, **at[1]} for at, item in items}
    requests: dict[str, list[Any]] = {ledger.table_name: []}
    for table, key in EVERY_ITEM:
        item = there.get(repr((table, key)))
        change = (
            {"PutRequest": {"Item": to_attributes(item)}} if item else {"DeleteRequest": {"Key": to_attributes(key)}}
        )
        requests.setdefault(ledger.tables[table], []).append(change)
    for each in CLAIMS:
        row = {**asdict(each), "status": IN_PROGRESS, "payload_hash": "h", "updated": 0}
        requests[ledger.table_name].append({"PutRequest": {"Item": to_attributes(row)}})
    ledger.client.batch_write_item(RequestItems=requests)  # type: ignore[attr-defined]


History = tuple[list[tuple[tuple[str, Item], Item]], list[tuple[tuple[Write, ...], bool]]]
"""The items at the beginning, then the effects of each message, with `once` or without."""

histories = st.tuples(
    st.lists(st.tuples(keys, items), min_size=2, max_size=5),
    st.lists(st.tuples(effects, st.sampled_from([False, False, True])), min_size=TRANSACTIONS, max_size=TRANSACTIONS),
)


def _removes_below(write: Write) -> bool:
    return isinstance(write, Update) and any(isinstance(path, tuple) and len(path) > 1 for path in write.remove)


def compare(other: DynamoDBLedger, history: History, *, other_is_embedded: bool = False) -> None:
    items, messages = history
    ours = ledger_over(InMemoryDynamoDB(Clock()))
    for ledger in (ours, other):
        begin(ledger, items)
    for granted, (decided, once) in zip(CLAIMS, messages, strict=True):
        mine, theirs = (end_of(each, granted, decided, once) for each in (ours, other))
        if other_is_embedded and mine == MISFIT and any(_removes_below(write) for write in decided):
            return
        assert mine == theirs or (theirs == MISFIT and not isinstance(mine, Committed))
        assert kept(ours) == kept(other)


@pytest.fixture(scope="module")
def moto() -> Iterator[DynamoDBLedger]:
    with mock_aws():
        yield ledger_over(moto_client("dynamodb"))


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(history=histories)
def test_effects_end_as_over_moto(moto: DynamoDBLedger, history: History) -> None:
    compare(moto, history)


SOCKS = {"sku": "socks"}
small = st.sampled_from([0, 1, 2])
lists = st.lists(small, max_size=3)
terms = st.one_of(
    st.builds(lambda value: Attr("left").eq(value), small),
    st.builds(lambda value: Attr("log").eq(value), lists),
    st.builds(lambda at, value: Attr(f"log[{at}]").eq(value), small, small),
    st.builds(lambda name: Attr(name).not_exists(), st.sampled_from(["left", "log", "log[1]", "log[9]"])),
    st.builds(lambda name: Attr(name).exists(), st.sampled_from(["left", "log"])),
)
updates = st.builds(
    lambda expect, changes: Update("stock", SOCKS, expect, **changes),
    st.one_of(
        *(
            terms,
            st.builds(lambda one, two: one & two, terms, terms),
            st.builds(lambda one, two: one | two, terms, terms),
        ),
        st.dictionaries(st.sampled_from(["left", "name", ("log", 0)]), small, min_size=1),
    ),
    st.fixed_dictionaries(
        {},
        optional={
            "set": st.dictionaries(st.sampled_from(["left", "name", ("log", 1), ("log", 9)]), small, max_size=2),
            "remove": st.sampled_from([("left",), ("log",), (("log", 0),), (("log", 1),)]),
            "add": st.dictionaries(st.sampled_from(["left", "count"]), small, max_size=1),
            "append": st.dictionaries(st.just("log"), lists, max_size=1),
        },
    ).filter(lambda changes: any(changes.values())),
)


replacements = st.builds(
    lambda item, expect: Put("stock", {**SOCKS, **item}, replace=True, expect=expect),
    st.fixed_dictionaries({}, optional={"left": small, "log": lists, "name": small}),
    st.dictionaries(st.sampled_from(["left", "name", ("log", 0)]), small, min_size=1) | terms,
)
deletions = st.builds(lambda expect: Delete("stock", SOCKS, expect), terms)


def names_in(expected: Any) -> set[str]:
    """Return the attributes on which a condition relies."""
    if isinstance(expected, Mapping):
        return {path if isinstance(path, str) else path[0] for path in expected}
    if hasattr(expected, "name"):
        return {re.split(r"[.\[]", expected.name)[0]}
    return {
        name
        for each in getattr(expected, "get_expression", lambda: {"values": ()})()["values"]
        for name in names_in(each)
    }


@settings(max_examples=20 * EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    item=st.fixed_dictionaries({}, optional={"left": small, "log": lists, "name": small}),
    write=updates | replacements | deletions,
    later=st.dictionaries(st.sampled_from(["left", "name", "log", "price"]), small, min_size=1, max_size=3),
)
def test_accepted_write_is_refused_when_a_late_copy_comes_after_other_messages(
    item: Item, write: Any, later: Item
) -> None:
    ledger = ledger_over(InMemoryDynamoDB(Clock()), retention_seconds=100)
    client: Any = ledger.client
    client.put_item(TableName="stock", Item=to_attributes({**SOCKS, **item}))
    if not isinstance(end_of(ledger, claim(ledger, "m"), [write], once=False), Committed):
        return
    # What other messages do: anything but to restore what the write expected.
    others = {name: value for name, value in later.items() if name not in names_in(write.expect)}
    if others:
        done = [Update("stock", SOCKS, set=others)]
        assert isinstance(end_of(ledger, claim(ledger, "other"), done, once=True), Committed)
    after = kept(ledger)

    late = end_of(ledger, claim(ledger, "late copy"), [write], once=False)

    assert (late, kept(ledger)) == (("taken", None), after)


@pytest.mark.slow
@pytest.mark.embedded_aws
def test_effects_end_as_over_the_embedded_aws(account: Connection) -> None:
    aws = ledger_over(account.client("dynamodb"))

    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
    @given(history=histories)
    def compared(history: History) -> None:
        compare(aws, history, other_is_embedded=True)

    compared()
