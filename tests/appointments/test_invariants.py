"""The appointments' laws: correct evidence has no breach, and each law finds its own. `oneslot/laws` has the ledger's."""

from __future__ import annotations

import json
from dataclasses import replace as replace_fields
from typing import Any

import pytest

from appointments.invariants import LAWS
from demo.declared import CONSUMER
from oneslot.laws.evidence import Evidence, lacking
from tests.kits.consumer import PRACTICE, slot_item

NOW = 1_795_161_600_000


def row(message_id: str, outcome: str | None, **result: Any) -> dict[str, Any]:
    made = {"message_id": message_id, "consumption_count": 1}
    if outcome is None:
        return {**made, "status": "IN_PROGRESS", "lease_until": NOW + 1}
    return {
        **made,
        "status": "COMPLETE",
        "result": json.dumps({"outcome": outcome, "appointment_id": message_id, **result}),
    }


def taken(number: int, appointment_id: str) -> dict[str, Any]:
    slot = {**slot_item(number), "status": "busy", "appointment_id": appointment_id}
    del slot["free_key"]
    return slot


def place(number: int) -> dict[str, Any]:
    return {name: slot_item(number)[name] for name in ("practice", "slot_id", "start", "end")}


def evidence(*, appointments: dict[str, Any] | None = None, **parts: Any) -> Evidence:
    """Return evidence, with its key in each appointment."""
    return CONSUMER.evidence(appointments=keyed(appointments or {}), **parts)


def keyed(appointments: dict[str, Any]) -> dict[str, Any]:
    return {key: {"appointment_id": key, **rows} for key, rows in appointments.items()}


def replace(before: Evidence, **changes: Any) -> Evidence:
    """Replace fields, or the rows of a table."""
    tables = dict(before.tables)
    if "slots" in changes:
        tables["slots"] = changes.pop("slots")
    if "appointments" in changes:
        tables["appointments"] = keyed(changes.pop("appointments"))
    return replace_fields(before, tables=tables, **changes)


SLOT_0, SLOT_1, SLOT_2 = (str(slot_item(number)["slot_id"]) for number in range(3))

CORRECT = evidence(
    requests={"booked", "waiting", "late", "busy", "bad", "cancel", "gone"},
    ledger={
        "booked": row("booked", "booked", **place(0)),
        "waiting": row("waiting", "waitlist", practice=PRACTICE),
        "late": row("late", "refused"),
        "busy": row("busy", None),
        "cancel": {**row("gone", "cancelled"), "message_id": "cancel"},
        "gone": row("gone", "booked", **place(1)),
    },
    slots={(PRACTICE, SLOT_0): taken(0, "booked"), (PRACTICE, SLOT_1): slot_item(1), (PRACTICE, SLOT_2): slot_item(2)},
    appointments={
        "booked": {"status": "booked", **place(0)},
        "waiting": {"status": "waitlist", "practice": PRACTICE},
        "gone": {"status": "cancelled", **place(1), "cancelled_by": "cancel"},
    },
    quarantined={"bad"},
    deliveries=[
        {"message_id": "booked", "outcome": "booked", "answer": "a", "claimed_by": "1"},
        {"message_id": "booked", "outcome": "duplicate", "answer": "a", "claimed_by": "1"},
        {"message_id": "busy", "outcome": "fenced", "answer": None, "claimed_by": "2"},
        {"message_id": None, "outcome": "quarantined", "answer": None, "claimed_by": None},
    ],
    waiting={"busy"},
    now=NOW,
)


def found(left: Evidence) -> set[tuple[str, str]]:
    return {(breach.invariant, breach.subject) for breach in CONSUMER.check(left)}


def test_correct_evidence_has_no_breach() -> None:
    assert CONSUMER.check(CORRECT) == []
    assert CONSUMER.check(CONSUMER.evidence()) == []


def changed(name: str, **entries: Any) -> dict[Any, Any]:
    return {**(CORRECT.ledger if name == "ledger" else CORRECT.rows(name)), **entries}


