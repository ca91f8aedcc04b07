"""The cases that at-least-once delivery is known for, each with the answer that this consumer must give.

docs/understand/guarantees.md names them by their letters. Faults are put between the consumer and moto:
`Killed` stops the process where it stands, a frozen process is one whose clock and neighbours move on before its next call.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from demo.declared import CONSUMER
from oneslot.laws.evidence import Evidence
from oneslot.runtime.consumer.consumer import Consumer
from oneslot.runtime.effects import Effects, InvalidEffects
from oneslot.runtime.powertools import exactly_once
from oneslot.runtime.stores.dynamodb import DynamoDBLedger
from tests.kits.consumer import (
    NHS_NUMBER,
    Bench,
    Intercepted,
    Killed,
    bench,
    booking,
    cancellation,
    raising,
    record,
    service_error,
    surroundings,
)

LEASE_MS = 30_000


@pytest.fixture
def made() -> Iterator[Bench]:
    """A consumer with three free slots."""
    with bench() as made:
        yield made


def evidence(made: Bench) -> Evidence:
    return CONSUMER.evidence(
        ledger={row["message_id"]: row for row in made.rows("ledger")},
        slots={(row["practice"], row["slot_id"]): row for row in made.rows("slots")},
        appointments={row["appointment_id"]: row for row in made.rows("appointments")},
        deliveries=[
            {name: getattr(line, name) for name in ("message_id", "outcome", "answer", "claimed_by")}
            for line in made.deliveries
        ],
        now=made.clock(),
    )


def held(made: Bench) -> int:
    """Busy slots; and whatever else is asked, no invariant may be broken."""
    assert CONSUMER.check(evidence(made)) == []
    return sum(row["status"] == "busy" for row in made.rows("slots"))


def frozen(made: Bench, meanwhile: Callable[[], Any]) -> Callable[[Callable[[], Any]], Any]:
    """The process stops before its call; its lease ends; `meanwhile` happens; then it goes on."""

    def wait(_perform: Callable[[], Any]) -> None:
        made.clock.now += LEASE_MS + 1
        meanwhile()

    return wait


def before_commit(made: Bench, happens: Callable[[Callable[[], Any]], Any]) -> Consumer[Any]:
    """Return a consumer to whose next commit this happens."""
    return made.another_consumer(dynamodb=Intercepted(made.dynamodb, before={"transact_write_items": happens}))


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("call", ["update_item", "query", "transact_write_items"])
def test_a_kill_at_any_call_books_once(made: Bench, call: str, moment: str) -> None:
    fault = {moment: {call: raising(Killed())}}
    dying = made.another_consumer(dynamodb=Intercepted(made.dynamodb, **fault))
    with pytest.raises(Killed):
        made.deliver(record(booking()), consumer=dying)
    made.clock.now += LEASE_MS + 1
    assert made.deliver(record(booking(), receive_count=2)) == []
    assert held(made) == 1
    assert made.row("m-1")["status"] == "COMPLETE"


def test_b_frozen_delivery_reports_the_winners_answer(made: Bench) -> None:
    winner = frozen(made, lambda: made.deliver(record(booking())))
    slow = before_commit(made, winner)
    assert made.deliver(record(booking()), consumer=slow) == []
    assert made.outcomes == ["booked", "duplicate"]
    assert made.deliveries[0].answer == made.deliveries[1].answer
    assert made.row("m-1")["consumption_count"] == 2
    assert held(made) == 1


def test_b_frozen_delivery_is_fenced_while_the_other_works(made: Bench) -> None:
    dying = before_commit(made, raising(Killed()))

    def take_over() -> None:
        with pytest.raises(Killed):
            made.deliver(record(booking()), consumer=dying)

    before = {"transact_write_items": frozen(made, take_over)}
    slow = made.another_consumer(dynamodb=Intercepted(made.dynamodb, before=before))
    late = record(booking())
    assert made.deliver(late, consumer=slow) == [late["messageId"]]
    assert made.deliveries[-1].outcome == "fenced"
    assert held(made) == 0
    assert made.row("m-1")["claimed_by"] == made.deliveries[-1].claimed_by or made.row("m-1")["consumption_count"] == 2


def test_b2_error_after_a_takeover_keeps_the_new_lease(made: Bench) -> None:
    dying = before_commit(made, raising(Killed()))

    def wake_and_fail(_perform: Callable[[], Any]) -> None:
        made.clock.now += LEASE_MS + 1
        with pytest.raises(Killed):
            made.deliver(record(booking()), consumer=dying)
        raise service_error("ValidationException", "Query")

    slow = made.another_consumer(dynamodb=Intercepted(made.dynamodb, before={"query": wake_and_fail}))
    made.deliver(record(booking()), consumer=slow)
    assert made.row("m-1")["lease_until"] == made.clock() + LEASE_MS


def test_c_redelivery_after_the_rows_expiry_is_a_duplicate(made: Bench) -> None:
    made.deliver(record(booking()))
    made.dynamodb.delete_item(TableName="ledger", Key={"message_id": {"S": "m-1"}})
    assert made.deliver(record(booking())) == []
    assert made.outcomes == ["booked", "duplicate"]
    assert made.deliveries[0].answer == made.deliveries[1].answer
    del made.deliveries[0]  # of the row that was forgotten: the new row's count begins again
    assert held(made) == 1


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("late", [False, True])
def test_c2_other_content_conflicts_with_a_forgotten_booking(made: Bench, late: bool, together: bool) -> None:
    made.deliver(record(booking()))
    kept = made.rows("appointments")
    made.dynamodb.delete_item(TableName="ledger", Key={"message_id": {"S": "m-1"}})
    passed = {"not_before": "2020-01-01T08:00:00Z", "not_after": "2020-01-02T08:00:00Z"} if late else {}
    consumer = made.another_consumer({"GROUP_COMMIT": str(together).lower()})
    another = record(booking(nhs_number="9990000026", **passed))
    assert made.deliver(another, record(booking("m-2")), consumer=consumer) == []
    assert made.outcomes[1:] in (["quarantined", "booked"], ["booked", "quarantined"])
    assert {delivery.reason for delivery in made.deliveries} == {None, "conflict"}
    assert [letter["Body"] for letter in made.dead_letters()] == [another["body"]]
    assert [row for row in made.rows("appointments") if row["appointment_id"] == "m-1"] == kept
    assert made.row("m-1")["status"] == "IN_PROGRESS"
    assert made.row("m-1")["lease_until"] == 0


@pytest.mark.parametrize("kind", ["waiting", "cancelled"])
def test_c2_other_content_conflicts_with_a_forgotten_request(made: Bench, kind: str) -> None:
    """It waits, or was cancelled: its appointment says for what it was made, as one with a slot does."""
    first = booking(delivery_channel="Video") if kind == "waiting" else booking()
    made.deliver(record(first), *([] if kind == "waiting" else [record(cancellation("m-1"))]))
    kept = made.rows("appointments")
    made.dynamodb.delete_item(TableName="ledger", Key={"message_id": {"S": "m-1"}})
    del made.deliveries[:]
    another = record({**first, "nhs_number": "9990000026"})
    assert made.deliver(another) == []
    assert [(line.outcome, line.reason) for line in made.deliveries] == [("quarantined", "conflict")]
    assert [letter["Body"] for letter in made.dead_letters()] == [another["body"]]
    assert made.rows("appointments") == kept


def test_d_request_sent_twice_gets_one_answer(made: Bench) -> None:
    first, second = record(booking()), record(booking())
    assert first["messageId"] != second["messageId"]
    assert made.deliver(first) == made.deliver(second) == []
    assert made.outcomes == ["booked", "duplicate"]
    assert made.deliveries[0].answer == made.deliveries[1].answer
    assert held(made) == 1


def test_e_exception_writes_nothing_and_frees_the_message(made: Bench) -> None:
    fault = {"transact_write_items": raising(service_error("AccessDeniedException", "TransactWriteItems"))}
    failing = made.another_consumer(dynamodb=Intercepted(made.dynamodb, before=fault))
    first = record(booking())
    assert made.deliver(first, consumer=failing) == [first["messageId"]]
    assert (made.deliveries[0].outcome, made.deliveries[0].reason) == ("failed", "AccessDeniedException")
    assert made.rows("appointments") == []
    assert made.row("m-1")["lease_until"] == 0
    made.clock.now += 1
    assert made.deliver(first) == []
    assert made.row("m-1")["consumption_count"] == 2
    assert held(made) == 1


@pytest.mark.parametrize(
    ("result", "sentence"),
    [({"value": object()}, "JSON"), ({"value": "x" * 400_000}, "390000"), ({"value": float("nan")}, "JSON")],
)
def test_e2_invalid_result_is_refused_before_any_write(made: Bench, result: dict[str, Any], sentence: str) -> None:
    client = Intercepted(made.dynamodb)
    ledger = DynamoDBLedger(client, "ledger", retention_seconds=1, surroundings=surroundings(made.clock))
    message = made.consumer.parse("m-1", "hash", booking())
    with pytest.raises(InvalidEffects, match=sentence):
        exactly_once(ledger)(lambda _message: Effects(result))(message, made.clock() + LEASE_MS)
    assert client.calls == ["update_item", "update_item"]  # the claim and its release
    assert made.row("m-1")["lease_until"] == 0


class Deferrals:
    """An SQS client that only takes note of deferrals."""

    def __init__(self, note: Callable[[dict[str, Any]], None]) -> None:
        self._note = note

    def change_message_visibility(self, **request: Any) -> None:
        self._note(request)


def test_f_busy_message_is_deferred_to_the_end_of_the_lease(made: Bench) -> None:
    asked: list[dict[str, Any]] = []
    sqs = Deferrals(asked.append)
    other = made.another_consumer(sqs=sqs)
    again = record(booking(), receive_count=5)

    def meanwhile(_perform: Callable[[], Any]) -> None:
        made.clock.now += 10_000
        assert made.deliver(again, consumer=other) == [again["messageId"]]

    working = before_commit(made, meanwhile)
    assert made.deliver(record(booking()), consumer=working) == []
    assert made.outcomes == ["busy", "booked"]
    assert asked == [
        {
            "QueueUrl": made.queue_url,
            "ReceiptHandle": again["receiptHandle"],
            "VisibilityTimeout": 21,  # 20 s of lease, and half of the jitter's two
        }
    ]
    assert held(made) == 1


def test_f2_redriven_copy_is_a_duplicate(made: Bench) -> None:
    made.deliver(record(booking()))
    redriven = record(booking(), attributes={"QuarantineReason": "conflict", "SourceMessageId": "x"})
    assert made.deliver(redriven) == []
    assert made.outcomes == ["booked", "duplicate"]
    assert held(made) == 1


def test_g_timeout_in_a_batch_of_ten_books_each_once() -> None:
    with bench(slots=20) as made:
        records = [record(booking(f"m-{number}")) for number in range(10)]
        client = Intercepted(made.dynamodb)
        fifth = {"count": 0}

        def die_at_the_fifth(perform: Callable[[], Any]) -> None:
            fifth["count"] += 1
            if fifth["count"] == 5:
                raise Killed
            client._before["transact_write_items"] = die_at_the_fifth

        client._before["transact_write_items"] = die_at_the_fifth
        with pytest.raises(Killed):
            made.deliver(*records, consumer=made.another_consumer(dynamodb=client))
        assert held(made) == 4
        made.clock.now += LEASE_MS + 1
        assert made.deliver(*records) == []
        assert held(made) == 10
        assert made.dead_letters() == []


def test_h_early_redelivery_costs_one_receive(made: Bench) -> None:
    """From half of its receives on: before, it may spend some on shorter waits."""
    hidden_until: list[int] = []
    sqs = Deferrals(lambda request: hidden_until.append(made.clock() + request["VisibilityTimeout"] * 1000))
    other = made.another_consumer(sqs=sqs)

    def meanwhile(_perform: Callable[[], Any]) -> None:
        made.clock.now += 25_000  # it waited 5 s in the batching window: its visibility timeout of 30 s is over
        made.deliver(record(booking(), receive_count=5), consumer=other)

    dying = Intercepted(
        made.dynamodb, before={"transact_write_items": meanwhile}, after={"transact_write_items": raising(Killed())}
    )
    deadline = made.clock() + LEASE_MS
    with pytest.raises(Killed):
        made.deliver(record(booking()), consumer=made.another_consumer(dynamodb=dying))
    assert hidden_until[0] >= deadline
    made.clock.now = hidden_until[0]
    assert made.deliver(record(booking(), receive_count=6)) == []
    assert made.outcomes[-1] == "duplicate"
    assert held(made) == 1


def lost_and_repeated(perform: Callable[[], Any]) -> Any:
    """The answer is lost on its way; the SDK sends the same request again."""
    return perform()


def test_i_delivery_goes_on_when_the_claims_answer_is_lost(made: Bench) -> None:
    losing = made.another_consumer(dynamodb=Intercepted(made.dynamodb, after={"update_item": lost_and_repeated}))
    assert made.deliver(record(booking()), consumer=losing) == []
    assert made.outcomes == ["booked"]
    assert made.row("m-1")["consumption_count"] == 1
    assert held(made) == 1


def test_j_delivery_books_once_when_the_commits_answer_is_lost(made: Bench) -> None:
    # moto ignores ClientRequestToken, so this shows the ledger's own answer; the embedded AWS shows the token's.
    client = Intercepted(made.dynamodb, after={"transact_write_items": lost_and_repeated})
    assert made.deliver(record(booking()), consumer=made.another_consumer(dynamodb=client)) == []
    assert made.outcomes == ["booked"]
    assert held(made) == 1


def test_k_late_claim_does_not_lock_its_owner_out(made: Bench) -> None:
    late: list[Callable[[], Any]] = []

    def keep(perform: Callable[[], Any]) -> None:
        late.append(perform)

    def land(_perform: Callable[[], Any]) -> None:
        with pytest.raises(Exception, match="ConditionalCheckFailed"):
            late[0]()

    client = Intercepted(
        made.dynamodb,
        before={"update_item": keep, "transact_write_items": land},
        after={"transact_write_items": land},
    )
    assert made.deliver(record(booking()), consumer=made.another_consumer(dynamodb=client)) == []
    assert made.outcomes == ["booked"]
    assert made.row("m-1")["consumption_count"] == 1
    assert held(made) == 1


def test_k_commit_of_a_forgotten_claim_is_fenced() -> None:
    """Its row is forgotten, and the id claimed for another content. Both claims are the first of their row, so a fence on
    `consumption_count` would let the old one commit in the new one's name.
    """
    with bench(slots=2) as made:

        def forget(perform: Callable[[], Any]) -> None:
            def land(_perform: Callable[[], Any]) -> None:
                with pytest.raises(Exception, match="ConditionalCheckFailed"):
                    perform()

            made.clock.now += LEASE_MS + 1
            made.dynamodb.delete_item(TableName="ledger", Key={"message_id": {"S": "m-1"}})
            made.deliver(record(booking(nhs_number="9990000026")), consumer=before_commit(made, land))

        made.deliver(record(booking()), consumer=before_commit(made, forget))
        (appointment,) = made.rows("appointments")
        assert appointment["nhs_number"] == "9990000026"
        assert appointment["payload_hash"] == made.row("m-1")["payload_hash"]
        assert held(made) == 1


def test_k_late_commit_is_the_answer() -> None:
    """Its slot is taken, so its owner decides to wait; the slot is free again, and the first decision lands after all."""
    with bench(slots=1) as made:
        late: list[Callable[[], Any]] = []

        def keep(perform: Callable[[], Any]) -> None:
            late.append(perform)
            made.deliver(record(booking("m-2")))
            client._before["transact_write_items"] = land

        def land(_perform: Callable[[], Any]) -> None:
            made.deliver(record(cancellation("m-2")))
            late[0]()

        client = Intercepted(made.dynamodb, before={"transact_write_items": keep})
        assert made.deliver(record(booking()), consumer=made.another_consumer(dynamodb=client)) == []
        assert made.deliver(record(booking())) == []
        assert made.outcomes == ["booked", "cancelled", "booked", "duplicate"]
        assert made.deliveries[2].answer == made.deliveries[3].answer
        assert held(made) == 1


def test_l_other_content_is_quarantined_as_a_conflict(made: Bench) -> None:
    made.deliver(record(booking()))
    assert made.deliver(record(booking(delivery_channel="Video"))) == []
    (letter,) = made.dead_letters()
    assert letter["MessageAttributes"]["QuarantineReason"]["StringValue"] == "conflict"
    assert '"Video"' in letter["Body"]
    assert made.outcomes == ["booked", "quarantined"]
    assert held(made) == 1


def test_m_last_slot_books_one_and_waitlists_the_other() -> None:
    with bench(slots=1) as made:
        slower = before_commit(made, lambda _: made.deliver(record(booking("m-2"))))
        assert made.deliver(record(booking("m-1")), consumer=slower) == []
        assert made.outcomes == ["booked", "waitlist"]
        assert {row["status"] for row in made.rows("ledger")} == {"COMPLETE"}
        assert held(made) == 1


ORDERS = {
    "book, cancel": (booking("b"), cancellation("b", "c")),
    "cancel, book": (cancellation("b", "c"), booking("b")),
    "cancel twice": (booking("b"), cancellation("b", "c"), cancellation("b", "d")),
    "cancel twice, then book": (cancellation("b", "c"), cancellation("b", "d"), booking("b")),
    "book, cancel, late duplicate of book": (booking("b"), cancellation("b", "c"), booking("b")),
    "book, cancel, each again": (booking("b"), cancellation("b", "c"), booking("b"), cancellation("b", "c")),
}


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
def test_n_appointment_stays_cancelled_in_every_order(made: Bench, order: tuple[dict[str, Any], ...]) -> None:
    for body in order:
        assert made.deliver(record(body)) == []
    (appointment,) = made.rows("appointments")
    assert appointment["status"] == "cancelled"
    assert held(made) == 0
    made.deliver(*(record(booking(f"other-{number}")) for number in range(3)))
    assert held(made) == 3, "the slot that was given back can be booked"


def test_n_booking_after_the_cancellations_read_is_cancelled(made: Bench) -> None:
    overtaken = before_commit(made, lambda _: made.deliver(record(booking("b"))))
    assert made.deliver(record(cancellation("b", "c")), consumer=overtaken) == []
    assert made.rows("appointments")[0]["status"] == "cancelled"
    assert held(made) == 0


def test_n_cancellation_before_the_bookings_commit_wins(made: Bench) -> None:
    overtaken = before_commit(made, lambda _: made.deliver(record(cancellation("b", "c"))))
    assert made.deliver(record(booking("b")), consumer=overtaken) == []
    assert made.rows("appointments")[0]["status"] == "cancelled"
    assert held(made) == 0


def test_o_message_twice_in_a_batch_is_one_booking(made: Bench) -> None:
    assert made.deliver(record(booking()), record(booking("other")), record(booking())) == []
    assert sorted(made.outcomes) == ["booked", "booked", "duplicate"]
    assert held(made) == 2


BAD = {
    "missing id": (booking(None), "missing_message_id", "message_id"),
    "id is a number": (booking(message_id=7), "invalid_message_id", "message_id"),
    "id is an NHS number": (booking(NHS_NUMBER), "invalid_message_id", "NHS number"),
    "not JSON": ("{", "not_json", "JSON object"),
    "NaN": ('{"message_id": NaN}', "not_json", "JSON object"),
    "unknown type": (booking(type="move"), "unknown_type", "type"),
    "unknown practice": (booking(practice="Z99999"), "unknown_practice", "practice"),
    "invalid NHS number": (booking(nhs_number="9990000019"), "invalid_field", "nhs_number"),
    "times in the wrong order": (booking(not_after="2099-11-22T08:00:00Z"), "invalid_field", "not_after"),
    "an NHS number to cancel": (cancellation(NHS_NUMBER), "invalid_field", "appointment_id"),
    "1 MiB that is not JSON": ("x" * (1_048_576 - 1_000), "not_json", "JSON object"),
}


@pytest.mark.parametrize(("body", "reason", "named"), BAD.values(), ids=BAD)
def test_p_unprocessable_message_is_quarantined_alone(
    made: Bench, body: dict[str, Any] | str, reason: str, named: str
) -> None:
    bad = record(body)
    assert made.deliver(record(booking("first")), bad, record(booking("last"))) == []
    (letter,) = made.dead_letters()
    said = {name: value["StringValue"] for name, value in letter["MessageAttributes"].items()}
    assert letter["Body"] == bad["body"]
    assert said["QuarantineReason"] == reason
    assert named in said["QuarantineDetail"]
    assert said["SourceMessageId"] == bad["messageId"]
    assert sorted(made.outcomes) == ["booked", "booked", "quarantined"]
    assert held(made) == 2
    assert NHS_NUMBER not in repr(made.deliveries)


def test_p_failed_quarantine_leaves_the_message_in_the_queue(made: Bench) -> None:
    sqs = Intercepted(made.sqs, before={"send_message": raising(service_error("InvalidParameterValue", "SendMessage"))})
    bad = record("x" * 1_048_576)
    assert made.deliver(bad, consumer=made.another_consumer(sqs=sqs)) == [bad["messageId"]]
    assert (made.deliveries[0].outcome, made.deliveries[0].reason) == ("failed", "not_json")


def test_p_request_succeeds_after_its_practice_is_seeded(made: Bench) -> None:
    made.deliver(record(booking(practice="B82001")))
    made.seed(1, practice="B82001")
    made.clock.now += 1
    assert made.deliver(record(booking(practice="B82001"))) == []
    assert made.outcomes == ["quarantined", "booked"]
