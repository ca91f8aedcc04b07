"""The consumer by itself, on a ledger in memory: what it logs, what it tells SQS, what it refuses."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from aws_lambda_powertools.utilities.idempotency.exceptions import IdempotencyPersistenceLayerError

from oneslot.runtime import powertools
from oneslot.runtime import powertools as idempotency
from oneslot.runtime.attempt import attempt
from oneslot.runtime.consumer.consumer import Consumer, process
from oneslot.runtime.consumer.queues import Queues
from oneslot.runtime.effects import INVALID_MESSAGE_ID, Effects, Once, Put, Unprocessable
from oneslot.runtime.powertools import exactly_once
from oneslot.runtime.protocol import Claim, Committed, Duplicate, Exists, Fenced, Taken
from oneslot.runtime.record import FIELDS, Delivery, payload_hash
from oneslot.runtime.sqs.queue import Deferral
from oneslot.runtime.stores.memory import MemoryLedger
from oneslot.runtime.typed import JsonMessage
from tests.kits.consumer import NHS_NUMBER, Clock, Context, record, service_error, surroundings
from tests.kits.sqs import ScriptedSqs


class FencedLedger(MemoryLedger):
    """Another consumer always takes over just before the commit."""

    def commit(self, claim: Claim, effects: Effects) -> Committed | Duplicate | Exists | Fenced | Taken:
        return Fenced(claim)


@dataclass
class Desk:
    """A consumer and everything around it.

    Attributes:
        ways: the module with the ways through the protocol and through a batch; each test runs with both.
    """

    ways: ClassVar[Any] = powertools

    decide: Callable[[JsonMessage], Effects] = lambda request: Effects({"outcome": "done"})
    parse: Callable[[str, str, Any], JsonMessage] = JsonMessage
    clock: Clock = field(default_factory=Clock)
    sqs: ScriptedSqs = field(default_factory=ScriptedSqs)
    log: list[Delivery] = field(default_factory=list)
    ledger: Any = None
    attempt: Any = None
    options: Mapping[str, Any] = field(default_factory=dict)
    deferral: Deferral = field(default_factory=Deferral)

    def __post_init__(self) -> None:
        self.ledger = self.ledger or MemoryLedger(surroundings=surroundings(self.clock))

    def consumer(self) -> Consumer[JsonMessage]:
        return Consumer(
            self.ledger,
            Queues(self.sqs, "queue", "dead-letters", lambda: 0.0, self.deferral),
            parse=self.parse,
            decide=self.decide,
            log=self.log.append,
            attempt=self.attempt or self.ways.attempt,
            process=self.ways.process,
            **self.options,
        )

    def deliver(self, *records: dict[str, Any]) -> list[str]:
        """Invoke; returns the ids of the records that were reported as failed."""
        answer = self.consumer()({"Records": list(records)}, Context(self.clock))
        return [failure["itemIdentifier"] for failure in answer["batchItemFailures"]]

    def keep_busy(self, milliseconds: int) -> None:
        """Let another consumer have the message "m"."""
        self.ledger.claim("m", payload_hash({"message_id": "m"}), self.clock() + milliseconds)


plain = SimpleNamespace(attempt=attempt, process=process)


@pytest.fixture(params=[plain, powertools], ids=["plain", "powertools"], autouse=True)
def ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Desk, "ways", request.param)


def raiser(error: BaseException) -> Callable[..., Any]:
    def raise_it(*arguments: Any) -> Any:
        raise error

    return raise_it


def test_an_outcome_that_is_a_novel_is_cut_in_the_log() -> None:
    """CloudWatch takes no line of more than a megabyte, and the audit would miss the delivery."""
    desk = Desk(decide=lambda _: Effects({"outcome": "x" * 300_000}))
    desk.deliver(record({"message_id": "m"}))
    assert [line.outcome for line in desk.log] == ["x" * 128]


@pytest.mark.parametrize("receive_count", [1, 10, 1_000])
@pytest.mark.parametrize("outcome", ["busy", "fenced", "failed"])
def test_failed_message_stays_whatever_its_receive_count(outcome: str, receive_count: int) -> None:
    """The last receive is the redrive policy's business: it keeps the message, and an acknowledgement would lose it."""
    desk = Desk(decide=raiser(ZeroDivisionError()) if outcome == "failed" else lambda request: Effects({}))
    if outcome == "fenced":
        desk.ledger = FencedLedger(surroundings=surroundings(desk.clock))
    if outcome == "busy":
        desk.keep_busy(30_000)
    one = record({"message_id": "m"}, receive_count=receive_count)
    assert desk.deliver(one) == [one["messageId"]]
    (line,) = desk.log
    assert (line.outcome, line.claimed_by is None) == (outcome, outcome != "fenced")
    # Shown again at once, a message would spend its receives on a fault of a few seconds: only a busy one has its own time.
    assert len(desk.sqs.calls) == (outcome == "busy")


