"""What this ledger does with the answers of DynamoDB and of the network, on moto. The contract has what every store does."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError, EndpointConnectionError, ReadTimeoutError

from oneslot.runtime.effects import (
    MAXIMUM_RESULT_BYTES,
    MAXIMUM_WRITES,
    Effects,
    InvalidContent,
    InvalidEffects,
    Once,
    Put,
    Update,
)
from oneslot.runtime.failures import TRANSIENT_ERRORS
from oneslot.runtime.protocol import Claim, CommitRefused, Committed
from oneslot.runtime.stores.dynamodb import DynamoDBLedger
from tests.kits.consumer import Failing, Intercepted, cancelled, raising, service_error, surroundings
from tests.kits.stores import KEY, TABLE, InDynamoDB, in_dynamodb

LEASE = 30_000
EFFECTS = Effects(
    {"outcome": "booked"},
    (Update(TABLE, {KEY: "b"}, {"state": "free"}, {"state": "busy"}),),
    once=Once(Put(TABLE, {KEY: "a"}, key=KEY), dict),
)


@pytest.fixture
def kept() -> Iterator[InDynamoDB]:
    with in_dynamodb() as made:
        made.keep({KEY: "b", "state": "free"})
        yield made


def ledger(kept: InDynamoDB, client: Any = None) -> DynamoDBLedger:
    return DynamoDBLedger(
        client or kept.client,
        "ledger",
        retention_seconds=100,
        tables={TABLE: TABLE},
        surroundings=surroundings(kept.clock),
    )


def claim(kept: InDynamoDB, message_id: str = "m") -> Claim:
    granted = ledger(kept).claim(message_id, "h", kept.clock() + LEASE)
    assert isinstance(granted, Claim)
    return granted


def things(number: int) -> tuple[Put, ...]:
    return tuple(Put(TABLE, {KEY: f"t-{position}"}, key=KEY) for position in range(number))


TRANSIENT = (
    *("TransactionConflictException", "ThrottlingException", "ProvisionedThroughputExceededException"),
    *("RequestLimitExceeded", "InternalServerError", "ServiceUnavailable"),
)
UNANSWERED = (ReadTimeoutError, EndpointConnectionError, ConnectionClosedError)


@pytest.mark.parametrize(
    "error",
    [*map(service_error, TRANSIENT), *(kind(endpoint_url="https://dynamodb") for kind in UNANSWERED)],
    ids=[*TRANSIENT, *(kind.__name__ for kind in UNANSWERED)],
)
def test_every_step_is_retried_when_its_error_is_transient(kept: InDynamoDB, error: Exception) -> None:
    class Silent:
        """Performs every other call, and answers none of the first three."""

        calls = 0

        def __getattr__(self, name: str) -> Any:
            def call(**request: Any) -> Any:
                self.calls += 1
                answer = getattr(kept.client, name)(**request) if self.calls % 2 == 0 or self.calls > 3 else None
                if self.calls <= 3:
                    raise error
                return answer

            return call

    mine = ledger(kept, Silent()).claim("m", "h", kept.clock() + LEASE)
    assert isinstance(mine, Claim)
    assert mine.consumption_count == 1
    assert ledger(kept, Silent()).commit(mine, EFFECTS) == Committed(EFFECTS.result)
    other = ledger(kept, Silent()).claim("n", "h", kept.clock() + LEASE)
    assert isinstance(other, Claim)
    assert ledger(kept, Silent()).release(other)


@pytest.mark.parametrize(
    "codes",
    [
        ("None", "TransactionConflict", "None"),
        ("ThrottlingError", "None", "None"),
        ("None", "None", "ProvisionedThroughputExceeded"),
        sorted(TRANSIENT_ERRORS),
    ],
)
def test_cancellation_is_retried_when_all_its_reasons_are_transient(kept: InDynamoDB, codes: tuple[str, ...]) -> None:
    client = Intercepted(kept.client, before={"transact_write_items": raising(cancelled(*codes))})
    effects = Effects({}, things(len(codes) - 1))
    assert ledger(kept, client).commit(claim(kept), effects) == Committed({})


@pytest.mark.parametrize(
    ("codes", "error", "text"),
    [
        (("None", "ValidationError", "None"), InvalidContent, r"refuses an update of 'things' \(ValidationError\)"),
        (
            ("ItemCollectionSizeLimitExceeded", "None", "ThrottlingError"),
            CommitRefused,
            r"the ledger's row \(ItemCollectionSizeLimitExceeded\); a put into 'things' \(ThrottlingError\)",
        ),
        (("None", "None", "None"), CommitRefused, "no reason given"),
        (("None",), CommitRefused, "without a reason"),
    ],
)
def test_permanent_cancellation_names_each_write_and_its_reason(
    kept: InDynamoDB, codes: tuple[str, ...], error: type[Exception], text: str
) -> None:
    client = Intercepted(kept.client, before={"transact_write_items": raising(cancelled(*codes))})
    with pytest.raises(error, match=text):
        ledger(kept, client).commit(claim(kept), EFFECTS)


STEPS: dict[str, Callable[[DynamoDBLedger, Claim], object]] = {
    "claim": lambda ledger, mine: ledger.claim("another", "h", mine.lease_until),
    "commit": lambda ledger, mine: ledger.commit(mine, EFFECTS),
    "release": lambda ledger, mine: ledger.release(mine),
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(
    "error",
    [service_error("ThrottlingException"), EndpointConnectionError(endpoint_url="https://dynamodb")],
    ids=["throttled", "unreachable"],
)
def test_retries_end_before_the_lease(kept: InDynamoDB, step: str, error: Exception) -> None:
    """Else Lambda ends the invocation before its error is reported, and the whole batch comes back."""
    mine, client = claim(kept), Failing(error)
    with pytest.raises(type(error)):
        STEPS[step](ledger(kept, client), mine)
    assert client.calls > 10
    assert kept.clock() < mine.lease_until - 1_000


def test_retried_commit_carries_the_same_token(kept: InDynamoDB) -> None:
    tokens: list[str] = []

    class Recording:
        def transact_write_items(self, **request: Any) -> Any:
            tokens.append(request["ClientRequestToken"])
            if len(tokens) == 1:
                raise service_error("TransactionInProgressException")
            return {}

    recording = ledger(kept, Recording())
    mine = claim(kept)
    recording.commit(mine, Effects({}))
    recording.commit(mine, Effects({}))
    assert tokens[0] == tokens[1] != tokens[2]


@pytest.mark.parametrize("step", ["claim", "release"])
def test_unknown_error_is_raised_unchanged(kept: InDynamoDB, step: str) -> None:
    mine = claim(kept)
    client = Intercepted(kept.client, before={"update_item": raising(service_error("AccessDeniedException"))})
    with pytest.raises(ClientError, match="AccessDenied"):
        STEPS[step](ledger(kept, client), mine)
    assert client.calls == ["update_item"]


def test_as_many_writes_as_a_transaction_holds_are_committed(kept: InDynamoDB) -> None:
    assert ledger(kept).commit(claim(kept), Effects({}, things(MAXIMUM_WRITES))) == Committed({})
    assert kept.thing(f"t-{MAXIMUM_WRITES - 1}")


def test_row_fits_into_an_item_when_its_parts_are_the_largest(kept: InDynamoDB) -> None:
    """400 KB with all names and values, which moto does not count; a key has 2,048 bytes at most."""
    kept.clock.now = 2**53
    mine = ledger(kept).claim("m" * 2_048, "h" * 1_024, kept.clock() + LEASE)
    assert isinstance(mine, Claim)
    text = "x" * (MAXIMUM_RESULT_BYTES - len('{"text":"\\u00e9"}')) + "é"
    with pytest.raises(InvalidEffects, match="390000"):
        ledger(kept).commit(mine, Effects({"text": f"x{text}"}))
    assert ledger(kept).commit(mine, Effects({"text": text})) == Committed({"text": text})
    (row,) = kept.client.scan(TableName="ledger")["Items"]
    assert len(row["result"]["S"]) == MAXIMUM_RESULT_BYTES
    size = sum(len(name.encode()) + len(str(value).encode()) for name, item in row.items() for value in item.values())
    assert size < 400 * 1024


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"retention_seconds": None, "tables": {"ledger": "mine"}}, '"ledger" in `tables`'),
        ({"retention_seconds": 0}, "from 1 second to 100 years, not 0; None keeps rows for ever"),
    ],
)
def test_ledger_is_refused_when_an_option_is_invalid(kept: InDynamoDB, options: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        DynamoDBLedger(kept.client, "ledger", **options)
