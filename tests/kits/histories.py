"""Histories for the tests: a small simulation of a correct system, and a writer of the folder that the audit reads."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from appointments.allocation import free_key
from oneslot.audit.layout import Full, Incremental, Part, item_line, to_dynamodb_json, write_export

Item = dict[str, Any]
START = 1_795_000_000_000  # a Wednesday in November 2026
MINUTE = 60_000
SLOWEST = 4_000  # between a commit and its line in the delivery log
RETENTION = 20 * 24 * 3600 * 1000
KEYS = {"ledger": ("message_id",), "slots": ("practice", "slot_id"), "appointments": ("appointment_id",)}
CHANNELS = ("In-person", "Telephone", "Video")


def arn(table: str) -> str:
    """Return the ARN of a table in an export."""
    return f"arn:aws:dynamodb:eu-west-2:000000000000:table/Oneslot-test-{table}"


@dataclass
class World:
    """The items that a system left behind."""

    ledger: dict[str, Item] = field(default_factory=dict)
    slots: dict[tuple[str, str], Item] = field(default_factory=dict)
    appointments: dict[str, Item] = field(default_factory=dict)
    accepted: list[Item] = field(default_factory=list)
    deliveries: list[Item] = field(default_factory=list)
    dead_letters: list[Item] = field(default_factory=list)
    dropped: list[Item] = field(default_factory=list)
    waiting: list[Item] | None = field(default_factory=list)
    now: int = START
    retention: int | None = RETENTION
    forgotten_before: int = 0

    def tables(self) -> dict[str, dict[Any, Item]]:
        """Return the three tables by name."""
        return {"ledger": self.ledger, "slots": self.slots, "appointments": self.appointments}

    def copy(self) -> World:
        """Return an independent copy."""
        return deepcopy(self)


@dataclass
class System:
    """A system that books correctly, with duplicates, takeovers, cancellations and all other allowed events."""

    seed: int
    practices: int = 3
    slots_per_practice: int = 12
    world: World = field(default_factory=World)
    numbered: int = 0

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        for practice in range(self.practices):
            for number in range(self.slots_per_practice):
                code, slot_id = f"A{81001 + practice}", f"20261123T{8 + number // 6:02d}{number % 6}0Z-{number:02d}"
                channel = CHANNELS[number % 3]
                start = f"2026-11-23T{8 + number // 6:02d}:{number % 6}0:00Z"
                slot = {
                    "practice": code,
                    "slot_id": slot_id,
                    "start": start,
                    "end": start[:-5] + "9:00Z",
                    "status": "free",
                    "delivery_channel": channel,
                    "service_type": "Planned Clinics",
                }
                self.world.slots[code, slot_id] = {**slot, "free_key": free_key(slot)}

    def step(self) -> None:
        """Add one request, or one more event of an old one."""
        self.world.now += self.random.randrange(1_000, 20_000)
        choice = self.random.random()
        ways: list[Any] = [
            *((0.62, self.book), (0.74, self.cancel), (0.80, self.quarantine), (0.84, self.in_flight)),
            *((0.88, self.complete_one_in_flight), (0.92, self.redrive), (0.93, self.conflict), (1.0, self.duplicate)),
        ]
        next(way for bound, way in ways if choice < bound)()

    def run(self, steps: int) -> World:
        """Take many steps, and then let the last of them end."""
        for _ in range(steps):
            self.step()
        self.world.now += SLOWEST
        return self.world

    def new_id(self) -> str:
        """Return a new message id."""
        self.numbered += 1
        return f"m-{self.seed}-{self.numbered:05d}"

    def accept(self, message_id: str) -> None:
        """Send a message, and note it in the archive."""
        self.world.accepted.append(
            {
                "message_id": message_id,
                "sent": self.world.now,
                "copies": self.random.choice((1, 1, 1, 2)),
                "kind": "request",
                "payload_hash": "ab",
            }
        )

    def deliver(self, message_id: str | None, outcome: str, **values: Any) -> None:
        """Add one line to the delivery log."""
        self.world.deliveries.append(
            {
                "level": "INFO",
                "message": "delivery",
                "message_id": message_id,
                "sqs_message_id": f"sqs-{self.random.getrandbits(64):016x}",
                "receive_count": 1,
                "outcome": outcome,
                "reason": None,
                "consumption_count": None,
                "sent": self.world.now,
                "attempt_ms": 12,
                "finished": self.world.now + self.random.randrange(20, SLOWEST),
                "claimed_by": None,
                "answer": None,
                "function_request_id": "r",
            }
            | values
        )

    def complete(self, message_id: str, result: Item, claims: int) -> None:
        """Add the ledger's row of the winning claim, and the deliveries before it."""
        winner = f"{self.random.getrandbits(128):032x}"
        for earlier in range(1, claims):
            if self.random.random() < 0.5:  # a crash leaves no line
                loser = f"{self.random.getrandbits(128):032x}"
                self.deliver(message_id, "fenced", claimed_by=loser, consumption_count=earlier)
        answer = f"{self.random.getrandbits(64):016x}"
        self.world.ledger[message_id] = {
            "message_id": message_id,
            "status": "COMPLETE",
            "consumption_count": claims,
            "updated": self.world.now,
            "claimed_by": winner,
            "payload_hash": "ab",
            "result": json.dumps(result),
            "expires_at": self.world.now // 1000 + RETENTION // 1000,
        }
        self.deliver(message_id, result["outcome"], claimed_by=winner, consumption_count=claims, answer=answer)

    def claims(self) -> int:
        """Return how many claims the next request needs."""
        return self.random.choice((1, 1, 1, 1, 1, 1, 2, 3))

    def book(self, message_id: str | None = None) -> None:
        """Book: a slot, the waitlist, a tombstone, or a refusal."""
        message_id = message_id or self.new_id()
        self.accept(message_id)
        self.finish_booking(message_id, self.claims())

    def finish_booking(self, message_id: str, claims: int) -> None:
        """Decide and commit a booking."""
        world = self.world
        if message_id in world.appointments:
            self.complete(message_id, {"outcome": "cancelled", "appointment_id": message_id}, claims)
            return
        if self.random.random() < 0.05:
            result = {"outcome": "refused", "appointment_id": message_id, "reason": "window_passed"}
            self.complete(message_id, result, claims)
            return
        practice = self.random.choice(sorted({practice for practice, _ in world.slots}))
        free = [slot for slot in world.slots.values() if slot["practice"] == practice and slot["status"] == "free"]
        appointment = {
            "appointment_id": message_id,
            "practice": practice,
            "nhs_number": "9990000018",
            "delivery_channel": self.random.choice(CHANNELS),
            "service_type": "Planned Clinics",
            "payload_hash": "ab",
            "not_before": "2026-11-23T08:00:00Z",
            "not_after": "2026-11-24T08:00:00Z",
            "created": world.now,
            "updated": world.now,
            "status": "waitlist",
        }
        result = {"outcome": "waitlist", "appointment_id": message_id, "practice": practice}
        if free:
            slot = self.random.choice(free)
            slot["status"] = "busy"
            slot["appointment_id"] = message_id
            slot.pop("free_key")
            held = {name: slot[name] for name in ("slot_id", "start", "end")}
            appointment |= {"status": "booked", **held}
            result |= {"outcome": "booked", **held}
        world.appointments[message_id] = appointment
        self.complete(message_id, result, claims)

    def cancel(self) -> None:
        """Cancel a booking, one that is cancelled already, or one that has not arrived."""
        message_id = self.new_id()
        world = self.world
        known = sorted(world.appointments)
        target = self.random.choice(known) if known and self.random.random() < 0.8 else self.new_id()
        self.accept(message_id)
        appointment = world.appointments.get(target)
        mark = {"status": "cancelled", "updated": world.now, "cancelled_by": message_id}
        if appointment is None and target not in world.ledger:
            world.appointments[target] = {"appointment_id": target, "created": world.now, **mark}
        elif appointment is not None and appointment["status"] != "cancelled":
            if appointment["status"] == "booked":
                slot = world.slots[appointment["practice"], appointment["slot_id"]]
                slot["status"] = "free"
                slot.pop("appointment_id")
                slot["free_key"] = free_key(slot)
            appointment |= mark
        self.complete(message_id, {"outcome": "cancelled", "appointment_id": target}, self.claims())
        if appointment is None and self.random.random() < 0.5:
            self.book(target)

    def quarantine(self) -> None:
        """Add a message that cannot succeed, with or without an id."""
        if self.random.random() < 0.3:
            self.deliver(None, "quarantined", reason="missing_message_id")
            source = self.world.deliveries[-1]["sqs_message_id"]
            self.world.dead_letters.append(
                {"message_id": None, "source_message_id": source, "reason": "missing_message_id"}
            )
            return
        message_id = self.new_id()
        self.accept(message_id)
        reason = self.random.choice(("invalid_field", "unknown_practice"))
        if reason == "unknown_practice":  # known only after the claim
            self.begin(message_id, 0)
        self.deliver(message_id, "quarantined", reason=reason)
        self.world.dead_letters.append({"message_id": message_id, "source_message_id": "s", "reason": reason})

    def conflict(self) -> None:
        """Send an id again with another content: the copy goes to the dead-letter queue, and its request is unchanged."""
        answered = [row["message_id"] for row in self.world.ledger.values() if row["status"] == "COMPLETE"]
        if answered:
            message_id = self.random.choice(answered)
            self.deliver(message_id, "quarantined", reason="conflict")
            letter = {"message_id": message_id, "source_message_id": "s", "reason": "conflict"}
            self.world.dead_letters.append(letter)

    def in_flight(self) -> None:
        """Add a request that waits: untouched, claimed, left by a crash, or released."""
        message_id = self.new_id()
        self.accept(message_id)
        if self.world.waiting is not None:
            self.world.waiting.append({"message_id": message_id, "sqs_message_id": "s"})
        if self.random.random() < 0.6:
            self.begin(message_id, self.random.choice((0, self.world.now - MINUTE, self.world.now + MINUTE)))

    def begin(self, message_id: str, lease_until: int) -> None:
        """Add the row of a claimed request; its lease is 0 once the consumer released it."""
        self.world.ledger[message_id] = {
            "message_id": message_id,
            "status": "IN_PROGRESS",
            "consumption_count": 1,
            "updated": self.world.now,
            "lease_until": lease_until,
            "claimed_by": "c",
            "payload_hash": "ab",
            "expires_at": self.world.now // 1000 + RETENTION // 1000,
        }

    def complete_one_in_flight(self) -> None:
        """Complete a request that waited."""
        if self.world.waiting:
            waited = self.world.waiting.pop(self.random.randrange(len(self.world.waiting)))
            self.finish_booking(waited["message_id"], self.claimed(waited["message_id"]) + 1)

    def claimed(self, message_id: str) -> int:
        """Return how often a request was claimed."""
        return int(self.world.ledger.get(message_id, {"consumption_count": 0})["consumption_count"])

    def redrive(self) -> None:
        """Complete a corrected message from the dead-letter queue."""
        redriven = [
            letter for letter in self.world.dead_letters if letter["message_id"] and letter["reason"] != "conflict"
        ]
        if self.world.dead_letters and self.random.random() < 0.3:
            self.drop()
        elif redriven:
            letter = self.random.choice(redriven)
            self.world.dead_letters.remove(letter)
            self.finish_booking(letter["message_id"], self.claimed(letter["message_id"]) + 1)

    def drop(self) -> None:
        """Drop a dead letter as an operator."""
        letter = self.world.dead_letters.pop(self.random.randrange(len(self.world.dead_letters)))
        given_up = {name: letter[name] for name in ("message_id", "source_message_id")}
        self.world.dropped.append({**given_up, "at": self.world.now})

    def duplicate(self) -> None:
        """Deliver a late copy of a finished request."""
        done = [line for line in self.world.deliveries if line["answer"]]
        if done:
            line = self.random.choice(done)
            given = {name: line[name] for name in ("claimed_by", "consumption_count", "answer")}
            self.deliver(line["message_id"], "duplicate", **given)

    def expire(self) -> None:
        """Delete the ledger's rows that are older than the retention."""
        old = [key for key, row in self.world.ledger.items() if row["updated"] + RETENTION < self.world.now]
        for message_id in old:
            del self.world.ledger[message_id]

    def straddle(self) -> World:
        """Book at the time of an export. In the returned world the logs show the booking, and the tables not yet."""
        shown = self.world.copy()
        self.book()
        for line in self.world.deliveries[len(shown.deliveries) :]:
            line["finished"] += 10 * MINUTE
        self.world.now += 11 * MINUTE
        shown.accepted, shown.deliveries = deepcopy((self.world.accepted, self.world.deliveries))
        return shown


