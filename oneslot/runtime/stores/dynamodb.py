"""The ledger in DynamoDB: each step of the protocol is one conditional write.

A failed conditional write returns the row, so no refusal needs a read. Every step is idempotent, so each is retried in place
after a transient error and after a lost answer.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol, TypeVar

from oneslot.runtime.effects import LEDGER, Effects, InvalidContent, Item, describe
from oneslot.runtime.failures import (
    CONDITION_FAILED,
    TRANSIENT_ERRORS,
    cancellation_reasons,
    error_code,
    found_item,
    is_transient,
    refusal,
    refusal_of,
)
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
    taken,
)
from oneslot.runtime.stores.limits import LONGEST_PARTITION_KEY, declared_keys, declared_types, require_retention
from oneslot.runtime.stores.transaction import Transaction, compiled
from oneslot.runtime.surroundings import Backoff, Surroundings, retry
from oneslot.runtime.values import from_attributes, to_attributes

T = TypeVar("T")

_EXPIRY = ", expires_at = :expires_at"


class DynamoDB(Protocol):
    """The calls of a DynamoDB client that the runtime makes. As properties, they fit boto3's client and its typed stubs."""

    @property
    def update_item(self) -> Callable[..., Any]:
        """Change one item under a condition."""

    @property
    def transact_write_items(self) -> Callable[..., Any]:
        """Change several items under conditions, all or none."""

    @property
    def get_item(self) -> Callable[..., Any]:
        """Read one item."""

    @property
    def batch_get_item(self) -> Callable[..., Any]:
        """Read up to 100 items by their keys."""

    @property
    def query(self) -> Callable[..., Any]:
        """Read the items of one partition."""


def require_identity(message_id: object, payload_hash: object) -> None:
    """Reject an id that cannot be a key: one that is empty, for which all such messages would count as one.

    Raises:
        ValueError: unless the id is text of 1 to 2,048 bytes.
        TypeError: unless the digest is text. A store that keeps texts would call a number's duplicate a conflict.
    """
    if not isinstance(message_id, str) or not message_id:
        raise ValueError("the message id must be text and not empty; raise Unprocessable for a message that has none")
    if len(message_id.encode("utf-8", "surrogatepass")) > LONGEST_PARTITION_KEY:
        raise ValueError(f"the message id has more than {LONGEST_PARTITION_KEY:,} bytes; use a digest of it as the id")
    if not isinstance(payload_hash, str):
        raise TypeError("the digest of the message's content must be text, such as a hexdigest()")


