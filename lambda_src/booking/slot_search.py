"""The slot search: the reads that a decision needs, and the decision over them. Here the domain meets DynamoDB."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeGuard

from appointments import allocation
from appointments.allocation import APPOINTMENTS, FREE_SLOTS_INDEX, SLOTS, choose, free_key_range
from appointments.messages import BookRequest, Request
from oneslot.runtime.effects import Effects, Unprocessable
from oneslot.runtime.stores.dynamodb import DynamoDBLedger
from oneslot.runtime.surroundings import Executor
from oneslot.runtime.values import from_attributes


@dataclass(frozen=True, slots=True)
class SlotSearch:
    """The slots and appointments tables, read consistently: a slot that a search finds free was free a moment ago.

    Attributes:
        ledger: its client, its tables' names and its clock serve the search, too.
        candidate_slots: the number of earliest suitable slots that a request chooses among.
    """

    ledger: DynamoDBLedger
    candidate_slots: int

    def decide(self, request: Request) -> Effects:
        """Read what the request needs, and decide.

        Raises:
            Unprocessable: `unknown_practice` for a practice without any slot, unless the request was answered before;
                `conflict` if another content was answered under its id.
        """
        now = self._now()
        if not isinstance(request, BookRequest):
            return allocation.cancel(request, self._appointment(request.appointment_id), now)
        if not _wants_slot(request, now):
            return allocation.window_passed(request, self._appointment(request.message_id))
        (booked,) = self._book([request], now)
        if booked is not None:
            return booked
        existing = self._appointment(request.message_id)
        if existing is None:
            raise Unprocessable("unknown_practice", "practice has no slots here; check its ODS code, or seed its slots")
        return Effects(allocation.answer_again(request, existing))

    def decide_together(self, requests: Sequence[Request], executor: Executor | None = None) -> list[Effects | None]:
        """Decide several requests. Those of one practice for one kind of slot share a read, and no slot is taken twice.

        `executor` runs the reads beside this thread's own; None for one after the other.

        None stands for "decide this one alone, after the others": where `decide` would raise, and where the last suitable
        slots go to other requests, which may not get them in the end.
        """
        now = self._now()
        alike: dict[tuple[str, ...], list[int]] = {}
        for position, request in enumerate(requests):
            kind: tuple[str, ...] = (request.message_id,)
            if _wants_slot(request, now):
                kind = (request.practice, request.delivery_channel, request.service_type)
            alike.setdefault(kind, []).append(position)
        effects: list[Effects | None] = [None] * len(requests)

        def decide_alike(positions: Sequence[int]) -> None:
            group = [requests[position] for position in positions]
            bookings = [one for one in group if _wants_slot(one, now)]
            try:
                decided = self._book(bookings, now) if bookings else [self.decide(one) for one in group]
            except Unprocessable:
                return
            for position, effect in zip(positions, decided, strict=True):
                effects[position] = effect

        groups = list(alike.values())
        # One group in this thread, which would only wait otherwise.
        others = [executor.submit(decide_alike, group) for group in groups[1:]] if executor else []
        for group in groups[:1] if executor else groups:
            decide_alike(group)
        for other in others:
            other.result()
        return effects

    def _book(self, bookings: Sequence[BookRequest], now: datetime) -> list[Effects | None]:
        """Decide open bookings of one practice for one kind of slot. None where that needs the others' ends, or a practice."""
        wanted = self.candidate_slots + len(bookings) - 1
        ranges, free = self._search(bookings, now, wanted)
        known = bool(free) or self._is_known(bookings[0].practice)
        taken: set[str] = set()
        effects: list[Effects | None] = []
        for booking, (low, high) in zip(bookings, ranges, strict=True):
            suitable = [key for key in free if low <= key < high]
            candidates = [key for key in suitable if key not in taken][: self.candidate_slots]
            if candidates:
                chosen = choose(booking, candidates)
                taken.add(chosen)
                effects.append(allocation.book(booking, chosen, now))
            elif known and not suitable and len(free) < wanted:
                effects.append(allocation.book(booking, None, now))
            else:  # the suitable ones go to others, or were not read
                effects.append(None)
        return effects

    def _search(
        self, bookings: Sequence[BookRequest], now: datetime, limit: int
    ) -> tuple[list[tuple[str, str]], list[str]]:
        """Return the keys between which each booking's slots lie, and the first free keys in all of these windows."""
        ranges = [free_key_range(booking, now) for booking in bookings]
        first, last = min(low for low, _ in ranges), max(high for _, high in ranges)
        if first >= last:  # no window is open for a whole second
            return ranges, []
        answer = self.ledger.client.query(
            TableName=self.ledger.tables[SLOTS],
            IndexName=FREE_SLOTS_INDEX,
            ConsistentRead=True,
            KeyConditionExpression="practice = :practice AND free_key BETWEEN :first AND :last",
            ExpressionAttributeValues={
                ":practice": {"S": bookings[0].practice},
                ":first": {"S": first},
                ":last": {"S": last},
            },
            # The key says all that is needed. Each further attribute costs CPU: botocore parses it.
            ProjectionExpression="free_key",
            Limit=limit,
        )
        return ranges, [item["free_key"]["S"] for item in answer["Items"]]

    def _is_known(self, practice: str) -> bool:
        answer = self.ledger.client.query(
            TableName=self.ledger.tables[SLOTS],
            ConsistentRead=True,
            KeyConditionExpression="practice = :practice",
            ExpressionAttributeValues={":practice": {"S": practice}},
            Limit=1,
            Select="COUNT",
        )
        return bool(answer["Count"])

    def _appointment(self, appointment_id: str) -> dict[str, Any] | None:
        answer = self.ledger.client.get_item(
            TableName=self.ledger.tables[APPOINTMENTS],
            Key={"appointment_id": {"S": appointment_id}},
            ConsistentRead=True,
        )
        return from_attributes(answer["Item"]) if "Item" in answer else None

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self.ledger.surroundings.now_ms() / 1000, UTC)


def _wants_slot(request: Request, now: datetime) -> TypeGuard[BookRequest]:
    return isinstance(request, BookRequest) and request.not_after > now
