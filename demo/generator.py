"""Generate appointment requests as producers send them: twice, cancelled, out of order, malformed. Repeatable by seed."""

import heapq
import json
import random
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from appointments.messages import DELIVERY_CHANNELS
from demo.errors import SlotsOver
from demo.plan import (
    CHANNEL_WEIGHTS,
    LOCAL_TIME,
    SERVICE_TYPES,
    SERVICE_WEIGHTS,
    Plan,
    opening_hours,
    synthetic_nhs_number,
)
from oneslot.errors import InvalidArguments
from oneslot.operator.sending.messages import MALFORMED, Archived, RequestCopy
from oneslot.runtime.effects import Unprocessable
from oneslot.runtime.record import IDENTITY_ATTRIBUTE, parse_body, payload_hash
from oneslot.wording import numbered

# A re-send follows its original within this many messages; a cancellation comes as near, before or after its booking.
HORIZON = 200
CANCELLED_BEFORE_BOOKED = 0.2  # of the cancellations
IDENTITY_IN_ATTRIBUTE_ONLY = 0.05  # of the bookings
LATE = 0.005  # of the bookings: they ask for a past time, so the consumer must refuse them
Body = dict[str, Any]


def _wrong_nhs_number(number: str) -> str:
    return number[:9] + str((int(number[9]) + 1) % 10)


MALFORMATIONS: Mapping[str, Callable[[Body], str]] = {
    "not_json": lambda body: json.dumps(body)[:-1],
    "missing_message_id": lambda body: json.dumps({name: body[name] for name in body if name != "message_id"}),
    "invalid_message_id": lambda body: json.dumps({**body, "message_id": body["nhs_number"]}),
    "invalid_field": lambda body: json.dumps({**body, "nhs_number": _wrong_nhs_number(body["nhs_number"])}),
    "unknown_type": lambda body: json.dumps({**body, "type": "reschedule"}),
    "unknown_practice": lambda body: json.dumps({**body, "practice": "ZZZ999"}),  # valid, and never seeded
    "conflict": lambda body: json.dumps({**body, "service_type": "Other content under a used id"}),
}
"""The reason for which the consumer must quarantine a message → its text, from the body of a valid booking."""
WITHOUT_IDENTITY = {"not_json", "missing_message_id", "invalid_message_id"}


@dataclass(frozen=True)
class Mix:
    """The number of requests, and the shares of them (0 to 1) that are re-sent, malformed, or cancellations.

    The numbers are exact, rounded to whole requests. Re-sent copies are not part of `count`.
    """

    count: int
    duplicates: float = 0.2
    malformed: float = 0.01
    cancellations: float = 0.05

    def __post_init__(self) -> None:
        if self.bookings < self.number_of_cancellations:
            raise InvalidArguments(
                f"Of {numbered(self.count, 'request')}, {numbered(self.number_of_cancellations, 'cancellation')} and "
                f"{self.number_malformed:,} malformed leave too few bookings. Lower one of the shares."
            )

    @property
    def number_malformed(self) -> int:
        """The number of malformed requests."""
        return round(self.count * self.malformed)

    @property
    def number_of_cancellations(self) -> int:
        """The number of requests that cancel a booking."""
        return round(self.count * self.cancellations)

    @property
    def bookings(self) -> int:
        """The number of valid bookings."""
        return self.count - self.number_malformed - self.number_of_cancellations

    @property
    def number_of_duplicates(self) -> int:
        """The number of valid requests that are sent twice."""
        return min(round(self.count * self.duplicates), self.bookings + self.number_of_cancellations)

    @property
    def messages(self) -> int:
        """The number of messages for the queue."""
        return self.count + self.number_of_duplicates


