"""The behaviours that Powertools' tests of idempotency check, restated for `@exactly_once`.

Each row names its upstream test in tests/functional/idempotency/_boto3/test_idempotency.py. Where our layer differs on
purpose, `deviations.py` has the reason, and the row shows our behaviour.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from aws_lambda_powertools.utilities.idempotency.exceptions import IdempotencyKeyError
from botocore.exceptions import ClientError

from oneslot.runtime.effects import Effects
from oneslot.runtime.identity import payload_hash
from oneslot.runtime.powertools import LedgerPersistence, NoClaim, exactly_once
from oneslot.runtime.protocol import Answer, Busy, Conflict, Outcome
from oneslot.runtime.stores.dynamodb import DynamoDBLedger
from tests.kits.consumer import Bench, Intercepted, bench, raising, service_error, surroundings
from tests.lab.powertools.deviations import DEVIATIONS

LEASE_MS = 30_000
RESULT = {"message": "test", "statusCode": 200}


@dataclass(frozen=True)
class Message:
    """A message with an id and a content."""

    message_id: str
    payload_hash: str


class Setting:
    """A decorated function, its number of runs, and its ledger."""

    def __init__(self, made: Bench, **faults: Any) -> None:
        self.made = made
        self.runs = 0
        self.client = Intercepted(made.dynamodb, **faults)
        self.ledger = DynamoDBLedger(
            self.client, "ledger", retention_seconds=3_600, surroundings=surroundings(made.clock)
        )
        self.raises: Exception | None = None
        self.answers: Any = RESULT
        self._wrapped = exactly_once(self.ledger)(self._decide)

    def _decide(self, _message: Message) -> Effects:
        self.runs += 1
        if self.raises is not None:
            raise self.raises
        return Effects(self.answers)

    def call(self, message_id: str = "m", content: str = "h", lease_ms: int = LEASE_MS) -> Outcome:
        return self._wrapped(Message(message_id, content), self.made.clock() + lease_ms)

    @property
    def row(self) -> dict[str, Any]:
        return self.made.row("m")


def completed_gives_the_stored_answer_and_does_not_run(made: Bench) -> None:
    setting = Setting(made)
    first = setting.call()
    again = setting.call()
    assert isinstance(first, Answer)
    assert isinstance(again, Answer)
    assert (first.result, first.duplicate, again.result, again.duplicate) == (RESULT, False, RESULT, True)
    assert setting.runs == 1
    assert setting.client.calls == ["update_item", "transact_write_items", "update_item"]


def in_progress_does_not_run(made: Bench) -> None:
    setting = Setting(made)
    setting.ledger.claim("m", "h", made.clock() + LEASE_MS)
    made.clock.now += 10_000
    assert setting.call() == Busy(20_000)
    assert setting.runs == 0


def in_progress_again_and_again_never_runs_and_is_never_remembered(made: Bench) -> None:
    setting = Setting(made)
    setting.ledger.claim("m", "h", made.clock() + LEASE_MS)
    assert [setting.call(), setting.call(), setting.call()] == [Busy(LEASE_MS)] * 3
    made.clock.now += LEASE_MS + 1
    assert isinstance(setting.call(), Answer)
    assert setting.runs == 1


def a_first_execution_claims_and_completes(made: Bench) -> None:
    setting = Setting(made)
    setting.call()
    assert setting.client.calls == ["update_item", "transact_write_items"]
    assert (setting.row["status"], json.loads(setting.row["result"])) == ("COMPLETE", RESULT)


def an_expired_row_runs_again(made: Bench) -> None:
    setting = Setting(made)
    setting.call()
    made.dynamodb.delete_item(TableName="ledger", Key={"message_id": {"S": "m"}})
    assert isinstance(setting.call(), Answer)
    assert setting.runs == 2  # these effects have no `Once` to find the first run; a booking has one


def time_to_live_alone_forgets_nothing(made: Bench) -> None:
    setting = Setting(made)
    setting.call()
    made.clock.now += 400 * 86_400_000
    again = setting.call()
    assert isinstance(again, Answer)
    assert (again.duplicate, setting.runs) == (True, 1)


def an_exception_releases_and_goes_to_the_caller(made: Bench) -> None:
    setting = Setting(made)
    setting.raises = KeyError("Something went wrong!")
    with pytest.raises(KeyError, match="Something went wrong!"):
        setting.call()
    assert (setting.row["status"], setting.row["lease_until"]) == ("IN_PROGRESS", 0)
    setting.raises = None
    made.clock.now += 1
    assert isinstance(setting.call(), Answer)


def another_payload_under_the_same_key_is_refused(made: Bench) -> None:
    setting = Setting(made)
    setting.call()
    assert setting.call(content="tampered") == Conflict()
    assert setting.runs == 1


def nested_tampering_changes_the_digest(_made: Bench) -> None:
    details = {"id": "r", "details": [{"currency": "Lira", "amount": 100}]}
    tampered = {"id": "r", "details": [{"currency": "Lira", "amount": 10_000}]}
    assert payload_hash(details) != payload_hash(tampered)


def the_order_of_names_does_not_change_the_digest(_made: Bench) -> None:
    assert payload_hash({"a": 1, "b": {"c": 2, "d": 3}}) == payload_hash({"b": {"d": 3, "c": 2}, "a": 1})


def a_failed_release_is_a_note_on_the_error(made: Bench) -> None:
    setting = Setting(made)

    def break_release(_message: Message) -> Effects:
        setting.client._before["update_item"] = raising(service_error("AccessDeniedException"))
        raise ValueError("Something went wrong!")

    wrapped = exactly_once(setting.ledger)(break_release)
    with pytest.raises(ValueError, match="Something went wrong!") as raised:
        wrapped(Message("m", "h"), made.clock() + LEASE_MS)
    assert raised.value.__notes__ == ["ClientError while the claim was released: its lease lasts to its end"]
    assert setting.row["lease_until"] > 0  # and so the lease's own end has to do


def a_failed_commit_says_so_and_writes_nothing(made: Bench) -> None:
    fault = {"transact_write_items": raising(service_error("ValidationException", "TransactWriteItems"))}
    setting = Setting(made, before=fault)
    with pytest.raises(ClientError, match="ValidationException"):
        setting.call()
    assert (setting.row["status"], setting.row["lease_until"]) == ("IN_PROGRESS", 0)


def a_failed_claim_says_so_and_the_function_does_not_run(made: Bench) -> None:
    setting = Setting(made, before={"update_item": raising(service_error("ResourceNotFoundException"))})
    with pytest.raises(ClientError, match="ResourceNotFoundException"):
        setting.call()
    assert setting.runs == 0


def a_refused_claim_reads_nothing(made: Bench) -> None:
    setting = Setting(made)
    setting.call()
    setting.client.calls.clear()
    setting.call()
    assert setting.client.calls == ["update_item"]


def an_ended_lease_is_taken_over_at_once(made: Bench) -> None:
    setting = Setting(made)
    setting.ledger.claim("m", "h", made.clock() + LEASE_MS)
    made.clock.now += LEASE_MS + 1
    setting.client.calls.clear()
    taken = setting.call()
    assert isinstance(taken, Answer)
    assert taken.consumption_count == 2
    assert setting.client.calls == ["update_item", "transact_write_items"]


def a_live_lease_is_respected_to_its_last_millisecond(made: Bench) -> None:
    setting = Setting(made)
    setting.ledger.claim("m", "h", made.clock() + LEASE_MS)
    made.clock.now += LEASE_MS
    assert setting.call() == Busy(0)
    assert setting.runs == 0


def a_missing_key_fails_closed(made: Bench) -> None:
    setting = Setting(made)
    with pytest.raises(IdempotencyKeyError):
        setting.call(message_id="")
    with pytest.raises(IdempotencyKeyError):
        setting.call(content="")
    assert (setting.runs, setting.client.calls) == (0, [])


def falsy_answers_are_answers(made: Bench) -> None:
    setting = Setting(made)
    setting.answers = {}
    setting.call()
    again = setting.call()
    assert isinstance(again, Answer)
    assert (again.result, again.duplicate, setting.runs) == ({}, True, 1)


def two_requests_do_not_share_an_answer(made: Bench) -> None:
    setting = Setting(made)
    setting.call("m")
    setting.call("n")
    assert setting.runs == 2


def the_record_shows_no_expiry(made: Bench) -> None:
    setting = Setting(made)
    setting.call()
    assert "expires_at" in setting.row
    assert not hasattr(LedgerPersistence(setting.ledger, Message("m", "h"), 0), "_cache")


BEHAVIOURS: dict[str, Callable[[Bench], None]] = {
    "test_idempotent_lambda_already_completed": completed_gives_the_stored_answer_and_does_not_run,
    "test_idempotent_lambda_in_progress": in_progress_does_not_run,
    "test_idempotent_lambda_in_progress_with_cache": in_progress_again_and_again_never_runs_and_is_never_remembered,
    "test_idempotent_lambda_first_execution": a_first_execution_claims_and_completes,
    "test_idempotent_lambda_first_execution_cached": completed_gives_the_stored_answer_and_does_not_run,
    "test_idempotent_lambda_expired": an_expired_row_runs_again,
    "test_idempotent_lambda_expired_during_request": time_to_live_alone_forgets_nothing,
    "test_idempotent_lambda_exception": an_exception_releases_and_goes_to_the_caller,
    "test_idempotent_lambda_already_completed_with_validation_bad_payload": another_payload_under_the_same_key_is_refused,
    "test_idempotency_payload_validation_with_tampering_nested_object": nested_tampering_changes_the_digest,
    "test_idempotent_data_sorting": the_order_of_names_does_not_change_the_digest,
    "test_idempotent_persistence_exception_deleting": a_failed_release_is_a_note_on_the_error,
    "test_idempotent_persistence_exception_updating": a_failed_commit_says_so_and_writes_nothing,
    "test_idempotent_lambda_save_inprogress_error": a_failed_claim_says_so_and_the_function_does_not_run,
    "test_idempotent_persistence_exception_getting": a_refused_claim_reads_nothing,
    "test_idempotent_lambda_expires_in_progress_after_expire": an_ended_lease_is_taken_over_at_once,
    "test_idempotent_lambda_expires_in_progress_before_expire": a_live_lease_is_respected_to_its_last_millisecond,
    "test_handler_raise_idempotency_key_error": a_missing_key_fails_closed,
    "test_idempotent_function_duplicates": two_requests_do_not_share_an_answer,
    "test_idempotent_lambda_already_completed_response_hook_is_called_with_none": falsy_answers_are_answers,
    "test_idempotent_lambda_already_completed_response_hook_is_called": the_record_shows_no_expiry,
}
"""Upstream test → our restatement."""


@pytest.mark.parametrize("theirs", BEHAVIOURS)
def test_function_behaves_as_powertools_tests_it(theirs: str) -> None:
    with bench(slots=0) as made:
        BEHAVIOURS[theirs](made)


@pytest.mark.parametrize("value", ["1", "y", "yes", "t", "true", "on"])
def test_function_refuses_to_run_when_idempotency_is_disabled(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Upstream (test_idempotency_enabled_envvar_in_dev_environment), the function runs without protection."""
    monkeypatch.setenv("POWERTOOLS_IDEMPOTENCY_DISABLED", value)
    monkeypatch.setenv("POWERTOOLS_DEV", "true")
    with bench(slots=0) as made:
        setting = Setting(made)
        with (
            pytest.warns(UserWarning, match="Disabling idempotency"),
            pytest.raises(NoClaim, match="POWERTOOLS_IDEMPOTENCY_DISABLED"),
        ):
            setting.call()
        assert (setting.runs, setting.client.calls) == (0, [])


def test_every_deviation_has_a_behaviour() -> None:
    assert set(DEVIATIONS) - {"test_invalid_dynamodb_persistence_layer"} <= set(BEHAVIOURS)
