"""A first audit, of two requests, while messages drain: Java then has loaded and compiled what the run's own audit needs."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from appointments.slot_choice import free_key
from oneslot.commands.audit import open_spark
from oneslot.pipeline.layout import Full, Part, item_line, write_export

SENT = 1_795_000_000_000
NICENESS = 10


def warm_up(memory: str, reads_bytes: int) -> None:
    """Open the Spark session of this process and audit two requests in it. Other work goes first."""
    from oneslot.pipeline.job import audit
    from oneslot.pipeline.settings import AuditSettings

    if sys.platform == "linux":  # there it holds for this thread, and for Java, which inherits it
        os.nice(NICENESS)
    spark = open_spark(memory, reads_bytes)
    with TemporaryDirectory(prefix="oneslot-warm-up-") as folder:
        write_requests(Path(folder) / "history")
        audit(spark, AuditSettings(f"{folder}/history", f"{folder}/audit"))


def write_requests(history: Path) -> None:
    """Write the history of two booked requests, of which one was delivered twice."""
    place = {"practice": "A81001", "start": "2026-11-23T08:00:00Z", "end": "2026-11-23T08:10:00Z"}
    fit = {"delivery_channel": "Video", "service_type": "General Consultation Routine"}
    ids = ("warm-1", "warm-2")
    ledger, slots, appointments, deliveries = (list[dict[str, Any]]() for _ in range(4))
    for number, message_id in enumerate(ids):
        held = {**place, "slot_id": f"slot-{number}"}
        answer = {"outcome": "booked", "appointment_id": message_id, **held}
        row = {"message_id": message_id, "status": "COMPLETE", "consumption_count": 1, "updated": SENT + 90}
        ledger.append({**row, "claimed_by": message_id, "result": json.dumps(answer)})
        slots.append({**held, **fit, "status": "busy", "appointment_id": message_id})
        booked = {"appointment_id": message_id, "status": "booked", "created": SENT + 90, "updated": SENT + 90}
        appointments.append({**held, **fit, **booked})
        for copy in range(number + 1):
            line = {"message": "delivery", "message_id": message_id, "sqs_message_id": f"{message_id}-{copy}"}
            times = {"sent": SENT, "finished": SENT + 100 + copy, "consumption_count": 1, "claimed_by": message_id}
            outcome = "duplicate" if copy else "booked"
            deliveries.append({**line, **times, "outcome": outcome, "answer": json.dumps(answer)})
    free = {**place, **fit, "slot_id": "slot-9", "status": "free"}
    slots.append({**free, "free_key": free_key(free)})
    for table, rows in {"ledger": ledger, "slots": slots, "appointments": appointments}.items():
        part = Part(b"".join(map(item_line, rows)), len(rows))
        write_export(
            history / table, f"arn:aws:dynamodb:eu-west-2:000000000000:table/{table}", Full(SENT + 900), [part]
        )
    accepted = [{"message_id": message_id, "sent": SENT, "copies": 1} for message_id in ids]
    for name, lines in (("deliveries", deliveries), ("accepted", accepted), ("dead-letters", []), ("waiting", [])):
        (history / name).mkdir()
        (history / name / "lines.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
