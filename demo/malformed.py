"""Malformed messages, each kind with the reason for which the consumer must quarantine it."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from demo.practices import synthetic_nhs_number, wrong_nhs_number

# A valid ODS code that is never seeded.
UNKNOWN_PRACTICE = "ZZZ999"

Spoil = Callable[[dict[str, Any], random.Random], str]


@dataclass(frozen=True, slots=True)
class Malformation:
    """One kind of malformed message.

    `spoil` turns the body of a valid booking into its text. `has_identity`: its message_id is valid.
    """

    name: str
    reason: str
    spoil: Spoil
    has_identity: bool = True


def _with(**changes: Any) -> Spoil:
    return lambda body, _: json.dumps(body | changes)


def _without(name: str) -> Spoil:
    return lambda body, _: json.dumps({key: value for key, value in body.items() if key != name})


def _from(name: str, value: Callable[[Mapping[str, Any], random.Random], Any]) -> Spoil:
    return lambda body, rng: json.dumps(body | {name: value(body, rng)})


def _swap_times(body: dict[str, Any], _: random.Random) -> str:
    return json.dumps(body | {"not_before": body["not_after"], "not_after": body["not_before"]})


CONFLICT = Malformation(
    "other_content_under_a_used_id", "conflict", _from("nhs_number", lambda _, rng: synthetic_nhs_number(rng))
)
"""The kind that needs a message_id that was sent before."""

MALFORMATIONS = (
    Malformation("not_json", "not_json", lambda body, _: json.dumps(body)[:-1], has_identity=False),
    Malformation(
        "no_object", "not_json", lambda body, _: json.dumps([body["message_id"], body["type"]]), has_identity=False
    ),
    Malformation("no_message_id", "missing_message_id", _without("message_id"), has_identity=False),
    Malformation(
        "message_id_with_spaces", "invalid_message_id", _with(message_id="request 1 of today"), has_identity=False
    ),
    Malformation(
        "nhs_number_as_message_id",
        "invalid_message_id",
        _from("message_id", lambda body, _: body["nhs_number"]),
        has_identity=False,
    ),
    Malformation("wrong_nhs_number", "invalid_field", _from("nhs_number", lambda _, rng: wrong_nhs_number(rng))),
    Malformation(
        "nhs_number_as_a_number", "invalid_field", _from("nhs_number", lambda body, _: int(body["nhs_number"]))
    ),
    Malformation("no_nhs_number", "invalid_field", _without("nhs_number")),
    Malformation("times_in_wrong_order", "invalid_field", _swap_times),
    Malformation("time_without_offset", "invalid_field", _from("not_before", lambda body, _: body["not_before"][:19])),
    Malformation("unknown_delivery_channel", "invalid_field", _with(delivery_channel="Carrier pigeon")),
    Malformation("practice_of_wrong_type", "invalid_field", _with(practice=81001)),
    Malformation("unknown_type", "unknown_type", _with(type="reschedule")),
    Malformation("unknown_practice", "unknown_practice", _with(practice=UNKNOWN_PRACTICE)),
    CONFLICT,
)
