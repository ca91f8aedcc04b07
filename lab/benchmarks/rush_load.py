"""The load of the rush: requests by the practices' demand, the tables, and a free slot for each request."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from appointments.messages import DELIVERY_CHANNELS
from demo.practices import CHANNEL_WEIGHTS, synthetic_demand, synthetic_practices
from lab.benchmarks.batches import booking
from lab.benchmarks.metered import ALL_TABLES
from lab.explore.practice import free_slot

DUPLICATES = 0.3


def requests(practices: int, number: int) -> list[dict[str, Any]]:
    """Return bodies in the order of sending, practices in proportion to their demand, 30 % of the bodies twice."""
    rng = random.Random(1)
    chosen = list(synthetic_demand(synthetic_practices(practices), seed=1))
    first = datetime.now(UTC).replace(hour=8, minute=0, second=0, microsecond=0) + timedelta(days=7)
    picked = rng.choices(chosen, [one.appointments for one in chosen], k=number)
    channels = rng.choices(DELIVERY_CHANNELS, CHANNEL_WEIGHTS, k=number)
    bodies = [
        booking(f"r-{position}", demand.practice, first, 5, delivery_channel=channel)
        for position, (demand, channel) in enumerate(zip(picked, channels, strict=True))
    ]
    copies = rng.sample(range(number), round(number * DUPLICATES))
    order = [(position, position) for position in range(number)] + [
        (position + rng.randrange(1, 100), position) for position in copies
    ]
    return [bodies[position] for _, position in sorted(order)]


def slots(bodies: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield a free slot for each request, of its practice and channel, so that no request is waitlisted."""
    wanted = Counter(
        (one["practice"], one["delivery_channel"]) for one in {b["message_id"]: b for b in bodies}.values()
    )
    first = datetime.fromisoformat(str(bodies[0]["not_before"]))
    for (practice, channel), number in wanted.items():
        for position in range(number):
            start = first + timedelta(minutes=10 * (position % 50), days=position // 50 % 5)
            yield free_slot(practice, start, f"{channel[0]}{position // 250:02}", channel)


def create_tables(dynamodb: Any) -> None:
    """Create the tables of every handler. dynamodb: boto3's client."""
    for name, keys in ALL_TABLES.items():
        attributes = [*keys.keys, *(index.sort_key for index in keys.indexes.values())]
        indexes = [
            {
                "IndexName": index,
                "KeySchema": _key_schema(keys.partition_key, held.sort_key),
                "Projection": {"ProjectionType": "KEYS_ONLY"},
            }
            for index, held in keys.indexes.items()
        ]
        dynamodb.create_table(
            TableName=name,
            BillingMode="PAY_PER_REQUEST",
            KeySchema=_key_schema(*keys.keys),
            AttributeDefinitions=[{"AttributeName": one, "AttributeType": "S"} for one in attributes],
            **({"LocalSecondaryIndexes": indexes} if indexes else {}),
        )


def _key_schema(partition_key: str, sort_key: str = "") -> list[dict[str, str]]:
    schema = [{"AttributeName": partition_key, "KeyType": "HASH"}]
    return [*schema, {"AttributeName": sort_key, "KeyType": "RANGE"}] if sort_key else schema
