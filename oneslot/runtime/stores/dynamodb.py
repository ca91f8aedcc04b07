"""The protocol: claim, commit, release.

    free ──claim──▶ IN_PROGRESS (leased, fenced by `claimed_by`) ──commit──▶ COMPLETE, for ever
                        ▲   │ the lease ends, or release
                        └───┘ claim by another

A claim is one conditional write. A commit is one transaction that completes the ledger's row and performs every effect,
or does nothing at all; so there is no moment at which a crash leaves the one without the other. The fence is a value that
is set, not counted: a claim that lands late, after its own retry, then changes nothing that its owner relies on.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar
from uuid import uuid4

from botocore.exceptions import ClientError, ConnectionError, HTTPClientError  # noqa: A004 - botocore's, wider

from oneslot.runtime.effects import Effects, Item, Result, Update
from oneslot.runtime.stores.expressions import (
    CONDITION_FAILED,
    TRANSIENT_ERRORS,
    DynamoDB,
    cancellation_reasons,
    error_code,
    found_item,
    from_attributes,
    to_attributes,
    transact_item,
)

IN_PROGRESS = "IN_PROGRESS"
COMPLETE = "COMPLETE"

LEDGER = "ledger"
"""The ledger's own table among the logical names, which no decision may write to."""

# A DynamoDB item holds 400 KB (its quota page); the row's other attributes need less than 10 KB.
MAXIMUM_RESULT_BYTES = 390_000
# TransactWriteItems takes 100 items; one is the ledger's row.
MAXIMUM_WRITES = 99

FIRST_BACKOFF_MS = 25
LONGEST_BACKOFF_MS = 1_000
REPORTING_MS = 1_500
"""What is left of a lease for reporting an error: once Lambda ends the invocation, nothing of its batch is reported."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to decide one message until `lease_until` (epoch ms), or until another takes over after it."""

    message_id: str
    claimed_by: str
    consumption_count: int
    lease_until: int


@dataclass(frozen=True, slots=True)
class Duplicate:
    """The message is complete: this is the answer that it got."""

    result: Result
    consumption_count: int
    claimed_by: str


@dataclass(frozen=True, slots=True)
class Busy:
    """Another consumer has the message for this many more milliseconds."""

    milliseconds: int


@dataclass(frozen=True, slots=True)
class Conflict:
    """The ledger knows this message id with another content."""


@dataclass(frozen=True, slots=True)
class Committed:
    """All effects are written and the row is complete, by this claim; `result` is as every duplicate will get it."""

    result: Result


@dataclass(frozen=True, slots=True)
class Fenced:
    """Another consumer took over; nothing of this claim's was written."""

    claim: Claim


@dataclass(frozen=True, slots=True)
class Taken:
    """A condition of the effects no longer holds; nothing was written. Read again and decide again, under the same claim."""


@dataclass(frozen=True, slots=True)
class Exists:
    """The effect had happened before; `item` is what it left."""

    item: Item


class InvalidEffects(ValueError):
    """The decision cannot be committed by anybody, such as one whose result is no JSON; nothing was written."""


class CommitRefused(Exception):
    """DynamoDB cancelled the transaction for reasons that trying again in place does not mend."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the protocol takes from outside: time (epoch ms), fresh random ids, sleep (s) and jitter (0 to 1)."""

    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    new_id: Callable[[], str] = lambda: uuid4().hex
    sleep: Callable[[float], None] = time.sleep
    # The system's: a SnapStart picture would give every environment the same numbers.
    jitter: Callable[[], float] = random.SystemRandom().random


