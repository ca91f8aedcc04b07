"""A late copy repeats no accepted write, whatever the write expects and changes.

    ONESLOT_EXAMPLES=1250 python -m pytest tests/oneslot/runtime/stores/test_random_effects.py

That the DynamoDB in memory answers as moto does, `tests/oneslot/dynamodb_in_memory/test_dynamodb_as_moto.py` asks; of the
embedded AWS `tests/oneslot/local/aws/test_emulator.py`.
"""

import os
import re
from collections.abc import Mapping
from typing import Any

from boto3.dynamodb.conditions import Attr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oneslot.dynamodb_in_memory import InMemoryDynamoDB
from oneslot.runtime.effects import Delete, Effects, Item, Once, Put, Update, Write
from oneslot.runtime.protocol import Committed, Taken
from oneslot.runtime.stores.dynamodb import DynamoDBLedger
from oneslot.runtime.values import to_attributes
from tests.kits.consumer import Clock
from tests.kits.stores import claim, found, ledger_over

EXAMPLES = 20 * int(os.environ.get("ONESLOT_EXAMPLES", "15"))
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
        terms,
        st.builds(lambda one, two: one & two, terms, terms),
        st.builds(lambda one, two: one | two, terms, terms),
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
items = st.fixed_dictionaries({}, optional={"left": small, "log": lists, "name": small})
replacements = st.builds(
    lambda item, expect: Put("stock", {**SOCKS, **item}, replace=True, expect=expect),
    items,
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


def end_of(ledger: DynamoDBLedger, message_id: str, write: Write, once: Once | None = None) -> object:
    """Return how the commit of one message ends: its outcome, or the error's class."""
    try:
        return ledger.commit(claim(ledger, message_id), Effects({}, [write], once=once))
    except Exception as error:
        return type(error)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    item=items,
    write=updates | replacements | deletions,
    later=st.dictionaries(st.sampled_from(["left", "name", "log", "price"]), small, min_size=1, max_size=3),
)
def test_accepted_write_is_refused_when_a_late_copy_comes_after_other_messages(
    item: Item, write: Any, later: Item
) -> None:
    ledger = ledger_over(InMemoryDynamoDB(Clock()), retention_seconds=100)
    client: Any = ledger.client
    client.put_item(TableName="stock", Item=to_attributes({**SOCKS, **item}))
    if not isinstance(end_of(ledger, "m", write), Committed):
        return
    # What other messages do: anything but to restore what the write expected.
    others = {name: value for name, value in later.items() if name not in names_in(write.expect)}
    if others:
        mark = Once(Put("stock", {"sku": "mark"}))
        assert isinstance(end_of(ledger, "other", Update("stock", SOCKS, set=others), mark), Committed)
    after = found(ledger, "stock", **SOCKS)

    assert end_of(ledger, "late copy", write) == Taken()

    assert found(ledger, "stock", **SOCKS) == after
