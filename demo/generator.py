"""Generate appointment requests as producers send them: twice, cancelled, out of order, malformed. Repeatable by seed."""

from __future__ import annotations

import heapq
import json
import random
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from itertools import accumulate
from typing import Any
from uuid import UUID

from appointments.messages import DELIVERY_CHANNELS
from demo.errors import SlotsOver
from demo.malformed import CONFLICT, MALFORMATIONS, Malformation
from demo.plan import Plan
from demo.practices import CHANNEL_WEIGHTS, synthetic_nhs_number
from demo.slots import LOCAL_TIME, SERVICE_TYPES, SERVICE_WEIGHTS, opening_hours
from oneslot.errors import InvalidArguments
from oneslot.operator.sending.messages import MALFORMED, Archived, RequestCopy
from oneslot.runtime.effects import Unprocessable
from oneslot.runtime.identity import IDENTITY_ATTRIBUTE, parse_body, payload_hash
from oneslot.wording import numbered

# Days between booking and appointment in England, April 2025 to March 2026 (NHS England): the last day of a range, and its
# share. 43.8 % are on the same day.
LEAD_DAYS = ((0, 0.438), (1, 0.075), (7, 0.174), (14, 0.126), (21, 0.076), (28, 0.052), (56, 0.059))

# A re-send follows its original within this many messages; a cancellation comes as near, before or after its booking.
HORIZON = 200
CANCELLED_BEFORE_BOOKED = 0.2  # of the cancellations
IDENTITY_IN_ATTRIBUTE_ONLY = 0.05  # of the bookings
LATE = 0.005  # of the bookings: they ask for a past time, so the consumer must refuse them


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


class Share:
    """Returns True in exactly `chosen` of `total` calls, each equally likely (Knuth, algorithm S)."""

    def __init__(self, rng: random.Random, chosen: int, total: int) -> None:
        self._rng, self._chosen, self._left = rng, chosen, total

    def __call__(self) -> bool:
        """Return whether this call is chosen."""
        yes = self._rng.random() * self._left < self._chosen
        self._left -= 1
        self._chosen -= yes
        return yes