def write_history(
    world: World, folder: Path, *, since: World | None = None, parts: int = 2, nightly: bool = False
) -> Path:
    """Write the world as a history: full exports, or incremental ones of the changes `since` an earlier world.

    `nightly` writes what there is on AWS: the exports and the delivery log, and no list of a queue.
    """
    for table, items in world.tables().items():
        if since is None:
            lines = [item_line(item) for item in items.values()]
            span: Full | Incremental = Full(world.now)
        else:
            lines = _changes(table, since.tables()[table], items, world.now)
            span = Incremental(since.now, world.now)
        chunks = [lines[number::parts] for number in range(parts)]
        write_export(folder / table, arn(table), span, [Part(b"".join(chunk), len(chunk)) for chunk in chunks])
    known = (0, 0) if since is None else (len(since.accepted), len(since.deliveries))
    write_lines(folder / "deliveries" / "deliveries.jsonl.gz", world.deliveries[known[1] :])
    (folder / "context.json").write_text(json.dumps(_context(world)))
    if nightly:
        return folder
    write_lines(folder / "accepted" / "accepted.jsonl", world.accepted[known[0] :])
    write_lines(folder / "dead-letters" / "dead-letters.jsonl", world.dead_letters)
    write_lines(folder / "dropped" / "dropped.jsonl", world.dropped)
    if world.waiting is not None:
        write_lines(folder / "waiting" / "waiting.jsonl", world.waiting)
    return folder