class Patience:
    """Pauses before another attempt, each up to twice as long as the one before, with full jitter, while there is time.

    Time is over `REPORTING_MS` before `deadline` (epoch ms); of a time that is shorter than twice that, half is used.
    """

    def __init__(self, surroundings: Surroundings, deadline: int) -> None:
        self._surroundings = surroundings
        self._end = deadline - max(0, min(REPORTING_MS, (deadline - surroundings.now_ms()) // 2))
        self._ceiling = FIRST_BACKOFF_MS

    def pause(self) -> bool:
        """Sleep. False, at once, if the time would be over then."""
        pause = self._surroundings.jitter() * self._ceiling
        if self._surroundings.now_ms() + pause >= self._end:
            return False
        self._surroundings.sleep(pause / 1000)
        self._ceiling = min(LONGEST_BACKOFF_MS, self._ceiling * 2)
        return True


class Ledger:
    """The ledger table and the three verbs on it, and `extend` for work that is longer than a lease.

    `tables` maps the logical table names in `Effects` to real ones. `retention_seconds` is how long a row outlives its
    last change, and its lease: cleaning only, so it must exceed every retention a copy of the message can wait in. None
    keeps rows for ever: they then have no `expires_at`.

    Raises `ValueError` if `tables` names "ledger": that is the ledger's own.
    """

    def __init__(
        self,
        client: DynamoDB,
        table_name: str,
        *,
        retention_seconds: int | None,
        tables: Mapping[str, str] | None = None,
        surroundings: Surroundings | None = None,
    ) -> None:
        if tables and LEDGER in tables:
            raise ValueError(
                f'"{LEDGER}" in `tables` is the ledger\'s own; call your table by another name in `Effects`'
            )
        self._client = client
        self._table_name = table_name
        self._retention_seconds = retention_seconds
        self._tables = {**(tables or {}), LEDGER: table_name}
        self.surroundings = surroundings or Surroundings()

    def claim(self, message_id: str, payload_hash: str, lease_until: int) -> Claim | Duplicate | Busy | Conflict:
        """Claim the message until `lease_until` (epoch ms), the invocation's own deadline. One write; no read."""
        claimed_by = self.surroundings.new_id()

        def attempt() -> Claim | Duplicate | Busy | Conflict:
            now = self.surroundings.now_ms()
            first = "attribute_not_exists(message_id)"
            lease_ended = "#status = :in_progress AND lease_until < :now AND payload_hash = :payload_hash"
            expires_at = self._expires_at(max(now, lease_until))
            expiry = (
                (" REMOVE expires_at", {})
                if expires_at is None
                else (", expires_at = :expires_at", {":expires_at": expires_at})
            )
            try:
                answer = self._client.update_item(
                    TableName=self._table_name,
                    Key={"message_id": {"S": message_id}},
                    ConditionExpression=f"{first} OR ({lease_ended})",
                    UpdateExpression=(
                        "SET #status = :in_progress, updated = :now, lease_until = :lease_until, claimed_by = :claimed_by,"
                        f" payload_hash = :payload_hash{expiry[0]} ADD consumption_count :one"
                    ),
                    ExpressionAttributeNames={"#status": "status"},
                    ExpressionAttributeValues=to_attributes(
                        {
                            ":in_progress": IN_PROGRESS,
                            ":now": now,
                            ":lease_until": lease_until,
                            ":claimed_by": claimed_by,
                            ":payload_hash": payload_hash,
                            ":one": 1,
                            **expiry[1],
                        }
                    ),
                    ReturnValues="UPDATED_NEW",
                    ReturnValuesOnConditionCheckFailure="ALL_OLD",
                )
            except ClientError as error:
                if error_code(error) != "ConditionalCheckFailedException":
                    raise
                return self._refusal(found_item(error), message_id, claimed_by, payload_hash, now)
            count = from_attributes(answer["Attributes"])["consumption_count"]
            return Claim(message_id, claimed_by, count, lease_until)

        return self._with_patience(attempt, lease_until)

    @staticmethod
    def _refusal(
        row: Item, message_id: str, claimed_by: str, payload_hash: str, now: int
    ) -> Claim | Duplicate | Busy | Conflict:
        if row["payload_hash"] != payload_hash:
            return Conflict()
        if row["status"] == COMPLETE:
            return Duplicate(json.loads(row["result"]), row["consumption_count"], row["claimed_by"])
        if row["claimed_by"] == claimed_by:  # granted before, and the answer was lost: the SDK asked again
            return Claim(message_id, claimed_by, row["consumption_count"], row["lease_until"])
        return Busy(max(0, row["lease_until"] - now))

    def commit(self, claim: Claim, effects: Effects) -> Committed | Duplicate | Exists | Fenced | Taken:
        """Complete the row and perform all effects in one transaction, or learn why not.

        Raises:
            InvalidEffects: before anything is sent, if the effects cannot be committed.
            CommitRefused: for a cancellation that is neither an answer nor transient.
        """
        result = result_text(effects)
        # One token for all attempts: a lost response is answered, not performed again.
        token = self.surroundings.new_id()
        now = self.surroundings.now_ms()
        expires_at = self._expires_at(now)
        complete = Update(
            table=LEDGER,
            key={"message_id": claim.message_id},
            expect={"status": IN_PROGRESS, "claimed_by": claim.claimed_by},
            set={
                "status": COMPLETE,
                "updated": now,
                "result": result,
                **({} if expires_at is None else {"expires_at": expires_at}),
            },
            remove=("lease_until",) if expires_at is not None else ("lease_until", "expires_at"),
        )
        items = [transact_item(write, self._tables) for write in (complete, *effects.all_writes)]

        def attempt() -> Committed | Duplicate | Exists | Fenced | Taken:
            try:
                self._client.transact_write_items(TransactItems=items, ClientRequestToken=token)
            except ClientError as error:
                if error_code(error) != "TransactionCanceledException":
                    raise
                return _explain(error, claim, effects)
            return Committed(json.loads(result))

        return self._with_patience(attempt, claim.lease_until)

    def release(self, claim: Claim) -> bool:
        """Give the claim back now, after an exception; the row and its count stay. False if it is no longer ours."""
        return self._set_lease(claim, 0)

    def extend(self, claim: Claim, lease_until: int) -> bool:
        """Hold the claim until `lease_until` (epoch ms) at least. False if it was released, or is no longer ours.

        Nothing shortens a lease but its release: an extension may land late, behind a longer one.
        """
        return self._set_lease(claim, lease_until, " AND lease_until BETWEEN :least AND :ended", {":least": 1})

    def _set_lease(
        self, claim: Claim, lease_until: int, condition: str = "", values: Mapping[str, int] | None = None
    ) -> bool:
        def attempt() -> bool:
            now = self.surroundings.now_ms()
            # A row must not expire under its lease, however often that is extended.
            expires_at = self._expires_at(max(now, lease_until))
            expiry = ("", {}) if expires_at is None else (", expires_at = :expires_at", {":expires_at": expires_at})
            try:
                self._client.update_item(
                    TableName=self._table_name,
                    Key={"message_id": {"S": claim.message_id}},
                    ConditionExpression=f"#status = :in_progress AND claimed_by = :claimed_by{condition}",
                    UpdateExpression=f"SET lease_until = :ended, updated = :now{expiry[0]}",
                    ExpressionAttributeNames={"#status": "status"},
                    ExpressionAttributeValues=to_attributes(
                        {
                            ":in_progress": IN_PROGRESS,
                            ":claimed_by": claim.claimed_by,
                            ":ended": lease_until,
                            ":now": now,
                            **expiry[1],
                            **(values or {}),
                        }
                    ),
                    ReturnValuesOnConditionCheckFailure="ALL_OLD",
                )
            except ClientError as error:
                if error_code(error) != "ConditionalCheckFailedException":
                    raise
                row = found_item(error)
                return row.get("claimed_by") == claim.claimed_by and 0 < lease_until < row.get("lease_until", 0)
            return True

        return self._with_patience(attempt, claim.lease_until)

    def _expires_at(self, now_ms: int) -> int | None:
        return None if self._retention_seconds is None else now_ms // 1000 + self._retention_seconds

    def _with_patience(self, attempt: Callable[[], T], deadline: int) -> T:
        """Repeat after a transient error or without an answer, as `Patience` has it; then the error is raised."""
        patience = Patience(self.surroundings, deadline)
        while True:
            try:
                return attempt()
            except ClientError as error:
                if error_code(error) not in TRANSIENT_ERRORS or not patience.pause():
                    raise
            except (ConnectionError, HTTPClientError):  # every verb bears it that it was performed
                if not patience.pause():
                    raise


def result_text(effects: Effects) -> str:
    if not isinstance(effects, Effects):
        raise InvalidEffects(f"the decision returned a {type(effects).__name__}; return Effects")
    if not isinstance(effects.result, Mapping) or not all(isinstance(name, str) for name in effects.result):
        raise InvalidEffects('the result must be a mapping with names of text, such as {"outcome": "shipped"}')
    try:
        result = json.dumps(effects.result, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidEffects(
            "the result cannot be written as JSON; return text, numbers, lists and mappings, moderately nested"
        ) from error
    if len(result) > MAXIMUM_RESULT_BYTES:
        raise InvalidEffects(
            f"the result has {len(result)} bytes, more than {MAXIMUM_RESULT_BYTES}; store it elsewhere"
        )
    if len(effects.all_writes) > MAXIMUM_WRITES:
        raise InvalidEffects(f"{len(effects.all_writes)} writes, more than {MAXIMUM_WRITES} in one transaction")
    if any(write.table == LEDGER for write in effects.all_writes):
        raise InvalidEffects(f"a write to {LEDGER!r}, which only the ledger writes; call your table by another name")
    return result


def _explain(error: ClientError, claim: Claim, effects: Effects) -> Committed | Duplicate | Exists | Fenced | Taken:
    """Read EVERY cancellation reason; the ledger's comes first, because it says whether anything else matters."""
    reasons = cancellation_reasons(error)
    if len(reasons) != 1 + len(effects.all_writes):
        raise CommitRefused("transaction cancelled, without a reason for each of its items") from error
    ledger, *writes = reasons
    if ledger["Code"] == CONDITION_FAILED:
        row = from_attributes(ledger.get("Item", {}))
        if row.get("status") != COMPLETE:
            return Fenced(claim)
        result = json.loads(row["result"])
        if row["claimed_by"] == claim.claimed_by:  # our own commit, whose answer was lost
            return Committed(result)
        return Duplicate(result, row["consumption_count"], row["claimed_by"])
    if effects.once is not None and writes[-1]["Code"] == CONDITION_FAILED:
        return Exists(from_attributes(writes[-1]["Item"]))
    codes = {reason["Code"] for reason in (ledger, *writes)} - {"None"}
    if CONDITION_FAILED in codes:
        return Taken()
    if codes and codes <= TRANSIENT_ERRORS:
        raise ClientError(
            {"Error": {"Code": sorted(codes)[0], "Message": "transaction cancelled"}}, "TransactWriteItems"
        )
    raise CommitRefused(f"transaction cancelled: {', '.join(sorted(codes)) or 'no reason given'}") from error
