"""What the ledger in memory does as DynamoDB does, so that no test with it accepts what fails there."""

import subprocess
import sys
from typing import Any

import pytest

from oneslot.runtime.effects import Effects, InvalidEffects, Put, Update
from oneslot.runtime.protocol import Committed, Taken
from oneslot.runtime.stores.memory import MemoryLedger, item_key
from tests.kits.stores import claim


# moto takes these for equal, so they are not in the contract.
@pytest.mark.parametrize(("there", "asked"), [(1, True), (False, 0), ([1, True], [1, 1]), ({"x": 1}, {"x": True})])
def test_number_does_not_equal_a_boolean(there: Any, asked: Any) -> None:
    ledger = MemoryLedger()
    ledger.tables["seats"] = {item_key({"seat": "A1"}): {"seat": "A1", "state": there}}

    def take(state: Any) -> Effects:
        return Effects({}, (Update("seats", {"seat": "A1"}, expect={"state": state}, set={"state": "taken"}),))

    mine = claim(ledger)
    assert ledger.commit(mine, take(asked)) == Taken()
    assert ledger.commit(mine, take(there)) == Committed({})


def test_a_table_has_one_key() -> None:
    ledger = MemoryLedger()
    first = Effects({}, (Put("reservations", {"reservation_id": "1", "seat": "A1"}, key="reservation_id"),))
    assert isinstance(ledger.commit(claim(ledger, "first"), first), Committed)
    second = Effects({}, (Put("reservations", {"reservation_id": "2", "seat": "A1"}, key="seat"),))
    with pytest.raises(InvalidEffects, match="written under the key seat, and its key is reservation_id"):
        ledger.commit(claim(ledger, "second"), second)
    assert len(ledger.tables["reservations"]) == 1


def test_table_is_empty_when_it_is_given_no_items() -> None:
    ledger = MemoryLedger(keys={"seats": "seat"})
    ledger.tables["seats"] = [{"seat": "A1"}]
    ledger.tables["seats"] = ledger.tables["seats"]
    assert [*ledger.tables["seats"].values()] == [{"seat": "A1"}]
    ledger.tables["seats"] = []
    assert (len(ledger.tables["seats"]), dict(ledger.tables["seats"])) == (0, {})
    assert isinstance(ledger.commit(claim(ledger), Effects({}, [Put("seats", {"seat": "A1"})])), Committed)
    assert len(ledger.tables["seats"]) == 1


def test_item_is_found_by_its_key_when_that_is_bytes() -> None:
    ledger = MemoryLedger()
    ledger.commit(claim(ledger), Effects({}, [Put("scans", {"digest": b"\xff"}, key="digest")]))
    assert dict(ledger.tables["scans"]) == {item_key({"digest": bytearray(b"\xff")}): {"digest": b"\xff"}}
    del ledger.tables["scans"][item_key({"digest": b"\xff"})]
    assert dict(ledger.tables["scans"]) == {}


def test_ledger_needs_no_boto3_when_conditions_fail() -> None:
    """The quickstart runs where nothing was installed."""
    program = """
import sys
sys.modules["botocore"] = sys.modules["boto3"] = None
from oneslot import Busy, Effects, MemoryLedger, Put, Taken
ledger = MemoryLedger(keys={"orders": "id"})
mine, other = (ledger.claim(each, "h", ledger.surroundings.now_ms() + 60_000) for each in ("a", "b"))
assert isinstance(ledger.claim("a", "h", ledger.surroundings.now_ms() + 60_000), Busy)
ledger.commit(mine, Effects({}, [Put("orders", {"id": "x"})]))
assert ledger.commit(other, Effects({}, [Put("orders", {"id": "x"})])) == Taken()
"""
    subprocess.run([sys.executable, "-c", program], check=True)