def test_unknown_outcome_deletes_nothing() -> None:
    desk = Desk()
    desk.attempt = lambda *_: "neither"
    one = record({"message_id": "m"})
    assert desk.deliver(one) == [one["messageId"]]
    assert [(line.outcome, line.reason) for line in desk.log] == [("failed", "AssertionError")]


def test_id_is_not_logged_when_the_body_has_no_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    """No parser has seen it: it may be anything, an NHS number, too."""
    monkeypatch.setattr("oneslot.runtime.record.payload_hash", raiser(Unprocessable("not_json", "nested too deep")))
    desk = Desk()
    assert desk.deliver(record({"message_id": "m"})) == []
    assert [(line.outcome, line.reason, line.message_id) for line in desk.log] == [("quarantined", "not_json", None)]


@pytest.mark.parametrize(("reason", "kept"), [(INVALID_MESSAGE_ID, None), ("unknown_practice", "m")])
def test_invalid_id_is_not_logged(reason: str, kept: str | None) -> None:
    """One that the parser refuses may be anything, an NHS number, too."""
    desk = Desk(parse=raiser(Unprocessable(reason, "no")))
    assert desk.deliver(record({"message_id": "m"})) == []
    assert [(line.outcome, line.reason, line.message_id) for line in desk.log] == [("quarantined", reason, kept)]
    assert [name for name, _ in desk.sqs.calls] == ["send_message"]


@pytest.mark.parametrize("timeout_ms", [30_000, 0])
def test_every_lease_ends_with_the_invocation_that_claims_it(timeout_ms: int) -> None:
    """Whichever record of a batch it is for, and however many invocations the same consumer had before."""
    desk = Desk()
    leases: list[int] = []

    def decide(request: JsonMessage) -> Effects:
        leases.append(desk.ledger.rows[request.message_id]["lease_until"])
        desk.clock.now += 10_000
        return Effects({})

    desk.decide = decide
    consumer, ends = desk.consumer(), []
    for names in (("a", "b"), ("c", "d")):
        context = Context(desk.clock, timeout_ms)
        ends += [context.deadline] * 2
        consumer({"Records": [record({"message_id": name}) for name in names]}, context)
        desk.clock.now += 3_600_000
    assert leases == ends


@pytest.mark.parametrize(
    ("receive_count", "left_ms", "timeout_ms", "seconds"),
    [
        (1, 20_000, 30_000, 1),
        (5, 20_000, 30_000, 20),
        (1, 0, 30_000, 0),
        (5, 5_000_000, 3_600_000, 3_600),
        (5, 10**9, 30_000, 900),
    ],
)
def test_a_busy_message_is_hidden_for_its_deferral(
    receive_count: int, left_ms: int, timeout_ms: int, seconds: int
) -> None:
    """It returns at once in the last millisecond, and waits no longer than the consumer's own lease lasts."""
    desk, one = Desk(), record({"message_id": "m"}, receive_count=receive_count)
    desk.keep_busy(left_ms)
    answer = desk.consumer()({"Records": [one]}, Context(desk.clock, timeout_ms))
    assert answer == {"batchItemFailures": [{"itemIdentifier": one["messageId"]}]}
    hidden = {"QueueUrl": "queue", "ReceiptHandle": one["receiptHandle"], "VisibilityTimeout": seconds}
    assert desk.sqs.calls == [("change_message_visibility", hidden)]
    assert desk.log[-1].outcome == "busy"


def test_message_holds_back_its_fifo_group_when_it_is_busy() -> None:
    """It is not done yet: whatever follows it in its group would be done before it."""
    desk, records = Desk(), [record({"message_id": name}) for name in ("m", "behind", "other")]
    for one, group in zip(records, "ppq", strict=True):
        one["eventSourceARN"] += ".fifo"
        one["attributes"]["MessageGroupId"] = group
    desk.keep_busy(30_000)
    assert desk.deliver(*records) == [one["messageId"] for one in records[:2]]
    assert [(line.message_id, line.outcome) for line in desk.log] == [("m", "busy"), ("other", "done")]
    assert "behind" not in desk.ledger.rows


