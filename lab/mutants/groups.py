"""Small groups of rows with random faults, judged by the laws alone and with the quick look of `oneslot.audit.judge.clean`."""

import json
from collections import defaultdict
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import pyarrow as pa

from appointments.allocation import free_key
from demo.declared import CONSUMER
from oneslot.audit.judge import clean, stage
from oneslot.audit.consumer import AuditConsumer
from oneslot.audit.layout import item_line
from oneslot.audit.read.blocks import unpacked
from oneslot.audit.read.carry import BlockReader, Piece, ReadPlan
from oneslot.audit.read.lines import Window
from oneslot.declaration.declaration import Declaration
from oneslot.declaration.reading import parse_declaration
from oneslot.errors import BadInput
from oneslot.laws.evidence import Evidence
from oneslot.laws.traces import LEDGER, result_of

NOW = 10_000_000
MOMENT = Evidence(requests=(), waiting=(), now=NOW, patience_ms=100)
COUNTED = 'by_request = true\nrows = 1\noutcomes = ["booked", "waitlist"]'
WRITTEN = (CONSUMER.path or Path()).read_text().partition('audit = "')[0].replace("by_request = true", COUNTED)
DERIVED = parse_declaration(WRITTEN, None)
"""The appointments without their `Plain`, so that the look follows from the declaration, which counts each effect's rows."""
Rows = list[tuple[str, dict[str, Any]]]
Found = dict[int, list[pa.Table]]
REQUESTS = 14
SHOWN_AS_A_ROW = 4
"""The request whose id is what the slot of the next request is shown as."""
CHANGED = (
    *((LEDGER, name) for name in ("status", *["consumption_count"] * 3, "unsent")),
    *(("slots", name) for name in ("status", "appointment_id", "free_key", "start", "practice")),
    *(("appointments", name) for name in ("status", "practice", "slot_id", "start", "cancelled_by")),
    *(("deliveries", name) for name in ("outcome", "answer", "consumption_count")),
)
REMOVED = 0.2
"""The share of changes that remove an attribute."""
UNLOGGED = 0.5
"""The share of requests without a line in the log, which then shows neither their answer nor their claims."""
FATES = ("booked", "waitlist", "refused", "cancelled", "booked", "booked", "waitlist")
OUTCOMES = ("booked", "waitlist", "refused", "cancelled", "duplicate", "fenced", "quarantined", "failed")
OTHER_ENDS = ("duplicate", "fenced", "failed", "quarantined")
"""Of deliveries before or after the one with the answer; an operator sends a quarantined message again."""
SPLIT = ("{}", '{"x":', "{}}")
"""Three texts that are not one object each. Read as lines they are three objects: the first result, and two others."""


def sound(random: Random) -> Rows:
    """Return the rows of requests with each outcome, of their slots, and of free slots."""
    found: Rows = []
    for number in range(REQUESTS):
        message_id = f"A/s{number + 1}" if number == SHOWN_AS_A_ROW else f"m{number}"
        fate = FATES[number % len(FATES)]
        cancelled = FATES[(number + 3) % len(FATES)] == "cancelled"
        start = f"2026-11-23T0{number % 3}:00:00Z"
        place = {"practice": "A", "slot_id": f"s{number}", "start": start, "end": start}
        slot = {**place, "delivery_channel": "Video", "service_type": "Clinic"}
        result = {"outcome": fate, "appointment_id": message_id}
        appointment = {"appointment_id": message_id, "practice": "A", "created": 5, "updated": 5, "status": fate}
        if fate == "booked":
            result |= place
            by = {"status": "cancelled", "cancelled_by": f"m{number + 3}"} if cancelled else {}
            found.append(("appointments", appointment | place | by))
        if fate == "booked" and not cancelled:
            found.append(("slots", {**slot, "status": "busy", "appointment_id": message_id}))
        else:
            found.append(("slots", {**slot, "status": "free", "free_key": free_key(slot)}))
        if fate == "waitlist":
            result["practice"] = "A"
            found.append(("appointments", appointment))
        if fate == "cancelled":
            result["appointment_id"] = f"m{number - 3}"
        count = random.choice((1, 2, 3))
        row = {"message_id": message_id, "status": "COMPLETE", "consumption_count": count, "updated": 5}
        found.append((LEDGER, row | {"result": json.dumps(result)}))
        found.append(("accepted", {"message_id": message_id, "sent": 1, "copies": random.choice((1, 2))}))
        if random.random() < UNLOGGED:
            continue
        for word in (fate, *random.choices(OTHER_ENDS, k=random.randrange(count))):
            line = {"message_id": message_id, "outcome": word, "sent": random.choice((1, 2)), "finished": 9}
            claim = {"consumption_count": 1, "claimed_by": random.choice("cd"), "answer": None if word == "fenced" else "a"}
            found.append(("deliveries", line | claim))
    return found


