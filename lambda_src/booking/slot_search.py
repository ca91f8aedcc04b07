"""The reads that a decision needs, and the decision over them: this is where the domain meets DynamoDB."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from appointments import allocation
from appointments.messages import BookRequest, Request
from appointments.slot_choice import FREE_SLOTS_INDEX, choose, free_key_range
from oneslot.runtime.effects import Effects, Unprocessable
from oneslot.runtime.stores.expressions import DynamoDB, from_attributes

AskTogether = Callable[[Sequence[Mapping[str, Any]]], Sequence[Mapping[str, Any] | None]]
"""Several queries → the answer of each in the same order, or None for one that the client must be asked."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """The slots and appointments tables, read consistently: a slot that this shows free was free a moment ago.

    `candidate_slots` is how many of the earliest suitable slots a request chooses among. `executor` is where the reads of
    `decide_together` run beside its own thread's; None for one after the other. `queries_together` asks several queries at
    once; None for asking the client only.
    """

    client: DynamoDB
    slots_table: str
    appointments_table: str
    candidate_slots: int
    now_ms: Callable[[], int]
    executor: Executor | None = None
    queries_together: AskTogether | None = None

    def decide(self, request: Request) -> Effects:
        """Read what the request needs, and decide.

        Raises `Unprocessable` for a practice that has no slots at all (`unknown_practice`), unless the request was
        answered or cancelled before: then it keeps its answer; and for one under whose id another content was answered
        (`conflict`).
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
        """Decide several requests; those of one practice for one kind of slot share a read, and no slot is taken twice.

        None: decide that one by itself, after the others. So it is where `decide` would raise or quarantine, and where the
        last suitable slots go to others of these requests, who may not get them in the end.
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

        def decide_alike(positions: list[int], free: list[str] | None) -> None:
            chosen = self._decide_alike([requests[position] for position in positions], now, free)
            for position, effect in zip(positions, chosen, strict=True):
                effects[position] = effect

        kinds = list(alike.values())
        free_keys = self._read_together([[requests[position] for position in positions] for positions in kinds], now)
        # Where free slots were read nothing more is.
        decidable = [one for one in zip(kinds, free_keys, strict=True) if one[1]]
        reading = [one for one in zip(kinds, free_keys, strict=True) if not one[1]]
        # One in this thread, which would only wait otherwise.
        others = [self.executor.submit(decide_alike, *one) for one in reading[1:]] if self.executor else []
        for one in [*decidable, *(reading[:1] if self.executor else reading)]:
            decide_alike(*one)
        for other in others:
            other.result()
        return effects

    def _read_together(self, kinds: Sequence[Sequence[Request]], now: datetime) -> list[list[str] | None]:
        """The free slots for each kind of requests, as far as they can be asked for together; None: they were not read."""
        free: list[list[str] | None] = [None] * len(kinds)
        if self.queries_together:
            searches = [self._search(_open_bookings(kind, now), now) for kind in kinds]
            places = [place for place, query in enumerate(searches) if query]
            answers = self.queries_together([query for query in searches if query])
            for place, answer in zip(places, answers, strict=True):
                free[place] = None if answer is None else _free_keys(answer)
        return free

    def _decide_alike(
        self, requests: Sequence[Request], now: datetime, free: list[str] | None = None
    ) -> Iterable[Effects | None]:
        bookings = _open_bookings(requests, now)
        if not bookings:
            try:
                return [self.decide(one) for one in requests]
            except Unprocessable:
                return [None for _ in requests]
        if free is None:
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
        """The query for the first free slots of all their windows, which are of one practice and kind; None: there is none."""
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
            # It says all that is needed. Each attribute more in the answer is CPU: botocore parses it.
            "ProjectionExpression": "free_key",
            "Limit": self._wanted(bookings),
        }

    def _wanted(self, bookings: Sequence[BookRequest]) -> int:
        return self.candidate_slots + len(bookings) - 1

    def _free_keys(self, query: Mapping[str, Any] | None) -> list[str]:
        return _free_keys(self.client.query(**query)) if query else []

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


def _open_bookings(requests: Sequence[Request], now: datetime) -> list[BookRequest]:
    return [one for one in requests if isinstance(one, BookRequest) and one.not_after > now]


def _free_keys(answer: Mapping[str, Any]) -> list[str]:
    return [item["free_key"]["S"] for item in answer["Items"]]
