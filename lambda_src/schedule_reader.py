"""The reads that a decision needs, and the decision over them: this is where the domain meets DynamoDB."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from appointments import allocation
from appointments.messages import BookRequest, Request
from appointments.schedule import FREE_SLOTS_INDEX, FreeSlot, free_key_range
from exactly_once.dynamodb import DynamoDB, from_attributes
from exactly_once.effects import Effects, Unprocessable


@dataclass(frozen=True, slots=True)
class Schedule:
    """The slots and appointments tables, read consistently: a slot that this shows free was free a moment ago.

    `candidate_slots` is how many of the earliest suitable slots a request chooses among.
    """

    client: DynamoDB
    slots_table: str
    appointments_table: str
    candidate_slots: int
    now_ms: Callable[[], int]

    def decide(self, request: Request) -> Effects:
        """Read what the request needs, and decide. Raises `Unprocessable` for a practice that has no slots at all."""
        now = datetime.fromtimestamp(self.now_ms() / 1000, UTC)
        if not isinstance(request, BookRequest):
            return allocation.cancel(request, self._appointment(request.appointment_id), now)
        if request.not_after <= now:
            return allocation.window_passed(request, self._appointment(request.message_id))
        candidates = self._free_slots(request, now)
        if not candidates and not self._is_known(request.practice):
            raise Unprocessable("unknown_practice", "practice has no slots here; check its ODS code, or seed its slots")
        return allocation.book(request, candidates, now)

    def _free_slots(self, request: BookRequest, now: datetime) -> list[FreeSlot]:
        first, last = free_key_range(request, now)
        if first >= last:
            return []
        answer = self.client.query(
            TableName=self.slots_table,
            IndexName=FREE_SLOTS_INDEX,
            ConsistentRead=True,
            KeyConditionExpression="practice = :practice AND free_key BETWEEN :first AND :last",
            ExpressionAttributeValues={
                ":practice": {"S": request.practice},
                ":first": {"S": first},
                ":last": {"S": last},
            },
            Limit=self.candidate_slots,
        )
        return [FreeSlot.from_item(from_attributes(item)) for item in answer["Items"]]

    def _is_known(self, practice: str) -> bool:
        answer = self.client.query(
            TableName=self.slots_table,
            KeyConditionExpression="practice = :practice",
            ExpressionAttributeValues={":practice": {"S": practice}},
            Limit=1,
            Select="COUNT",
        )
        return bool(answer["Count"])

    def _appointment(self, appointment_id: str) -> dict[str, Any] | None:
        answer = self.client.get_item(
            TableName=self.appointments_table, Key={"appointment_id": {"S": appointment_id}}, ConsistentRead=True
        )
        return from_attributes(answer["Item"]) if "Item" in answer else None