def break_one(rows: Rows, random: Random) -> None:
    """Make one random fault in the rows."""
    at = random.randrange(len(rows))
    source, row = rows[at]
    rare = ("drop", "repeat", "list", "old", "split", "cancel", "rename")
    kind = random.choice((*rare, *["again", "result"] * 4, *["change"] * 12))
    if kind == "drop":
        del rows[at]
    elif kind == "repeat":
        rows.append((source, dict(row)))
    elif kind == "list":
        listed = random.choice(("waiting", "dead-letters", "dropped"))
        rows.append((listed, {"message_id": f"m{random.randrange(REQUESTS)}", "at": 1}))
    elif kind == "old" and source in CONSUMER.schema.tables:
        rows.append((f"-{source}", dict(row)))
    elif kind == "split":
        ledger = [row for source, row in rows if source == LEDGER]
        first = random.randrange(len(ledger) - 2)
        texts = (ledger[first].get("result", "{}") + SPLIT[0], *SPLIT[1:])
        for row, text in zip(ledger[first:], texts, strict=False):
            row["result"] = text
    elif kind == "result":
        row = random.choice([row for source, row in rows if source == LEDGER])
        recorded = {**(result_of(row) or {"outcome": "refused"})}
        name = random.choice(("outcome", "appointment_id", "practice", "slot_id", "start"))
        row["result"] = json.dumps(changed(recorded, name, [recorded, *(row for _, row in rows)], random))
    elif kind == "cancel":
        answer = json.dumps({"outcome": "cancelled", "appointment_id": f"m{random.randrange(REQUESTS)}"})
        random.choice([row for source, row in rows if source == LEDGER])["result"] = answer
    elif kind == "rename":  # the request still names the appointment, which is another's
        row = random.choice([row for source, row in rows if source == "appointments"])
        row |= {"cancelled_by": row["appointment_id"], "appointment_id": "another"}
    elif kind in ("again", "change"):
        source, name = random.choice(CHANGED)
        alike = {number: row for number, (of, row) in enumerate(rows) if of == source}
        at = random.choice([*alike])
        other = source, changed(alike[at], name, [*alike.values()], random)
        if kind == "again":
            rows.append(other)
        else:
            rows[at] = other


def changed(row: dict[str, Any], name: str, others: list[dict[str, Any]], random: Random) -> dict[str, Any]:
    """Return a row without an attribute, or with another row's value of it."""
    if random.random() < REMOVED:
        return {other: value for other, value in row.items() if other != name}
    values: dict[str, list[Any]] = {
        "outcome": [*OUTCOMES],
        "consumption_count": [0, 1, 5],
        "answer": ["b"],
        "unsent": [1],
        "cancelled_by": ["", *[f"m{random.randrange(REQUESTS)}"] * 3, row.get("appointment_id", "")],
    }
    if "result" in row and name == "status":
        return row | {name: "IN_PROGRESS", "lease_until": 1}
    return row | {name: random.choice(values.get(name) or [other[name] for other in others if name in other])}


def carried(rows: Rows, consumer: Declaration = CONSUMER, chunks: int = 1) -> Found:
    """Return the rows of the first chunk as the audit reads them from files, by what they are."""
    model = AuditConsumer(consumer).model
    lines: dict[str, list[bytes]] = defaultdict(list)
    for name, row in rows:
        logged = name.removeprefix("-") not in model.exports
        lines[name].append(json.dumps({"message": "delivery", **row}).encode() + b"\n" if logged else item_line(row))
    reader = BlockReader(ReadPlan(AuditConsumer(consumer), ((),), chunks, Window(None, NOW + 1)))
    found: Found = defaultdict(list)
    for name, several in lines.items():
        source = model.source_named(name.removeprefix("-"))
        for chunk, what, block in reader.by_lines(source, Piece(source.number, name), 1, b"".join(several)):
            if not chunk:
                found[-what if name.startswith("-") and what == source.number else what].append(unpacked(block))
    return found


def judged(found: Found, consumer: Declaration, *, by_laws: bool) -> tuple[dict[str, Any], Any]:
    """Return each subject's row of the verdicts by its key, and the sums of all operations tables."""
    judging = stage.Judging(AuditConsumer(consumer), MOMENT, "", "")
    look: Any = (lambda *_: (None, "")) if by_laws else clean.find_clean
    with mock.patch.object(stage, "find_clean", look), mock.patch.object(clean.CleanSubjects, "compare"):
        verdicts, blocks = stage.judged({**found}, judging)
    answer = stage.add_up([(what, block) for _, what, block in blocks], judging.wanted)
    sums = [stage.without_zeros(table, answer.tables[number]).to_pylist() for number, table in enumerate(judging.wanted)]
    return {row["key"]: row for row in verdicts.to_pylist()}, [sums, answer.rows(stage.EVENTFUL)]


def differing(seed: int, consumer: Declaration = CONSUMER) -> list[str]:
    """Return the subjects of a faulty history of which the quick look and the laws say different things."""
    random = Random(seed)
    rows = sound(random)
    for _ in range(random.randrange(5)):
        break_one(rows, random)
    return differing_in(rows, consumer)


def differing_in(rows: Rows, consumer: Declaration, chunks: int = 1) -> list[str]:
    """Return the subjects of these rows of which the quick look and the laws say different things."""
    batch = carried(rows, consumer, chunks)
    try:
        laws, sums = judged(batch, consumer, by_laws=True)
    except BadInput:  # the audit refuses these rows
        return []
    quick, quick_sums = judged(batch, consumer, by_laws=False)
    found = [key for key in laws.keys() | quick.keys() if laws.get(key) != quick.get(key)]
    return sorted(found) or ([] if sums == quick_sums else ["the operations tables"])