class RequestGenerator:
    """One run of the generator, which holds a few hundred messages at most."""

    def __init__(self, plan: Plan, mix: Mix, seed: int, now: datetime) -> None:
        """Prepare a run. Raises `SlotsOver` if every day of the plan is over at `now`."""
        if opening_hours(plan.days[-1])[1] <= now:
            raise SlotsOver("Every slot that was seeded last is in the past.")
        self._mix = mix
        self._rng = random.Random(f"requests:{seed}")
        self._days = [day for day in plan.days if opening_hours(day)[1] > now]
        self._openings = plan.openings
        self._weights = list(accumulate(opening.demand.appointments for opening in plan.openings))
        self._malformed = Share(self._rng, mix.number_malformed, mix.bookings + mix.number_malformed)
        self._cancelled = Share(self._rng, mix.number_of_cancellations, mix.bookings)
        self._sent_twice = Share(self._rng, mix.number_of_duplicates, mix.bookings + mix.number_of_cancellations)
        self._malformations = _shuffled(MALFORMATIONS, self._rng)
        self._recent: deque[dict[str, Any]] = deque(maxlen=HORIZON)
        self._waiting: list[tuple[int, int, RequestCopy]] = []  # a heap: (due, order, message)
        self._made = 0  # number of requests
        self._pushed = 0  # number of messages

    def messages(self) -> Iterator[RequestCopy]:
        """Yield every message in the order of sending."""
        for position in range(self._mix.bookings + self._mix.number_malformed):
            if self._malformed():
                self._push(self._malformed_message(), position)
            else:
                self._booking(position)
            while self._waiting and self._waiting[0][0] <= position:
                yield heapq.heappop(self._waiting)[2]
        while self._waiting:
            yield heapq.heappop(self._waiting)[2]

    def _booking(self, position: int) -> None:
        body = self._booking_body()
        self._recent.append(body)
        if not self._cancelled():
            self._send(body, position)
            return
        cancel = {"message_id": self._new_id(), "type": "cancel", "appointment_id": body["message_id"]}
        first, second = (cancel, body) if self._rng.random() < CANCELLED_BEFORE_BOOKED else (body, cancel)
        self._send(first, position, group=body["practice"])
        self._send(second, position + self._rng.randrange(1, HORIZON), group=body["practice"])

    def _booking_body(self) -> dict[str, Any]:
        rng = self._rng
        opening = rng.choices(self._openings, cum_weights=self._weights)[0]
        if rng.random() < LATE:
            not_before, not_after = "2020-01-06T08:00:00+00:00", "2020-01-06T18:30:00+00:00"
        else:
            not_before, not_after = self._window()
        return {
            "message_id": self._new_id(),
            "type": "book",
            "practice": opening.demand.practice,
            "nhs_number": synthetic_nhs_number(rng),
            "not_before": not_before,
            "not_after": not_after,
            "delivery_channel": rng.choices(DELIVERY_CHANNELS, CHANNEL_WEIGHTS)[0],
            "service_type": rng.choices(SERVICE_TYPES, SERVICE_WEIGHTS)[0],
        }

    def _window(self) -> tuple[str, str]:
        """Return the window from the opening of a random day to the close of the last acceptable day, in local time."""
        wanted = self._rng.randrange(len(self._days))
        lead = self._rng.choices([days for days, _ in LEAD_DAYS], [share for _, share in LEAD_DAYS])[0]
        last = wanted
        while last + 1 < len(self._days) and (self._days[last + 1] - self._days[wanted]).days <= lead:
            last += 1
        return _local(self._days[wanted], 0), _local(self._days[last], 1)

    def _send(self, body: dict[str, Any], position: int, group: str | None = None) -> None:
        """Push a request once, or twice. A copy differs as a producer's re-send does, but not in its content."""
        rng = self._rng
        identity = body["message_id"]
        attribute_only = body["type"] == "book" and rng.random() < IDENTITY_IN_ATTRIBUTE_ONLY
        content = {name: value for name, value in body.items() if not (attribute_only and name == "message_id")}
        request = Archived(identity, payload_hash=payload_hash(content))
        by_attribute = {IDENTITY_ATTRIBUTE: identity}
        number, self._made = self._made, self._made + 1
        group = group or body["practice"]
        original = RequestCopy(json.dumps(content), request, number, group, by_attribute if attribute_only else {})
        self._push(original, position)
        if not self._sent_twice():
            return
        # A copy is identical, or spelt otherwise, or has its id in the attribute as well.
        copies = (
            original,
            RequestCopy(_respelt(content), request, number, group, original.attributes),
            RequestCopy(original.body, request, number, group, by_attribute),
        )
        self._push(rng.choice(copies), position + rng.randrange(HORIZON))

    def _malformed_message(self) -> RequestCopy:
        malformation = next(self._malformations)
        while malformation is CONFLICT and not self._recent:
            malformation = next(self._malformations)
        body = dict(self._rng.choice(self._recent)) if malformation is CONFLICT else self._booking_body()
        text = malformation.spoil(body, self._rng)
        request = Archived(
            message_id=body["message_id"] if malformation.has_identity else None,
            kind=MALFORMED,
            malformation=malformation.name,
            payload_hash=_hash_of(text),
        )
        number, self._made = self._made, self._made + 1
        return RequestCopy(text, request, number, group=body["practice"])

    def _push(self, message: RequestCopy, due: int) -> None:
        heapq.heappush(self._waiting, (due, self._pushed, message))
        self._pushed += 1

    def _new_id(self) -> str:
        return str(UUID(int=self._rng.getrandbits(128), version=4))


def _shuffled(malformations: Sequence[Malformation], rng: random.Random) -> Iterator[Malformation]:
    """Yield all kinds in random order, repeatedly, so that a few dozen malformed messages show every kind."""
    while True:
        yield from rng.sample(malformations, len(malformations))


def _local(day: date, end: int) -> str:
    return opening_hours(day)[end].astimezone(LOCAL_TIME).isoformat()


def _respelt(body: dict[str, Any]) -> str:
    return json.dumps(dict(reversed(body.items())), separators=(",", ":"))


def _hash_of(text: str) -> str | None:
    try:
        return payload_hash(parse_body(text))
    except Unprocessable:
        return None


def utc_now() -> datetime:
    """Return the present time in UTC."""
    return datetime.now(UTC)
