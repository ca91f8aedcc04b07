"""The slot search: the reads that a decision needs, and the decision over them. Here the domain meets DynamoDB."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from appointments import allocation
from appointments.messages import BookRequest, Request
from appointments.slot_choice import FREE_SLOTS_INDEX, choose, free_key_range
from oneslot.runtime.effects import Effects, Unprocessable
from oneslot.runtime.stores.expressions import DynamoDB, from_attributes
from oneslot.runtime.surroundings import Executor


@dataclass(frozen=True, slots=True)
class SlotSearch:
    """The slots and appointments tables, read consistently: a slot that a search finds free was free a moment ago.

    Attributes:
        candidate_slots: the number of earliest suitable slots that a request chooses among.
        executor: runs the reads of `decide_together` beside its own thread's; None for one after the other.
    """

    client: DynamoDB
    slots_table: str
    appointments_table: str
    candidate_slots: int
    now_ms: Callable[[], int]
    executor: Executor | None = None

    def decide(self, request: Request) -> Effects:
        """Read what the request needs, and decide.

        Raises:
            Unprocessable: `unknown_practice` for a practice without any slot, unless the request was answered before;
                `conflict` if another content was answered under its id.
        """
        now = datetime.fromtimestamp(self.now_ms() / 1000, UTC)
        if not isinstance(request, BookRequest):
            return allocation.cancel(request, self._appointment(request.appointment_id), now)
        if request.not_after <= now:
            return allocation.window_passed(request, self._appointment(request.message_id))
        candidates = self._free_keys(self._search([request], now))
        if not candidates and not self._is_known(request.practice):
            existing = self._appointment(request.message_id)
            if existing is not None:
                return Effects(allocation.answer_again(request, existing))
            raise Unprocessable("unknown_practice", "practice has no slots here; check its ODS code, or seed its slots")
        return allocation.book(request, candidates, now)

    def decide_together(self, requests: Sequence[Request]) -> list[Effects | None]:
        """Decide several requests. Those of one practice for one kind of slot share a read, and no slot is taken twice.

        None stands for "decide this one alone, after the others": where `decide` would raise, and where the last suitable
        slots go to other requests, which may not get them in the end.
        """
        now = datetime.fromtimestamp(self.now_ms() / 1000, UTC)
        alike: dict[tuple[str, ...], list[int]] = {}
        for position, request in enumerate(requests):
            if isinstance(request, BookRequest) and request.not_after > now:
                kind: tuple[str, ...] = (request.practice, request.delivery_channel, request.service_type)
            else:
                kind = (request.message_id,)
            alike.setdefault(kind, []).append(position)
        effects: list[Effects | None] = [None] * len(requests)

        def decide_alike(positions: Sequence[int]) -> None:
            decided = self._decide_alike([requests[position] for position in positions], now)
            for position, effect in zip(positions, decided, strict=True):
                effects[position] = effect

        groups = list(alike.values())
        # One group in this thread, which would only wait otherwise.
        others = [self.executor.submit(decide_alike, group) for group in groups[1:]] if self.executor else []
        for group in groups[:1] if self.executor else groups:
            decide_alike(group)
        for other in others:
            other.result()
        return effects

    def _decide_alike(self, requests: Sequence[Request], now: datetime) -> Iterable[Effects | None]:
        bookings = [one for one in requests if isinstance(one, BookRequest) and one.not_after > now]
        if not bookings:
            try:
                return [self.decide(one) for one in requests]
            except Unprocessable:
                return [None for _ in requests]
        free = self._free_keys(self._search(bookings, now))
        known = bool(free) or self._is_known(bookings[0].practice)
        ranges = [free_key_range(booking, now) for booking in bookings]
        wanted = self._wanted(bookings)
        taken: set[str] = set()
        effects: list[Effects | None] = []
        for booking, (low, high) in zip(bookings, ranges, strict=True):
            suitable = [key for key in free if low <= key < high]
            candidates = [key for key in suitable if key not in taken][: self.candidate_slots]
            if candidates:
                chosen = choose(booking, candidates)
                taken.add(chosen)
                effects.append(allocation.book(booking, [chosen], now))
            elif known and not suitable and len(free) < wanted:
                effects.append(allocation.book(booking, [], now))
            else:  # the suitable ones go to others, or were not read
                effects.append(None)
        return effects

    def _search(self, bookings: Sequence[BookRequest], now: datetime) -> dict[str, Any] | None:
        """Return the query for the first free slots in all windows, of one practice and kind; None if no window is open."""
        ranges = [free_key_range(booking, now) for booking in bookings]
        first, last = min((low for low, _ in ranges), default=""), max((high for _, high in ranges), default="")
        if first >= last:
            return None
        return {
            "TableName": self.slots_table,
            "IndexName": FREE_SLOTS_INDEX,
            "ConsistentRead": True,
            "KeyConditionExpression": "practice = :practice AND free_key BETWEEN :first AND :last",
            "ExpressionAttributeValues": {
                ":practice": {"S": bookings[0].practice},
                ":first": {"S": first},
                ":last": {"S": last},
            },
            # The key says all that is needed. Each further attribute costs CPU: botocore parses it.
            "ProjectionExpression": "free_key",
            "Limit": self._wanted(bookings),
        }

    def _wanted(self, bookings: Sequence[BookRequest]) -> int:
        return self.candidate_slots + len(bookings) - 1

    def _free_keys(self, query: Mapping[str, Any] | None) -> list[str]:
        return [item["free_key"]["S"] for item in self.client.query(**query)["Items"]] if query else []

    def _is_known(self, practice: str) -> bool:
        answer = self.client.query(
            TableName=self.slots_table,
            ConsistentRead=True,
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