class RequestGenerator:
    """One run of the generator, which holds a few hundred messages at most."""

    def __init__(self, plan: Plan, mix: Mix, seed: int, now: datetime) -> None:
        """Prepare a run. Raises `SlotsOver` if every day of the plan is over at `now`."""
        self._days = [opening_hours(day) for day in plan.days if opening_hours(day)[1] > now]
        if not self._days:
            raise SlotsOver("Every slot that was seeded last is in the past.")
        self._rng = rng = random.Random(f"requests:{seed}")
        self._practices, self._weights = list(plan.practices), list(plan.practices.values())
        self._steps = mix.bookings + mix.number_malformed
        self._malformed = {*rng.sample(range(self._steps), mix.number_malformed)}
        self._cancelled = {*rng.sample(range(mix.bookings), mix.number_of_cancellations)}
        valid = mix.bookings + mix.number_of_cancellations
        self._sent_twice = {*rng.sample(range(valid), mix.number_of_duplicates)}
        self._recent: deque[Body] = deque(maxlen=HORIZON)
        self._waiting: list[tuple[int, int, RequestCopy]] = []  # a heap: (due, order, message)
        self._made = self._valid = self._pushed = 0

    def messages(self) -> Iterator[RequestCopy]:
        """Yield every message in the order of sending."""
        bookings = malformed = 0
        for position in range(self._steps):
            if position in self._malformed:
                self._spoil(malformed, position)
                malformed += 1
            else:
                self._book(position, is_cancelled=bookings in self._cancelled)
                bookings += 1
            while self._waiting and self._waiting[0][0] <= position:
                yield heapq.heappop(self._waiting)[2]
        while self._waiting:
            yield heapq.heappop(self._waiting)[2]

    def _book(self, position: int, *, is_cancelled: bool) -> None:
        body = self._booking()
        pair = [body]
        if is_cancelled:
            pair.append({"message_id": self._new_id(), "type": "cancel", "appointment_id": body["message_id"]})
            if self._rng.random() < CANCELLED_BEFORE_BOOKED:
                pair.reverse()
        else:
            self._recent.append(body)  # it is sent first, so other content under its id is the conflict
        for number, request in enumerate(pair):
            self._send(request, position + number * self._rng.randrange(1, HORIZON), body["practice"])

    def _booking(self) -> Body:
        rng = self._rng
        first = rng.randrange(len(self._days))
        # Nearly half want the same day, as in England (43.8 % of appointments, NHS England, April 2025 to March 2026).
        last = rng.randrange(first, len(self._days))
        opens, closes = (
            (datetime(2020, 1, 6, 8, tzinfo=UTC), datetime(2020, 1, 6, 18, tzinfo=UTC))
            if rng.random() < LATE
            else (self._days[first][0], self._days[last][1])
        )
        return {
            "message_id": self._new_id(),
            "type": "book",
            "practice": rng.choices(self._practices, self._weights)[0],
            "nhs_number": synthetic_nhs_number(rng),
            "not_before": opens.astimezone(LOCAL_TIME).isoformat(),
            "not_after": closes.astimezone(LOCAL_TIME).isoformat(),
            "delivery_channel": rng.choices(DELIVERY_CHANNELS, CHANNEL_WEIGHTS)[0],
            "service_type": rng.choices(SERVICE_TYPES, SERVICE_WEIGHTS)[0],
        }

    def _send(self, body: Body, position: int, group: str) -> None:
        """Push a request once, or twice. A copy differs as a producer's re-send does, but not in its content."""
        by_attribute = {IDENTITY_ATTRIBUTE: body["message_id"]}
        only = body["type"] == "book" and self._rng.random() < IDENTITY_IN_ATTRIBUTE_ONLY
        content = {name: value for name, value in body.items() if not (only and name == "message_id")}
        request = Archived(body["message_id"], payload_hash=payload_hash(content))
        original = RequestCopy(json.dumps(content), request, self._made, group, by_attribute if only else {})
        self._push(original, position)
        if self._valid in self._sent_twice:
            # A copy is identical, or spelt otherwise, or has its id in the attribute as well.
            respelt = json.dumps(dict(reversed(content.items())), separators=(",", ":"))
            copies = (
                original,
                RequestCopy(respelt, request, self._made, group, original.attributes),
                RequestCopy(original.body, request, self._made, group, by_attribute),
            )
            self._push(self._rng.choice(copies), position + self._rng.randrange(HORIZON))
        self._made += 1
        self._valid += 1

    def _spoil(self, number: int, position: int) -> None:
        """Push a malformed message, each kind in turn."""
        reasons = [*MALFORMATIONS] if self._recent else [name for name in MALFORMATIONS if name != "conflict"]
        reason = reasons[number % len(reasons)]
        body = self._rng.choice(self._recent) if reason == "conflict" else self._booking()
        text = MALFORMATIONS[reason](body)
        message_id = None if reason in WITHOUT_IDENTITY else body["message_id"]
        try:
            digest = payload_hash(parse_body(text))
        except Unprocessable:
            digest = None
        request = Archived(message_id, kind=MALFORMED, malformation=reason, payload_hash=digest)
        self._push(RequestCopy(text, request, self._made, group=body["practice"]), position)
        self._made += 1

    def _push(self, message: RequestCopy, due: int) -> None:
        heapq.heappush(self._waiting, (due, self._pushed, message))
        self._pushed += 1

    def _new_id(self) -> str:
        return str(UUID(int=self._rng.getrandbits(128), version=4))


def utc_now() -> datetime:
    """Return the present time in UTC."""
    return datetime.now(UTC)