NO_EVENTS: tuple[Any, ...] = (None, [], "Records", {}, {"Records": None}, {"Records": {}})
NO_RECORDS: tuple[Any, ...] = ({"EventSource": "aws:sns", "Sns": {"Message": "m"}}, {"s3": {}}, {}, "text", None)


@pytest.mark.parametrize(
    ("event", "text"),
    [
        *((event, "no list 'Records'") for event in NO_EVENTS),
        *(({"Records": [found]}, "not SQS's") for found in NO_RECORDS),
    ],
)
def test_event_is_refused_with_a_remedy_when_it_is_not_sqs(event: Any, text: str) -> None:
    desk = Desk()
    with pytest.raises(TypeError, match=f"{text}; invoke this function from an SQS event source mapping"):
        desk.consumer()(event, Context(desk.clock))
    assert desk.log == []


def test_record_is_consumed_when_it_has_only_the_fields_that_are_needed() -> None:
    desk, whole = Desk(), record({"message_id": "m"})
    assert desk.deliver({name: whole[name] for name in FIELDS}) == []
    assert [each.outcome for each in desk.log] == ["done"]


def test_an_error_of_powertools_without_a_cause_is_raised_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    error = IdempotencyPersistenceLayerError("no cause")
    monkeypatch.setattr(
        idempotency, "idempotent_function", lambda perform, **options: lambda **arguments: raiser(error)()
    )
    deliver = exactly_once(MemoryLedger())(lambda request: Effects({}))
    with pytest.raises(IdempotencyPersistenceLayerError, match="no cause"):
        deliver(JsonMessage("m", "h"), 1)


def test_delivery_names_the_producers_trace() -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    desk = Desk()
    desk.deliver(record({"message_id": "m"}, attributes={"traceparent": trace}))
    assert [line.trace for line in desk.log] == [trace]


@pytest.mark.parametrize(
    ("minimum", "passed", "begun"),
    [(0, 30_001, True), (20_000, 10_000, True), (20_001, 10_000, False), (1, 30_001, False)],
)
def test_record_is_begun_when_enough_time_is_left(minimum: int, passed: int, begun: bool) -> None:
    """Without it the record is not delayed either, and returns when its visibility ends."""
    desk = Desk(options={"minimum_remaining_ms": minimum}, deferral=Deferral(longest_retry_delay_seconds=60))

    def decide(request: JsonMessage) -> Effects:
        desk.clock.now += passed  # of 30,000
        return Effects({"outcome": "done"})

    desk.decide = decide
    first, second = record({"message_id": "m-1"}), record({"message_id": "m-2"})

    failed = desk.deliver(first, second)

    assert failed == ([] if begun else [second["messageId"]])
    assert ("m-2" in desk.ledger.rows) is begun
    assert desk.sqs.calls == []
    assert [(line.outcome, line.reason, line.where) for line in desk.log] == [
        ("done", None, None),
        ("done", None, None) if begun else ("failed", "NotEnoughTime", None),
    ]


def test_unprocessable_record_is_quarantined_in_the_last_moment() -> None:
    """It needs one call, and SQS would count another receive."""
    desk = Desk(options={"minimum_remaining_ms": 30_001})
    assert desk.deliver(record("not JSON")) == []
    assert [line.outcome for line in desk.log] == ["quarantined"]


class RefusingSqs(ScriptedSqs):
    """A queue that throttles every change of a visibility."""

    def change_message_visibility(self, **request: Any) -> None:
        super().change_message_visibility(**request)
        raise service_error("ThrottlingException")


def delaying(error: BaseException, **options: Any) -> Desk:
    """A consumer with a retry delay, whose decisions raise."""
    return Desk(decide=raiser(error), options=options, deferral=Deferral(longest_retry_delay_seconds=60))