SLOTS = dict(CORRECT.rows("slots"))
BREACHES = {
    "a second slot": ("I1", "booked", {"slots": {**SLOTS, (PRACTICE, SLOT_2): taken(2, "booked")}}),
    "a slot booked twice": (
        "I3",
        f"{PRACTICE}/{SLOT_0}",
        {"appointments": changed("appointments", other={"status": "booked", "practice": PRACTICE, "slot_id": SLOT_0})},
    ),
    "busy without an appointment": (
        "I4",
        f"{PRACTICE}/{SLOT_2}",
        {"slots": {**SLOTS, (PRACTICE, SLOT_2): taken(2, "missing")}},
    ),
    "booked in a free slot": ("I4", "booked", {"slots": {**SLOTS, (PRACTICE, SLOT_0): slot_item(0)}}),
    "free without a key": (
        "I4",
        f"{PRACTICE}/{SLOT_1}",
        {"slots": {**SLOTS, (PRACTICE, SLOT_1): {**slot_item(1), "free_key": None}}},
    ),
    "free at another time than in its key": (
        "I4",
        f"{PRACTICE}/{SLOT_1}",
        {"slots": {**SLOTS, (PRACTICE, SLOT_1): {**slot_item(1), "start": "2099-11-23T20:00:00Z"}}},
    ),
    "free with a holder": (
        "I4",
        f"{PRACTICE}/{SLOT_1}",
        {"slots": {**SLOTS, (PRACTICE, SLOT_1): {**slot_item(1), "appointment_id": "gone"}}},
    ),
    "complete without its appointment": (
        "I5",
        "new",
        {"ledger": changed("ledger", new=row("new", "booked", slot_id=SLOT_2))},
    ),
    "complete with another slot": (
        "I5",
        "booked",
        {"ledger": changed("ledger", booked=row("booked", "booked", **place(2)))},
    ),
    **{
        f"complete with another {name}": (
            "I5",
            "booked",
            {"ledger": changed("ledger", booked=row("booked", "booked", **{**place(0), name: "other"}))},
        )
        for name in ("practice", "slot_id", "start", "end")
    },
    "complete with another's appointment": (
        "I5",
        "waiting",
        {"ledger": changed("ledger", waiting={**CORRECT.ledger["booked"], "message_id": "waiting"})},
    ),
    "a booking complete with another's cancellation": (
        "I5",
        "booked",
        {"ledger": changed("ledger", booked=CORRECT.ledger["cancel"])},
    ),
    "waiting at another practice": (
        "I5",
        "waiting",
        {"ledger": changed("ledger", waiting=row("waiting", "waitlist", practice="Z99999"))},
    ),
    "a cancellation without effect": (
        "I5",
        "booked",
        {"ledger": changed("ledger", cancel=row("booked", "cancelled"))},
    ),
    "cancelled by a request that cancelled another": (
        "I5",
        "cancel",
        {"ledger": changed("ledger", cancel=row("late", "cancelled"))},
    ),
    "refused, then cancelled": ("I5", "gone", {"ledger": changed("ledger", gone=row("gone", "refused"))}),
    "complete with an unreadable answer": (
        "I5",
        "late",
        {"ledger": changed("ledger", late={**row("late", "x"), "result": "{"})},
    ),
    "booked in a slot at another time": (
        "I4",
        "booked",
        {"slots": {**SLOTS, (PRACTICE, SLOT_0): {**taken(0, "booked"), "start": "2099-11-23T20:00:00Z"}}},
    ),
    "complete without an outcome": (
        "I5",
        "late",
        {"ledger": changed("ledger", late={**row("late", "x"), "result": "[]"})},
    ),
    "refused and booked": ("I5", "booked", {"ledger": changed("ledger", booked=row("booked", "refused"))}),
}


@pytest.mark.parametrize(("invariant", "subject", "changes"), BREACHES.values(), ids=BREACHES)
def test_each_breach_is_found(invariant: str, subject: str, changes: dict[str, Any]) -> None:
    assert (invariant, subject) in found(replace(CORRECT, **changes))


def test_every_law_of_the_appointments_has_a_breach() -> None:
    assert {name for name, _, _ in BREACHES.values()} == {law.name for law in LAWS if law.is_judged}


ROWS: dict[str, Any] = {
    "ledger": CORRECT.ledger,
    "slots": CORRECT.rows("slots"),
    "appointments": {
        **CORRECT.rows("appointments"),
        "booked": {**CORRECT.rows("appointments")["booked"], "created": NOW, "updated": NOW},
    },
}
EVERY_ATTRIBUTE = [
    (table, key, name)
    for table, rows in ROWS.items()
    for key, row in rows.items()
    for name in row
    if name != "appointment_id" or table == "slots"
]


@pytest.mark.parametrize("value", [None, {"a": "map"}], ids=["left out", "of another type"])
def test_row_is_judged_or_named_when_attribute_is_missing(value: Any) -> None:
    """For each attribute of each row: `lacking` names it, or `check` does not need it."""
    assert list(lacking(replace(CORRECT, **ROWS))) == []
    named = set()
    for table, key, name in EVERY_ATTRIBUTE:
        rest = {other: was for other, was in ROWS[table][key].items() if other != name}
        changes: dict[str, Any] = {table: {**ROWS[table], key: {**rest, name: value} if value else rest}}
        damaged = replace(CORRECT, retention_ms=30 * 86_400_000, **changes)
        if missing := list(lacking(damaged)):
            assert missing == [(table, "/".join(key) if isinstance(key, tuple) else key, name)]
            named.add((table, name))
        else:
            CONSUMER.check(damaged)
    always = {("ledger", "status"), ("ledger", "consumption_count"), ("ledger", "lease_until"), ("slots", "status")}
    of_another_type = {("slots", "appointment_id")} if value else set()
    others = ("created", "updated", "cancelled_by") if value else ()
    of_an_appointment = {("appointments", name) for name in ("status", "practice", "slot_id", *others)}
    assert named == always | of_another_type | of_an_appointment


@pytest.mark.parametrize("result", ["{", {"outcome": "booked"}, "[]", None])
def test_unreadable_result_is_a_breach(result: Any) -> None:
    damaged = {**CORRECT.ledger["booked"], "result": result}
    assert ("I5", "booked") in found(replace(CORRECT, ledger=changed("ledger", booked=damaged)))