class DynamoDBLedger:
    """The `Store` steps on one table.

    Args:
        tables: logical table names in `Effects` → real ones. "ledger" is the ledger's own: ValueError.
        keys: the key of each table by its logical name: the partition key's attribute, or with a sort key both names. With
            types, as `customer:S,line:N;email:S`, where those behind `;` are in keys of indexes, wrong values are refused.
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
        self.keys, self.key_types = declared_keys(keys), declared_types(keys)
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

        def write(now: int) -> Claim | Duplicate | Busy | Conflict:
            expiry = self.expiry(max(now, lease_until))
            granted, row = self.update_row(
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

        return self._retried(write, lease_until, self.surroundings.now_ms())

    def commit(self, claim: Claim, effects: Effects) -> Committed | Duplicate | Exists | Fenced | Taken:
        """Complete the row and perform all effects in one transaction, or say why not.

        Raises:
            InvalidEffects: before anything is sent, as `checked` says.
            CommitRefused: for a cancellation that is neither an answer nor transient.
        """
        # One token for all attempts: a lost answer is given again, and nothing is performed twice.
        now, token = self.surroundings.now_ms(), self.surroundings.new_id()
        row, transaction = self.completed(claim.message_id, effects, now)
        committed = Committed(transaction.result)
        items = [{"Update": self._completion(claim, row)}, *transaction.items]

        def write(_: int) -> Committed | Duplicate | Exists | Fenced | Taken:
            try:
                self.client.transact_write_items(TransactItems=items, ClientRequestToken=token)
            except Exception as error:
                if error_code(error) == "ValidationException" and effects.all_writes:
                    writes = ", ".join(dict.fromkeys(map(describe, effects.all_writes)))
                    raise InvalidContent(f"DynamoDB refuses {writes} {refusal_of(error)}") from error
                if error_code(error) != "TransactionCanceledException":
                    raise
                return _explain(error, claim, effects)
            return committed

        return self._retried(write, claim.lease_until, now)

    def release(self, claim: Claim) -> bool:
        """End the lease now, after an exception; the row and its count stay. False if the claim was lost."""
        return self._set_lease(claim, 0)

    def extend(self, claim: Claim, lease_until: int) -> bool:
        """Hold the claim until `lease_until` (epoch ms) at least; it never shortens a lease. False if the claim was lost."""
        return self._set_lease(claim, lease_until, " AND lease_until BETWEEN :least AND :ended")

    def completed(self, message_id: str, effects: Effects, now: int) -> tuple[dict[str, Any], Transaction]:
        """Return what a commit sets in the row, in typed values, and the writes.

        A row that holds sends does not expire before the relay has marked them as sent.

        Raises:
            InvalidEffects: if the effects cannot be committed.
        """
        transaction = compiled(
            effects,
            self.tables,
            self.keys,
            types=self.key_types,
            sends=self.sends,
            ledger=self.table_name,
            message_id=message_id,
            for_ever=self._retention_seconds is None,
        )
        row = {"status": {"S": COMPLETE}, "updated": {"N": str(now)}}
        for name, text in transaction.recorded.items():
            row[name] = {"S": text}
        if effects.sends:
            row[UNSENT] = {"N": str(len(effects.sends))}
            if self.sender:
                row[SENDER] = {"S": self.sender}
        elif self._retention_seconds is not None:
            row["expires_at"] = {"N": str(now // 1000 + self._retention_seconds)}
        return row, transaction

    def _completion(self, claim: Claim, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return the request that completes the row, if the claim still holds it."""
        sets, values = "", {":in_progress": {"S": IN_PROGRESS}, ":owner": {"S": claim.claimed_by}}
        for name, value in row.items():
            sets += f"{', ' if sets else ''}#{name} = :{name}"
            values[f":{name}"] = value
        return {
            "TableName": self.table_name,
            "Key": {"message_id": {"S": claim.message_id}},
            "ConditionExpression": "#status = :in_progress AND claimed_by = :owner",
            "UpdateExpression": f"SET {sets} REMOVE lease_until{'' if 'expires_at' in row else ', expires_at'}",
            "ExpressionAttributeNames": dict(zip(map("#".__add__, row), row, strict=True)),
            "ExpressionAttributeValues": values,
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }

    def expiry(self, now_ms: int) -> dict[str, int]:
        """Return the time to live of a row that changes now, `expires_at` (epoch s); empty where rows are kept for ever."""
        return {} if self._retention_seconds is None else {"expires_at": now_ms // 1000 + self._retention_seconds}

    def _set_lease(self, claim: Claim, lease_until: int, only_longer: str = "") -> bool:
        def write(now: int) -> bool:
            # A row must not expire under its lease, however often that is extended.
            expiry = self.expiry(max(now, lease_until))
            ours, row = self.update_row(
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

        return self._retried(write, claim.lease_until, self.surroundings.now_ms())

    def update_row(
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

    def _retried(self, write: Callable[[int], T], deadline: int, started: int) -> T:
        """Call `write` with the time of the call (epoch ms), and again after each transient error while there is time."""
        try:
            return write(started)
        except Exception as error:
            backoff = Backoff(self.surroundings, deadline, started)
            return retry(lambda: write(self.surroundings.now_ms()), error, is_transient, backoff)


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
    named = [each for each in zip(effects.all_writes, writes, strict=True) if each[1]["Code"] != "None"]
    if CONDITION_FAILED in codes:
        failed = [each for each in named if each[1]["Code"] == CONDITION_FAILED]
        return taken([(write, partial(from_attributes, reason.get("Item", {}))) for write, reason in failed])
    if codes and codes <= TRANSIENT_ERRORS:
        first = {"Error": {"Code": sorted(codes)[0], "Message": "transaction cancelled"}}
        raise type(error)(first, "TransactWriteItems")  # of the client's own class
    refused = [("the ledger's row", ledger)] * (ledger["Code"] != "None") + [(describe(one), why) for one, why in named]
    whys = "; ".join(f"{what} {refusal(why)}" for what, why in refused)
    if "ValidationError" in codes:  # no delivery of the message can succeed
        raise InvalidContent(f"DynamoDB refuses {whys}; correct the sender, or the decision") from error
    raise CommitRefused(f"transaction cancelled: {whys or 'no reason given'}") from error