def test_failed_message_is_delayed_by_its_receives() -> None:
    desk = delaying(RuntimeError("an outage"))
    first, later = record({"message_id": "m"}), record({"message_id": "m"}, receive_count=4)

    assert desk.deliver(first, later) == [first["messageId"], later["messageId"]]

    assert [request["VisibilityTimeout"] for request in desk.sqs.requests] == [1, 8]
    assert [(line.outcome, line.reason) for line in desk.log] == [("failed", "RuntimeError")] * 2


def test_process_that_ends_delays_no_message() -> None:
    """SystemExit ends the environment, so no further call may hold that up."""
    desk = delaying(SystemExit())

    with suppress(SystemExit):
        desk.deliver(record({"message_id": "m"}))

    assert desk.sqs.calls == []
    assert [(line.outcome, line.reason) for line in desk.log] == [("failed", "SystemExit")]


def test_failure_keeps_its_error_when_sqs_refuses_the_delay() -> None:
    desk = delaying(error := RuntimeError("an outage"))
    desk.sqs = RefusingSqs()
    one = record({"message_id": "m"})

    assert desk.deliver(one) == [one["messageId"]]

    assert [line.reason for line in desk.log] == ["RuntimeError"]
    assert error.__notes__ == ["ClientError while the message was delayed: its visibility timeout ends as before"]


def test_busy_message_is_deferred_once_when_sqs_refuses_it() -> None:
    desk = delaying(RuntimeError("never raised"))
    desk.keep_busy(30_000)
    desk.sqs = RefusingSqs()

    desk.deliver(record({"message_id": "m"}))

    assert len(desk.sqs.calls) == 1
    assert [(line.outcome, line.reason) for line in desk.log] == [("busy", "ThrottlingException")]


def test_forgotten_request_gets_the_decisions_result_without_an_answer() -> None:
    put = Put("orders", {"order_id": "m"}, key="order_id")
    desk = Desk(decide=lambda request: Effects({"outcome": "taken"}, once=Once(put)))
    desk.deliver(record({"message_id": "m"}))
    desk.ledger.rows.clear()

    assert desk.deliver(record({"message_id": "m"})) == []

    first, again = desk.log
    assert (first.outcome, again.outcome, again.answer) == ("taken", "duplicate", first.answer)
    assert len(desk.ledger.tables["orders"]) == 1


def test_message_is_quarantined_at_once_when_its_value_exceeds_a_limit() -> None:
    """The tenth delivery would fail as the first did, and the dead letter would have no reason."""
    item = {"id": "m", "quantity": int("7" * 40)}
    desk = Desk(decide=lambda request: Effects({}, once=Once(Put("orders", item, key="id"))))
    assert desk.deliver(record({"message_id": "m"})) == []
    (sent,) = desk.sqs.requests
    assert sent["MessageAttributes"]["QuarantineReason"]["StringValue"] == "invalid_effects"
    assert sent["MessageAttributes"]["QuarantineDetail"]["StringValue"] == (
        "'quantity' in 'orders' has more than 38 digits; shorten the number, or write it as text"
    )
    assert [(each.outcome, each.reason) for each in desk.log] == [("quarantined", "invalid_effects")]


def test_delivery_says_where_and_why_when_the_message_fails() -> None:
    """And it is delivered again: the next version of parser or decision can still answer it."""

    def parse(message_id: str, digest: str, body: Any) -> JsonMessage:
        if message_id == "p":
            raise KeyError
        return JsonMessage(message_id, digest)

    def decide(request: JsonMessage) -> Effects:
        if request.message_id == "m":
            raise KeyError(f"patient {NHS_NUMBER}")
        return Effects({}, (Put("orders", {"id": "n", "price": 0.5}, key="id"),))

    desk = Desk(parse=parse, decide=decide)
    assert len(desk.deliver(*(record({"message_id": name}) for name in "pmn"))) == 3
    assert desk.sqs.requests == []
    parsing, deciding, committing = desk.log
    assert parsing.where == f"{__file__}:{parse.__code__.co_firstlineno + 2}"
    assert (deciding.where, deciding.detail) == (f"{__file__}:{decide.__code__.co_firstlineno + 2}", None)
    assert (committing.outcome, committing.reason, committing.detail) == (
        "failed",
        "InvalidEffects",
        "'price' in 'orders' is a float, which no table holds; write Decimal(str(value)), or a whole number such as pence",
    )
    assert str(committing.where).rpartition(":")[0].endswith("oneslot/runtime/stores/transaction.py")
    assert NHS_NUMBER not in "".join(map(str, desk.log))
