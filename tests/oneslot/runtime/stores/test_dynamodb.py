"""Contract of the three verbs on moto, and their answers to what the service and the network do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError, EndpointConnectionError, ReadTimeoutError

from oneslot.runtime.effects import Effects, InvalidEffects, Once, Put, Update
from oneslot.runtime.protocol import Busy, Claim, CommitRefused, Committed, Conflict, Duplicate, Exists, Fenced, Taken
from oneslot.runtime.stores.dynamodb import DynamoDBLedger
from oneslot.runtime.stores.expressions import TRANSIENT_ERRORS
from tests.kits.consumer import (
    Bench,
    Failing,
    Intercepted,
    bench,
    cancelled,
    raising,
    service_error,
    slot_item,
    surroundings,
)

LEASE = 30_000


@pytest.fixture
def made() -> Iterator[Bench]:
    with bench(slots=1) as made:
        yield made


def ledger(made: Bench, client: Any = None) -> DynamoDBLedger:
    tables = {"slots": "slots", "appointments": "appointments"}
    return DynamoDBLedger(
        client or made.dynamodb, "ledger", retention_seconds=100, tables=tables, surroundings=surroundings(made.clock)
    )


def claim(made: Bench, message_id: str = "m", payload_hash: str = "h") -> Claim:
    granted = ledger(made).claim(message_id, payload_hash, made.clock() + LEASE)
    assert isinstance(granted, Claim)
    return granted


def effects(made: Bench) -> Effects:
    slot = slot_item(0)
    take = Update(
        "slots", {"practice": slot["practice"], "slot_id": slot["slot_id"]}, {"status": "free"}, {"status": "busy"}
    )
    put = Put("appointments", "appointment_id", {"appointment_id": "m", "status": "booked"})
    return Effects({"outcome": "booked"}, (take,), Once(put, lambda item: {"found": item["status"]}))


def test_the_first_claim_writes_the_row(made: Bench) -> None:
    granted = claim(made)
    assert made.row("m") == {
        "message_id": "m",
        "status": "IN_PROGRESS",
        "consumption_count": 1,
        "updated": made.clock(),
        "lease_until": made.clock() + LEASE,
        "claimed_by": granted.claimed_by,
        "payload_hash": "h",
        "expires_at": (made.clock() + LEASE) // 1000 + 100,
    }
    assert granted == Claim("m", granted.claimed_by, 1, made.clock() + LEASE)


def test_refusal_tells_the_rest_of_the_lease(made: Bench) -> None:
    claim(made)
    made.clock.now += 12_000
    assert ledger(made).claim("m", "h", made.clock() + LEASE) == Busy(18_000)


@pytest.mark.parametrize(("passed", "granted"), [(LEASE - 1, False), (LEASE, False), (LEASE + 1, True)])
def test_a_lease_is_taken_over_only_after_its_end(made: Bench, passed: int, granted: bool) -> None:
    claim(made)
    made.clock.now += passed
    answer = ledger(made).claim("m", "h", made.clock() + LEASE)
    assert isinstance(answer, Claim) is granted
    assert made.row("m")["consumption_count"] == (2 if granted else 1)


def test_a_complete_row_answers_every_claim_with_its_result(made: Bench) -> None:
    first = claim(made)
    ledger(made).commit(first, Effects({"value": 1}))
    made.clock.now += 10 * LEASE
    assert ledger(made).claim("m", "h", made.clock() + LEASE) == Duplicate({"value": 1}, 1, first.claimed_by)


@pytest.mark.parametrize("complete", [True, False])
def test_another_content_is_a_conflict_whatever_the_status(made: Bench, complete: bool) -> None:
    first = claim(made)
    if complete:
        ledger(made).commit(first, Effects({}))
    made.clock.now += LEASE + 1
    before = made.row("m")
    assert ledger(made).claim("m", "other", made.clock() + LEASE) == Conflict()
    assert made.row("m") == before


def test_a_commit_writes_everything_and_takes_the_lease_away(made: Bench) -> None:
    assert ledger(made).commit(claim(made), effects(made)) == Committed({"outcome": "booked"})
    row = made.row("m")
    assert (row["status"], row["result"], "lease_until" in row) == ("COMPLETE", '{"outcome":"booked"}', False)
    assert made.rows("slots")[0]["status"] == "busy"
    assert len(made.rows("appointments")) == 1


def test_a_commit_after_a_takeover_is_fenced_and_writes_nothing(made: Bench) -> None:
    old = claim(made)
    made.clock.now += LEASE + 1
    claim(made)
    before = made.row("m")
    assert ledger(made).commit(old, effects(made)) == Fenced(old)
    assert made.row("m") == before
    assert made.rows("appointments") == []
    assert made.rows("slots")[0]["status"] == "free"


def test_a_commit_after_the_winners_commit_gets_its_answer(made: Bench) -> None:
    old = claim(made)
    made.clock.now += LEASE + 1
    new = claim(made)
    ledger(made).commit(new, Effects({"value": "theirs"}))
    assert ledger(made).commit(old, effects(made)) == Duplicate({"value": "theirs"}, 2, new.claimed_by)


def test_a_commit_whose_row_has_gone_is_fenced(made: Bench) -> None:
    old = claim(made)
    made.dynamodb.delete_item(TableName="ledger", Key={"message_id": {"S": "m"}})
    assert ledger(made).commit(old, effects(made)) == Fenced(old)


def test_a_taken_slot_means_decide_again(made: Bench) -> None:
    mine = claim(made)
    slot = slot_item(0)
    made.dynamodb.update_item(
        TableName="slots",
        Key={"practice": {"S": slot["practice"]}, "slot_id": {"S": slot["slot_id"]}},
        UpdateExpression="SET #status = :busy",
        ExpressionAttributeNames={"#status": "status"},
        ExpressionAttributeValues={":busy": {"S": "busy"}},
    )
    assert ledger(made).commit(mine, effects(made)) == Taken()
    assert made.row("m")["status"] == "IN_PROGRESS"


def test_an_effect_that_is_there_already_is_found(made: Bench) -> None:
    mine = claim(made)
    made.dynamodb.put_item(TableName="appointments", Item={"appointment_id": {"S": "m"}, "status": {"S": "cancelled"}})
    assert ledger(made).commit(mine, effects(made)) == Exists({"appointment_id": "m", "status": "cancelled"})
    assert made.rows("slots")[0]["status"] == "free"


def test_a_release_ends_the_lease_and_keeps_the_row(made: Bench) -> None:
    mine = claim(made)
    assert ledger(made).release(mine) is True
    row = made.row("m")
    assert (row["lease_until"], row["consumption_count"], row["status"]) == (0, 1, "IN_PROGRESS")
    assert isinstance(ledger(made).claim("m", "h", made.clock() + LEASE), Claim)


def test_a_release_after_a_takeover_or_a_commit_changes_nothing(made: Bench) -> None:
    old = claim(made)
    made.clock.now += LEASE + 1
    new = claim(made)
    before = made.row("m")
    assert ledger(made).release(old) is False
    assert made.row("m") == before
    ledger(made).commit(new, Effects({}))
    assert ledger(made).release(new) is False
    assert made.row("m")["status"] == "COMPLETE"


TRANSIENT = [
    "TransactionConflictException",
    "ThrottlingException",
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
    "InternalServerError",
    "ServiceUnavailable",
]


@pytest.mark.parametrize("code", TRANSIENT)
@pytest.mark.parametrize("call", ["update_item", "transact_write_items"])
def test_a_transient_error_is_met_in_place(made: Bench, call: str, code: str) -> None:
    client = Intercepted(made.dynamodb, before={call: raising(service_error(code))})
    patient = ledger(made, client)
    mine = patient.claim("m", "h", made.clock() + LEASE)
    assert isinstance(mine, Claim)
    assert patient.commit(mine, effects(made)) == Committed({"outcome": "booked"})
    assert client.calls.count(call) == 2


@pytest.mark.parametrize(
    "codes",
    [
        ("None", "TransactionConflict", "None"),
        ("ThrottlingError", "None", "None"),
        ("None", "None", "ProvisionedThroughputExceeded"),
        ("TransactionConflict", "ThrottlingError", "None"),
    ],
)
def test_transient_cancellation_is_retried_in_place(made: Bench, codes: tuple[str, ...]) -> None:
    client = Intercepted(made.dynamodb, before={"transact_write_items": raising(cancelled(*codes))})
    assert ledger(made, client).commit(claim(made), effects(made)) == Committed({"outcome": "booked"})


@pytest.mark.parametrize(
    "codes",
    [
        ("None", "ValidationError", "None"),
        ("ItemCollectionSizeLimitExceeded", "None", "ThrottlingError"),
        ("None", "None", "None"),
        ("None",),
    ],
)
def test_permanent_cancellation_raises_its_reason(made: Bench, codes: tuple[str, ...]) -> None:
    client = Intercepted(made.dynamodb, before={"transact_write_items": raising(cancelled(*codes))})
    with pytest.raises(CommitRefused, match=next((code for code in codes if code != "None"), "reason")):
        ledger(made, client).commit(claim(made), effects(made))


def test_patience_ends_with_the_lease(made: Bench) -> None:
    client = Failing(service_error("ThrottlingException"))
    deadline = made.clock() + LEASE
    with pytest.raises(ClientError, match="ThrottlingException"):
        ledger(made, client).claim("m", "h", deadline)
    assert client.calls > 10
    assert made.clock() < deadline


def test_retries_end_with_the_lease(made: Bench) -> None:
    """Else Lambda ends the invocation before its error is reported, and the whole batch comes back."""

    for verb in ("commit", "release"):
        mine, client = claim(made, verb), Failing(service_error("TransactionConflictException"))
        with pytest.raises(ClientError, match="TransactionConflictException"):
            ledger(made, client).commit(mine, Effects({})) if verb == "commit" else ledger(made, client).release(mine)
        assert client.calls > 10
        assert made.clock() < mine.lease_until - 1_000


@pytest.mark.parametrize(
    "error",
    [
        ReadTimeoutError(endpoint_url="https://dynamodb"),
        EndpointConnectionError(endpoint_url="https://dynamodb"),
        ConnectionClosedError(endpoint_url="https://dynamodb"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_every_step_is_retried_after_a_lost_answer(made: Bench, error: Exception) -> None:
    class Silent:
        """Performs every other call, and answers none of the first three."""

        calls = 0

        def __getattr__(self, name: str) -> Any:
            def call(**request: Any) -> Any:
                self.calls += 1
                answer = getattr(made.dynamodb, name)(**request) if self.calls % 2 == 0 or self.calls > 3 else None
                if self.calls <= 3:
                    raise error
                return answer

            return call

    mine = ledger(made, Silent()).claim("m", "h", made.clock() + LEASE)
    assert isinstance(mine, Claim)
    assert mine.consumption_count == 1
    assert ledger(made, Silent()).commit(mine, effects(made)) == Committed(effects(made).result)
    other = ledger(made, Silent()).claim("n", "h", made.clock() + LEASE)
    assert isinstance(other, Claim)
    assert ledger(made, Silent()).release(other)


def test_patience_without_an_answer_ends_with_the_lease(made: Bench) -> None:
    client, deadline = Failing(EndpointConnectionError(endpoint_url="https://dynamodb")), made.clock() + LEASE
    with pytest.raises(EndpointConnectionError):
        ledger(made, client).claim("m", "h", deadline)
    assert client.calls > 10
    assert made.clock() < deadline


def test_retried_commit_carries_the_same_token(made: Bench) -> None:
    tokens: list[str] = []

    class Recording:
        def transact_write_items(self, **request: Any) -> Any:
            tokens.append(request["ClientRequestToken"])
            if len(tokens) == 1:
                raise service_error("TransactionInProgressException")
            return {}

    recording = ledger(made, Recording())
    mine = claim(made)
    recording.commit(mine, Effects({}))
    recording.commit(mine, Effects({}))
    assert tokens[0] == tokens[1] != tokens[2]


def test_effects_beyond_one_transaction_are_refused(made: Bench) -> None:
    client = Intercepted(made.dynamodb)
    writes = tuple(Put("appointments", "appointment_id", {"appointment_id": str(number)}) for number in range(100))
    with pytest.raises(InvalidEffects, match="100 writes, more than 99"):
        ledger(made, client).commit(claim(made), Effects({}, writes))
    assert client.calls == []


def test_unknown_error_is_raised_unchanged(made: Bench) -> None:
    client = Intercepted(made.dynamodb, before={"update_item": raising(service_error("AccessDeniedException"))})
    with pytest.raises(ClientError, match="AccessDenied"):
        ledger(made, client).claim("m", "h", made.clock() + LEASE)
    mine = claim(made)
    refusing = Intercepted(made.dynamodb, before={"update_item": raising(service_error("AccessDeniedException"))})
    with pytest.raises(ClientError, match="AccessDenied"):
        ledger(made, refusing).release(mine)


def test_a_commit_says_when_and_lets_the_row_live_on_from_then(made: Bench) -> None:
    mine = claim(made)
    made.clock.now += 5_000
    ledger(made).commit(mine, Effects({}))
    row = made.row("m")
    assert (row["updated"], row["expires_at"]) == (made.clock(), made.clock() // 1000 + 100)


def test_tables_must_not_name_the_ledger(made: Bench) -> None:
    with pytest.raises(ValueError, match='"ledger" in `tables`'):
        DynamoDBLedger(made.dynamodb, "ledger", retention_seconds=None, tables={"ledger": "mine"})


def test_row_without_retention_loses_its_expiry(made: Bench) -> None:
    for_ever = DynamoDBLedger(made.dynamodb, "ledger", retention_seconds=None, surroundings=surroundings(made.clock))
    claim(made)
    made.clock.now += LEASE + 1
    taken_over = for_ever.claim("m", "h", made.clock() + LEASE)
    assert isinstance(taken_over, Claim)
    assert "expires_at" not in made.row("m")
    assert for_ever.extend(taken_over, made.clock() + 2 * LEASE)
    assert "expires_at" not in made.row("m")

    claim(made, "n")
    made.clock.now += 1
    kept = claim(made, "o")
    for_ever.commit(kept, Effects({}))
    assert "expires_at" not in made.row("o")
    assert "lease_until" not in made.row("o")


def test_lease_is_extended_by_its_owner_until_released(made: Bench) -> None:
    mine = claim(made)
    assert ledger(made).extend(mine, made.clock() + 2 * LEASE) is True
    assert made.row("m")["lease_until"] == made.clock() + 2 * LEASE
    ledger(made).release(mine)
    assert ledger(made).extend(mine, made.clock() + LEASE) is False
    assert made.row("m")["lease_until"] == 0


def test_all_transient_reasons_at_once_are_transient(made: Bench) -> None:
    codes = sorted(TRANSIENT_ERRORS)
    writes = tuple(Put("appointments", "appointment_id", {"appointment_id": str(n)}) for n in range(len(codes) - 1))
    client = Intercepted(made.dynamodb, before={"transact_write_items": raising(cancelled(*codes))})
    assert ledger(made, client).commit(claim(made), Effects({}, writes)) == Committed({})
