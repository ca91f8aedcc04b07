"""The ledger in DynamoDB: each step of the protocol is one conditional write.

A failed conditional write returns the row, so no refusal needs a read. Every step is idempotent, so each is retried in place
after a transient error and after a lost answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from oneslot.runtime.backoff import Backoff, retry
from oneslot.runtime.effects import LEDGER, Effects, Item, Update
from oneslot.runtime.protocol import (
    COMPLETE,
    IN_PROGRESS,
    SENDER,
    UNSENT,
    Busy,
    Claim,
    CommitRefused,
    Committed,
    Conflict,
    Duplicate,
    Exists,
    Fenced,
    Taken,
    refused_claim,
    refused_commit,
)
from oneslot.runtime.stores.checks import checked, require_identity, require_retention, taken
from oneslot.runtime.stores.elements import Element, declared_keys, items_of, transact_items
from oneslot.runtime.stores.expressions import (
    CONDITION_FAILED,
    TRANSIENT_ERRORS,
    DynamoDB,
    cancellation_reasons,
    error_code,
    found_item,
    is_transient,
)
from oneslot.runtime.surroundings import Surroundings
from oneslot.runtime.values import from_attributes, from_json, to_attributes

T = TypeVar("T")

_EXPIRY = ", expires_at = :expires_at"


class DynamoDBLedger:
    """The `Store` steps on one table.

    Args:
        tables: logical table names in `Effects` → real ones. "ledger" is the ledger's own: ValueError.
        keys: the key of each table by its logical name: the partition key's attribute, or with a sort key both names.
        sends: logical names in `Send` → queues' URLs, or ARNs of topics and event buses. The table needs a stream, and the
            stream a relay.
        sender: the consumer's name, if several share the table: a relay sends the rows of its own.
        retention_seconds: how long a row outlives its last change and its lease; None for ever. It only cleans: it must
            exceed every retention in which a copy of the message can wait.
    """

    def __init__(
        self,
        client: DynamoDB,
        table_name: str,
        *,
        retention_seconds: int | None,
        tables: Mapping[str, str] | None = None,
        keys: Mapping[str, str | tuple[str, ...]] | None = None,
        sends: Mapping[str, str] | None = None,
        sender: str = "",
        surroundings: Surroundings | None = None,
    ) -> None:
        if sends:
            from oneslot.runtime.sends.outbox import require_targets  # imported by who sends: a cold start is short

            require_targets(sends)
        if tables and LEDGER in tables:
            raise ValueError(f'"{LEDGER}" in `tables` names the ledger\'s own table; give your table another name')
        require_retention(retention_seconds)
        self.client = client
        self.table_name = table_name
        self.tables = {**(tables or {}), LEDGER: table_name}
        self.keys = declared_keys(keys)
        self.sends: Mapping[str, str] | None = dict(sends or {})
        self.sender = sender
        self.surroundings = surroundings or Surroundings()
        self._retention_seconds = None if retention_seconds is None else int(retention_seconds)

    def claim(self, message_id: str, payload_hash: str, lease_until: int) -> Claim | Duplicate | Busy | Conflict:
        """Claim the message until `lease_until` (epoch ms), the invocation's own deadline. One write; no read.

        Raises:
            ValueError: for an id that cannot be a key.
        """
        require_identity(message_id, payload_hash)
        claimed_by = self.surroundings.new_id()
        first = "attribute_not_exists(message_id)"
        lease_ended = "#status = :in_progress AND lease_until < :now AND payload_hash = :payload_hash"

        def write() -> Claim | Duplicate | Busy | Conflict:
            now = self.surroundings.now_ms()
            expiry = self.expiry(max(now, lease_until))
            granted, row = self._update(
                message_id,
                f"{first} OR ({lease_ended})",
                "SET #status = :in_progress, updated = :now, lease_until = :lease_until, claimed_by = :claimed_by,"
                f" payload_hash = :payload_hash{_EXPIRY if expiry else ' REMOVE expires_at'}"
                " ADD consumption_count :one",
                {
                    ":in_progress": IN_PROGRESS,
                    ":now": now,
                    ":lease_until": lease_until,
                    ":claimed_by": claimed_by,
                    ":payload_hash": payload_hash,
                    ":one": 1,
                    ":expires_at": expiry.get("expires_at"),
                },
                ReturnValues="UPDATED_NEW",
            )
            if granted:
                return Claim(message_id, claimed_by, row["consumption_count"], lease_until)
            return refused_claim(row, message_id, claimed_by, payload_hash, now)

        return self._retried(write, lease_until)

    def commit(self, claim: Claim, effects: Effects) -> Committed | Duplicate | Exists | Fenced | Taken:
        """Complete the row and perform all effects in one transaction, or say why not.

        Raises:
            InvalidEffects: before anything is sent, as `checked` says.
            CommitRefused: for a cancellation that is neither an answer nor transient.
        """
        complete_row, elements = self.completed(claim.message_id, effects, self.surroundings.now_ms())
        committed = Committed(from_json(complete_row["result"]))
        # One token for all attempts: a lost answer is given again, and nothing is performed twice.
        token = self.surroundings.new_id()
        complete = Update(
            table=LEDGER,
            key={"message_id": claim.message_id},
            expect={"status": IN_PROGRESS, "claimed_by": claim.claimed_by},
            set=complete_row,
            remove=("lease_until",) if "expires_at" in complete_row else ("lease_until", "expires_at"),
        )
        tables = [self.tables[write.table] for write in effects.all_writes]
        items = transact_items((complete,), self.tables, self.keys) + items_of(elements, tables)

        def write() -> Committed | Duplicate | Exists | Fenced | Taken:
            try:
                self.client.transact_write_items(TransactItems=items, ClientRequestToken=token)
            except Exception as error:
                if error_code(error) != "TransactionCanceledException":
                    raise
                return _explain(error, claim, effects)
            return committed

        return self._retried(write, claim.lease_until)

    def release(self, claim: Claim) -> bool:
        """End the lease now, after an exception; the row and its count stay. False if the claim was lost."""
        return self._set_lease(claim, 0)

    def extend(self, claim: Claim, lease_until: int) -> bool:
        """Hold the claim until `lease_until` (epoch ms) at least; it never shortens a lease. False if the claim was lost."""
        return self._set_lease(claim, lease_until, " AND lease_until BETWEEN :least AND :ended")

    def completed(self, message_id: str, effects: Effects, now: int) -> tuple[dict[str, Any], list[Element]]:
        """Return what a commit sets in the row, and the writes. Raises `InvalidEffects` if they cannot be committed.

        A row that holds sends does not expire before the relay has marked them as sent.
        """
        recorded, elements = checked(
            effects,
            self.tables,
            self.keys,
            sends=self.sends,
            ledger=self.table_name,
            message_id=message_id,
            for_ever=self._retention_seconds is None,
        )
        end: dict[str, Any] = self.expiry(now)
        if effects.sends:
            end = {UNSENT: len(effects.sends), **({SENDER: self.sender} if self.sender else {})}
        return {"status": COMPLETE, "updated": now, **recorded, **end}, elements

    def expiry(self, now_ms: int) -> dict[str, int]:
        """Return the time to live of a row that changes now, `expires_at` (epoch s); empty where rows are kept for ever."""
        return {} if self._retention_seconds is None else {"expires_at": now_ms // 1000 + self._retention_seconds}

    def _set_lease(self, claim: Claim, lease_until: int, only_longer: str = "") -> bool:
        def write() -> bool:
            now = self.surroundings.now_ms()
            # A row must not expire under its lease, however often that is extended.
            expiry = self.expiry(max(now, lease_until))
            ours, row = self._update(
                claim.message_id,
                f"#status = :in_progress AND claimed_by = :claimed_by{only_longer}",
                f"SET lease_until = :ended, updated = :now{_EXPIRY if expiry else ''}",
                {
                    ":in_progress": IN_PROGRESS,
                    ":claimed_by": claim.claimed_by,
                    ":ended": lease_until,
                    ":now": now,
                    ":expires_at": expiry.get("expires_at"),
                    ":least": 1 if only_longer else None,
                },
            )
            longer_already = row.get("claimed_by") == claim.claimed_by and 0 < lease_until < row.get("lease_until", 0)
            return ours or longer_already

        return self._retried(write, claim.lease_until)

    def _update(
        self, message_id: str, condition: str, update: str, values: Mapping[str, Any], **options: str
    ) -> tuple[bool, Item]:
        """Change one row. Return whether the condition held, and the row's new attributes, or else those found."""
        try:
            answer = self.client.update_item(
                TableName=self.table_name,
                Key={"message_id": {"S": message_id}},
                ConditionExpression=condition,
                UpdateExpression=update,
                ExpressionAttributeNames={"#status": "status"},
                ExpressionAttributeValues=to_attributes(
                    {name: value for name, value in values.items() if value is not None}
                ),
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
                **options,
            )
        except Exception as error:
            if error_code(error) != "ConditionalCheckFailedException":
                raise
            return False, found_item(error)
        return True, from_attributes(answer.get("Attributes", {}))

    def _retried(self, write: Callable[[], T], deadline: int) -> T:
        started = self.surroundings.now_ms()
        try:
            return write()
        except Exception as error:
            return retry(write, error, is_transient, Backoff(self.surroundings, deadline, started))


