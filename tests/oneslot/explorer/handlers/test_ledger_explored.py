"""The ledger through every schedule of one fault: what a commit sends, and a late copy among other messages.

What is sent goes out at least once, under one id, after its commit. `python -m lab.mutants relay` breaks the law.
"""

from collections.abc import Sequence
from pathlib import Path

import pytest

from lab.explore.sends.exploration import ENVIRONMENT, IN_ORDER, THIRTY, TWELVE, explored, many_explored
from oneslot import Send
from oneslot.explorer.handlers.exploration import explore
from oneslot.explorer.handlers.laws import View

pytestmark = pytest.mark.slow


def test_message_goes_out_when_any_process_dies() -> None:
    result = explored()

    assert result.holds, result.verdict


@pytest.mark.parametrize(
    "sends", [TWELVE, IN_ORDER, pytest.param(THIRTY, marks=pytest.mark.lab)], ids=["twelve", "a FIFO group", "thirty"]
)
def test_messages_go_out_when_a_target_is_dead_and_any_process_dies(sends: Sequence[Send]) -> None:
    result = many_explored(sends)

    assert result.holds, result.verdict


ONCE = 'Once(Put("orders", {"order_id": message.message_id}))'
M1, M2 = {"message_id": "m1", "set": 5}, {"message_id": "m2", "set": 7}
HANDLER = """
import json
from oneslot import Effects, Once, Put, Update, consumer_from_environment, ledger_from_environment
ledger = ledger_from_environment()
def take(message):
    change = Update("orders", {"order_id": "o"}, set={"value": message.body["set"]}, append={"by": [message.message_id]})
    return Effects({}, [change], once=ONCE)
consumer = consumer_from_environment(take, ledger=ledger)
def handler(event, context):
    if "expire" not in (body := json.loads(event["Records"][0]["body"])):
        return consumer(event, context)
    row = {"TableName": "ledger", "Key": {"message_id": {"S": body["expire"]}}}
    if ledger.client.get_item(**row).get("Item", {}).get("status") == {"S": "COMPLETE"}:  # then it stays so
        ledger.client.delete_item(**row)
"""


def set_once(world: View) -> None:
    """each message sets the value once, and a late copy of m1, whose row has expired, does not set it again"""
    by: list[str] = next((each["by"] for each in world["orders"] if "by" in each), [])
    assert len({*by}) == len(by), "a late copy has set the value again"


@pytest.mark.parametrize(
    ("others", "faults", "once", "holds"),
    [
        pytest.param([], 1, ONCE, True, id="a fault"),
        pytest.param([M2], 0, ONCE, True, id="another message"),
        pytest.param([M2], 1, ONCE, True, id="another message and a fault", marks=pytest.mark.lab),
        pytest.param([], 0, "None", False, id="no mark"),
    ],
)
def test_late_copy_sets_nothing_again_when_its_row_has_expired(
    tmp_path: Path, others: list[object], faults: int, once: str, holds: bool
) -> None:
    (tmp_path / "app.py").write_text(HANDLER.replace("ONCE", once))
    result = explore(
        "app.handler",
        messages=[M1, *others, {"expire": "m1"}, M1],
        tables={"ledger": "message_id", "orders": "order_id"},
        # A ledger that keeps rows for ever refuses no write without `once`; this one then forgets all the same.
        env={**ENVIRONMENT, "ONESLOT_LEDGER_RETENTION_SECONDS": "forever"},
        law=set_once,
        path=tmp_path,
        copies=1,
        faults=faults,
        budget=600,
    )
    assert result.holds == holds, result.verdict