def _context(world: World) -> Item:
    kept = {"ledger_retention_seconds": world.retention // 1000} if world.retention else {"ledger_retention": "forever"}
    before = datetime.fromtimestamp(world.forgotten_before / 1000, UTC).isoformat()
    return {**kept, "ledger_forgotten_before": before} if world.forgotten_before else kept


def write_lines(path: Path, rows: list[Item]) -> None:
    """Write JSON lines, gzipped if the name ends in .gz."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = "".join(json.dumps(row) + "\n" for row in rows).encode()
    path.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)


def _changes(table: str, before: dict[Any, Item], after: dict[Any, Item], now: int) -> list[bytes]:
    keys = [key for key in {**before, **after} if before.get(key) != after.get(key)]
    return [_change(KEYS[table], before.get(key), after.get(key), (now - 1) * 1000) for key in keys]


def _change(names: Iterable[str], old: Item | None, new: Item | None, written_micros: int) -> bytes:
    """Return a line of an incremental export with new and old images. `names` are those of the key attributes."""
    record: Item = {"Metadata": {"WriteTimestampMicros": {"N": str(written_micros)}}}
    for image, item in (("OldImage", old), ("NewImage", new)):
        if item is not None:
            record |= {"Keys": to_dynamodb_json({name: item[name] for name in names}), image: to_dynamodb_json(item)}
    return json.dumps(record, separators=(",", ":")).encode() + b"\n"