def _explain(error: Exception, claim: Claim, effects: Effects) -> Committed | Duplicate | Exists | Fenced | Taken:
    """Read EVERY cancellation reason; the ledger's comes first, because it says whether the others matter."""
    reasons = cancellation_reasons(error)
    if len(reasons) != 1 + len(effects.all_writes):
        raise CommitRefused("transaction cancelled, without a reason for each of its items") from error
    ledger, *writes = reasons
    if ledger["Code"] == CONDITION_FAILED:
        return refused_commit(from_attributes(ledger.get("Item", {})), claim)
    if effects.once is not None and writes[-1]["Code"] == CONDITION_FAILED:
        return Exists(from_attributes(writes[-1]["Item"]))
    codes = {reason["Code"] for reason in (ledger, *writes)} - {"None"}
    if CONDITION_FAILED in codes:
        failed = [each for each in zip(effects.all_writes, writes, strict=True) if each[1]["Code"] == CONDITION_FAILED]
        return taken([(write, partial(from_attributes, reason.get("Item", {}))) for write, reason in failed])
    if codes and codes <= TRANSIENT_ERRORS:
        first = {"Error": {"Code": sorted(codes)[0], "Message": "transaction cancelled"}}
        raise type(error)(first, "TransactWriteItems")  # of the client's own class
    raise CommitRefused(f"transaction cancelled: {', '.join(sorted(codes)) or 'no reason given'}") from error
