"""CPU of a claim, a commit with two writes and a group of ten, beside a literal request and a thousand additions.

Both are of the same process and second, so the ratios hold on any machine. The client answers at once.
"""

import time
from collections.abc import Callable
from typing import Any

from lab.benchmarks.handlers import table
from oneslot.runtime.consumer.group_commit import Decided, GroupCommit
from oneslot.runtime.effects import Effects, Once, Put, Update
from oneslot.runtime.protocol import Claim
from oneslot.runtime.stores.dynamodb import DynamoDBLedger

ROUNDS, CALLS = 9, 300
APPOINTMENT = {
    "status": "booked",
    "created": 1_795_780_868_781,
    "practice": "A81001",
    "slot_id": "s-1",
    "start": "2026-11-27T10:00:00Z",
    "end": "2026-11-27T10:10:00Z",
    "delivery_channel": "In-person",
    "service_type": "GP",
}


class Client:
    """A client that answers at once."""

    def transact_write_items(self, **_: Any) -> dict[str, Any]:
        return {}

    def update_item(self, **_: Any) -> dict[str, Any]:
        return {"Attributes": {"consumption_count": {"N": "1"}}}


def booking(number: int) -> Effects:
    """Return a booking: a slot is taken, and an appointment is new."""
    slot = Update(
        "slots",
        {"practice": "A81001", "slot_id": f"s-{number}"},
        expect={"status": "free", "free_key": "In-person"},
        set={"status": "busy", "appointment_id": f"m-{number}"},
        remove=("free_key",),
    )
    once = Once(Put("appointments", {"appointment_id": f"m-{number}", **APPOINTMENT}, key="appointment_id"))
    return Effects({"outcome": "booked", "slot_id": f"s-{number}"}, [slot], once=once)


def additions() -> None:
    total = 0
    for number in range(1000):
        total += number


def measured() -> dict[str, float]:
    """Return microseconds of CPU of one call of each, the least of some rounds."""
    client: Any = Client()
    ledger = DynamoDBLedger(
        client, "ledger", retention_seconds=3_000_000, tables={name: name for name in ("slots", "appointments")}
    )
    group: GroupCommit[Any] = GroupCommit(ledger, lambda messages, executor: [])
    claim, one = Claim("m-1", "claimed-by", 1, 2**60), booking(1)
    ten = [Decided(f"m-{number}", "hash", booking(number)) for number in range(10)]
    sent: list[dict[str, Any]] = []
    client.transact_write_items = lambda **request: sent.append(request)
    ledger.commit(claim, one)
    (literal,) = sent
    client.transact_write_items = Client.transact_write_items.__get__(client)
    calls: dict[str, Callable[[], object]] = {
        "a thousand additions": additions,
        "a literal request": lambda: client.transact_write_items(**_copied(literal)),
        "claim": lambda: ledger.claim("m-1", "hash", 2**60),
        "commit with two writes": lambda: ledger.commit(claim, one),
        "group of ten": lambda: group.commit_first(ten),
    }
    least = dict.fromkeys(calls, float("inf"))
    for _ in range(ROUNDS):
        for name, call in calls.items():
            began = time.process_time()
            for _ in range(CALLS):
                call()
            least[name] = min(least[name], (time.process_time() - began) / CALLS * 1e6)
    return least


def _copied(value: Any) -> Any:
    """Build a request again, as code that has its names would."""
    if isinstance(value, dict):
        return {name: _copied(each) for name, each in value.items()}
    return [_copied(each) for each in value] if isinstance(value, list) else value


def tables(short: bool) -> str:
    """Return the table."""
    found = measured()
    units = [found["a thousand additions"], found["a literal request"]]
    return table(
        ["", "CPU µs", "thousand additions", "literal requests"],
        [[name, cost, *(cost / unit for unit in units)] for name, cost in found.items()],
    )
