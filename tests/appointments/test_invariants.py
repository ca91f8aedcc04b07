"""The appointments' laws on evidence that is damaged. `tests/oneslot/audit/corruptions.py` breaks each law, for every judge."""

import json
from dataclasses import replace as replace_fields
from typing import Any

import pytest

from appointments.invariants import APPOINTMENT_ROW, SLOT_ROW
from demo.declared import CONSUMER
from oneslot.laws.evidence import Evidence, lacking
from oneslot.laws.form import LEDGER_ROW
from tests.kits.consumer import PRACTICE, slot_item

NOW = 1_795_161_600_000


def row(message_id: str, outcome: str | None, **result: Any) -> dict[str, Any]:
    made = {"message_id": message_id, "consumption_count": 1, "updated": NOW}
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
    made = {key: {"created": NOW, "updated": NOW, **rows} for key, rows in (appointments or {}).items()}
    return CONSUMER.evidence(appointments=keyed(made), **parts)


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


ROWS: dict[str, Any] = {
    "ledger": CORRECT.ledger,
    "slots": CORRECT.rows("slots"),
    "appointments": CORRECT.rows("appointments"),
}
FORMS = {"ledger": LEDGER_ROW, "slots": SLOT_ROW, "appointments": APPOINTMENT_ROW}
KEYS = {"ledger": ("message_id",), "slots": ("practice", "slot_id"), "appointments": ("appointment_id",)}
EVERY_ATTRIBUTE = [
    (table, key, name)
    for table, rows in ROWS.items()
    for key, row in rows.items()
    for name in row
    if name not in KEYS[table]
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
    in_form = {(table, name) for table, form in FORMS.items() for name in form.attributes}
    needed = {(table, name) for table, name in in_form if FORMS[table].attributes[name].needed}
    assert named == {(table, name) for table, _, name in EVERY_ATTRIBUTE} & (in_form if value else needed)


@pytest.mark.parametrize("result", ["{", {"outcome": "booked"}, "[]", None])
def test_unreadable_result_is_a_breach(result: Any) -> None:
    damaged = {**CORRECT.ledger["booked"], "result": result}
    assert ("I5", "booked") in found(replace(CORRECT, ledger=changed("ledger", booked=damaged)))


@pytest.mark.parametrize("name", ["practice", "slot_id", "start", "end"])
def test_answer_is_a_breach_when_it_names_another_place(name: str) -> None:
    other = row("booked", "booked", **{**place(0), name: "other"})
    assert ("I5", "booked") in found(replace(CORRECT, ledger=changed("ledger", booked=other)))
