"""What the ledger in memory refuses so that tests with it are not content with what fails, or protects nothing, in DynamoDB."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from oneslot.runtime.effects import Effects, InvalidEffects, Put, Update
from oneslot.runtime.protocol import Claim, Committed, Taken
from oneslot.runtime.stores.memory import MemoryLedger, item_key


def claim(ledger: MemoryLedger, message_id: str = "m") -> Claim:
    granted = ledger.claim(message_id, "h", ledger.surroundings.now_ms() + 60_000)
    assert isinstance(granted, Claim)
    return granted


def refuse(effects: Effects, told: str) -> None:
    ledger = MemoryLedger()
    mine = claim(ledger)
    with pytest.raises(InvalidEffects, match=told):
        ledger.commit(mine, effects)
    assert ledger.tables == {}
    assert ledger.rows["m"]["status"] == "IN_PROGRESS"


@pytest.mark.parametrize("value", [12.5, object(), 10**39 + 1, Decimal("NaN")])
def test_invalid_value_is_named_with_its_table(value: Any) -> None:
    refuse(
        Effects({}, (Put("refunds", "refund_id", {"refund_id": "1", "amount": value}),)),
        "'amount' in 'refunds' (is|has)",
    )


@pytest.mark.parametrize(
    "update",
    [
        Update("seats", {"seat": "A1"}, expect={"price": 1.5}, set={"state": "taken"}),
        Update("seats", {"seat": "A1"}, expect={"state": "free"}, set={"price": 1.5}),
    ],
)
def test_an_updates_values_are_looked_at_too(update: Update) -> None:
    refuse(Effects({}, (update,)), "'price' in 'seats' is a float")


@pytest.mark.parametrize(
    "update",
    [
        Update("seats", {"seat": "A1"}, expect={"state": "free"}, set={"seat": "A2"}),
        Update("seats", {"seat": "A1"}, expect={"state": "free"}, remove=("seat",)),
        Update("seats", {"seat": "A1"}, expect={"state": "free"}, set={"by": "m"}, remove=("by",)),
    ],
)
def test_an_update_that_dynamodb_does_not_take_is_refused(update: Update) -> None:
    refuse(Effects({}, (update,)), "DynamoDB refuses that")


@pytest.mark.parametrize("value", [{1: "one"}, {"by_id": {7: None}}, [{"a": {None: 1}}], ({2: 2},)])
def test_name_that_is_not_text_is_refused(value: Any) -> None:
    refuse(
        Effects({}, (Put("refunds", "refund_id", {"refund_id": "1", "parts": value}),)),
        r"'parts(\.by_id|\[0\]\.a|\[0\])?' in 'refunds' has a key that is not text",
    )


def test_item_is_stored_as_dynamodb_returns_it() -> None:
    """A decision that reads what another wrote meets the same in a test as in production."""
    ledger, notes = MemoryLedger(), ["a"]
    item = {"seat": "A1", "price": Decimal("12.50"), "row": (1, 2), "notes": notes, "count": Decimal(2)}
    assert ledger.commit(claim(ledger, "put"), Effects({}, (Put("seats", "seat", item),))) == Committed({})
    change = Update("seats", {"seat": "A1"}, expect={"count": 2}, set={"by": ("m", notes)})
    assert ledger.commit(claim(ledger, "update"), Effects({}, (change,))) == Committed({})
    notes.append("b")
    (kept,) = ledger.tables["seats"].values()
    assert kept == {
        "seat": "A1",
        "price": Decimal("12.5"),
        "row": [1, 2],
        "notes": ["a"],
        "count": 2,
        "by": ["m", ["a"]],
    }
    assert [type(kept[name]) for name in ("price", "count")] == [Decimal, int]


@pytest.mark.parametrize(("there", "asked"), [(1, True), (False, 0), ([1, True], [1, 1]), ({"x": 1}, {"x": True})])
def test_number_does_not_equal_a_boolean(there: Any, asked: Any) -> None:
    ledger = MemoryLedger()
    ledger.tables["seats"] = {item_key({"seat": "A1"}): {"seat": "A1", "state": there}}

    def take(state: Any) -> Effects:
        return Effects({}, (Update("seats", {"seat": "A1"}, expect={"state": state}, set={"by": "m"}),))

    mine = claim(ledger)
    assert ledger.commit(mine, take(asked)) == Taken()
    assert ledger.commit(mine, take(there)) == Committed({})


def test_a_table_has_one_key() -> None:
    ledger = MemoryLedger()
    first = Effects({}, (Put("reservations", "reservation_id", {"reservation_id": "1", "seat": "A1"}),))
    assert isinstance(ledger.commit(claim(ledger, "first"), first), Committed)
    second = Effects({}, (Put("reservations", "seat", {"reservation_id": "2", "seat": "A1"}),))
    with pytest.raises(InvalidEffects, match="written under the key seat and was under reservation_id"):
        ledger.commit(claim(ledger, "second"), second)
    assert len(ledger.tables["reservations"]) == 1
