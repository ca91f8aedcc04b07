"""Calls and capacity units of a message, counted by DynamoDB's rules. No time is asserted, no socket opened."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from typing import Any

import pytest

from appointments.messages import Request
from booking.consumer import appointments_consumer
from lab.benchmarks.handlers import ENVIRONMENT, SLOTS_A_WEEK, booking, week
from lab.benchmarks.standin import READS, WRITES, MeteredDynamoDB, item_bytes
from oneslot.runtime.consumer.consumer import Consumer
from oneslot.runtime.sqs.lambda_event import Context, event_of
from oneslot.runtime.values import to_attributes

PRACTICES = [f"A8{number:04}" for number in range(10)]


@dataclass
class Meter:
    """The metered port as the clients of DynamoDB and SQS. It counts calls; `before` runs before each."""

    port: MeteredDynamoDB = field(default_factory=MeteredDynamoDB)
    calls: Counter[str] = field(default_factory=Counter)
    before: Callable[[str, Mapping[str, Any]], None] = lambda name, request: None

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(**request: Any) -> Any:
            self.calls[name] += 1
            self.before(name, request)
            return getattr(self.port, name)(**request) if hasattr(self.port, name) else {}

        return call

    def consumer(
        self, *, group_commit: bool = False, candidates: int = 16, executor: Executor | None = None
    ) -> Consumer[Request]:
        grouped = {"GROUP_COMMIT": str(group_commit).lower(), "CANDIDATE_SLOTS": str(candidates)}
        return appointments_consumer(
            {**ENVIRONMENT, **grouped}, lambda delivery: None, dynamodb=self, sqs=self, executor=executor
        )

    def deliver(self, bodies: Sequence[Mapping[str, Any]], **settings: Any) -> None:
        self.consumer(**settings)(event_of(*bodies), Context())

    def bill(self) -> tuple[int, float, float]:
        """Return calls, write units and read units since the last bill."""
        bill = sum(self.calls.values()), float(self.port.units[WRITES]), self.port.units[READS] / 2
        self.calls.clear()
        self.port.units.clear()
        return bill


class AtOnce(Executor):
    """An executor that runs each task at once, so that the meter counts in order."""

    def submit(self, fn: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(fn(*arguments, **named))
        return done


@pytest.fixture
def meter() -> Meter:
    meter = Meter()
    for practice in PRACTICES:
        meter.port.seed("slots", map(to_attributes, week(practice, SLOTS_A_WEEK if practice == PRACTICES[0] else 20)))
    return meter


def new(prefix: str = "m", practices: Sequence[str] = PRACTICES) -> list[dict[str, Any]]:
    return [booking(f"{prefix}-{position}", practice) for position, practice in enumerate(practices)]


ALONE, GROUPED = {"group_commit": False}, {"group_commit": True}


@pytest.mark.parametrize(
    ("before", "bodies", "settings", "bill"),
    [
        # Claim 1; in the transaction, twice each: the row, the slot, its place in the index, the appointment.
        pytest.param([], new()[:1], ALONE, (3, 1 + 2 * 4, 1.0), id="a new message alone"),
        pytest.param(new()[:1], new()[:1], ALONE, (1, 1, 0.0), id="a duplicate alone"),
        pytest.param(new()[:1], new()[:1], GROUPED, (1, 1, 0.0), id="a duplicate alone with group commit"),
        pytest.param([], new(), GROUPED, (12, 80, 5.0 + 10), id="a group of ten, with a look"),
        pytest.param(
            [], new(practices=PRACTICES[:1] * 10), GROUPED, (3, 80, 6.0), id="ten for one practice, read once"
        ),
        pytest.param(new(), new(), GROUPED, (1, 0, 5.0), id="ten duplicates in a group"),
        pytest.param(new()[:2], new(), GROUPED, (1 + 8 + 1, 8 * 8, 5.0 + 8), id="two duplicates of ten in a group"),
    ],
)
def test_delivery_costs_its_calls_and_units(
    meter: Meter,
    before: list[dict[str, Any]],
    bodies: list[dict[str, Any]],
    settings: dict[str, bool],
    bill: tuple[int, float, float],
) -> None:
    if before:
        meter.deliver(before)
        meter.bill()
    meter.deliver(bodies, **settings)
    assert meter.bill() == bill


def test_new_message_costs_the_same_beside_the_ledger_read(meter: Meter) -> None:
    meter.consumer(group_commit=True, executor=AtOnce())(event_of(*new()), Context())
    assert meter.bill() == (12, 80, 15.0)


def test_busy_message_costs_a_refused_claim_and_a_deferral(meter: Meter) -> None:
    calls: list[str] = []

    def die(name: str, request: Mapping[str, Any]) -> None:
        calls.append(name)
        if "query" in calls:  # a dead process makes no later call either, such as the release
            raise SystemExit

    meter.before = die
    with pytest.raises(SystemExit):
        meter.deliver(new()[:1])
    meter.before = lambda name, request: None
    meter.bill()
    meter.deliver(new()[:1])
    assert meter.bill() == (2, 1, 0.0)


@pytest.mark.parametrize(("group_commit", "calls"), [(False, 3 + 2), (True, 1 + 2 + 2 + 3)])
def test_taken_slot_costs_another_read_and_commit(meter: Meter, group_commit: bool, calls: int) -> None:
    """In a group of two: ledger read, two searches, refused commit, smaller commit; then the loser goes alone."""
    lost: list[str] = []

    def take(name: str, request: Mapping[str, Any]) -> None:
        if name == "transact_write_items" and not lost:
            slot = next(action["Update"] for action in request["TransactItems"] if "slots" in str(action))
            key = meter.port.tables["slots"].key_text(slot["Key"])
            item = meter.port.contents.tables["slots"][key]
            lost.append(key)
            taken = {name: value for name, value in item.items() if name != "free_key"}
            meter.port.seed("slots", [{**taken, "status": {"S": "busy"}}])

    meter.before = take
    meter.deliver(new()[: 2 if group_commit else 1], group_commit=group_commit)
    assert len(lost) == 1
    assert meter.bill()[0] == calls


def test_units_grow_with_size() -> None:
    assert item_bytes({"a": {"S": "é"}, "n": {"N": "-1234"}, "b": {"BOOL": True}}) == (1 + 2) + (1 + 3) + (1 + 1)
    port = MeteredDynamoDB()
    port.put_item(TableName="ledger", Item={"message_id": {"S": "m"}, "text": {"S": "x" * 1_500}})
    assert port.units[WRITES] == 2
    port.get_item(TableName="ledger", Key={"message_id": {"S": "m"}}, ConsistentRead=True)
    port.get_item(TableName="ledger", Key={"message_id": {"S": "m"}})
    assert port.units[READS] / 2 == 1.5


def test_indexed_query_equals_the_ports_own(meter: Meter) -> None:
    request: dict[str, Any] = {
        "TableName": "slots",
        "IndexName": "free_slots",
        "KeyConditionExpression": "practice = :practice AND free_key BETWEEN :first AND :last",
        "ExpressionAttributeValues": {
            ":practice": {"S": PRACTICES[0]},
            ":first": {"S": "Telephone#General Consultation Routine#2"},
            ":last": {"S": "Telephone#General Consultation Routine#3"},
        },
        "Limit": 16,
    }
    found = meter.port.query(**request)["Items"]
    spelt = {**request, "KeyConditionExpression": "practice=:practice AND free_key BETWEEN :first AND :last"}
    assert found == meter.port.query(**spelt)["Items"]
    assert len(found) == 16


def test_cost_does_not_grow_with_finished_messages(meter: Meter) -> None:
    row = {"status": "COMPLETE", "consumption_count": 1, "payload_hash": "0" * 64, "result": "{}", "claimed_by": "x"}
    bills = set()
    for finished in (100, 2_000):
        old = ({"message_id": f"old-{number}", **row} for number in range(finished))
        meter.port.seed("ledger", map(to_attributes, old))
        meter.deliver(new(f"m-{finished}"), group_commit=True)
        bills.add(meter.bill())
    assert bills == {(12, 80.0, 15.0)}
