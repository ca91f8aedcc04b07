"""The smoke test of a deployed stack: a request and its duplicate, at a made-up practice."""

from __future__ import annotations

import json
import random
import string
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from botocore.exceptions import ClientError

from appointments.allocation import APPOINTMENTS, SLOTS, free_key, utc_text
from appointments.statuses import BUSY, CANCELLED, FREE
from demo.errors import SmokeFailed
from demo.next_steps import sample_request
from demo.plan import synthetic_nhs_number
from oneslot.laws.schema import LEDGER_ATTRIBUTES
from oneslot.operator.evidence.deliveries import valid_deliveries
from oneslot.operator.evidence.tables import read_row
from oneslot.runtime.protocol import COMPLETE
from oneslot.runtime.sqs.fifo import is_fifo
from oneslot.runtime.stores.expressions import error_code
from oneslot.runtime.values import from_attributes, to_attributes
from oneslot.target import Target

CHANNEL, SERVICE = "In-person", "General Consultation Routine"
COPIES = 2
CLOCK_DIFFERENCE_MS = 60_000
SERVER_FAULT = 500


@dataclass
class Smoke:
    """One run. `interval` is the time between polls and `timeout` the limit of each wait, in seconds."""

    target: Target
    timeout: float
    interval: float
    say: Callable[[str], None]
    sleep: Callable[[float], None] = time.sleep
    run: str = field(default_factory=lambda: uuid4().hex[:12])
    practice: str = field(default_factory=lambda: "ZZ" + "".join(random.choices(string.ascii_uppercase, k=4)))
    slot_opened: bool = False
    sent: bool = False
    cancelled: bool = False
    settled: bool = False

    @property
    def message_id(self) -> str:
        """The id of the booking and of its appointment."""
        return f"smoke-{self.run}"

    @property
    def cancel_id(self) -> str:
        """The cancellation's id."""
        return f"smoke-{self.run}-cancel"

    @property
    def look(self) -> str:
        """The sentence that says what to look at after a failure."""
        asked, listed = self.target.command(f"inspect {self.message_id}"), self.target.command("dlq list")
        return f"See `{asked}`, `{listed}`, and the consumer's log."

    def check(self) -> None:
        """Open a slot, send twice, expect one appointment, cancel, expect a free slot. Raises `SmokeFailed`."""
        start = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)
        slot_id = f"{start:%Y%m%dT%H%MZ}-01"
        self._open_slot(slot_id, start)
        self.say(f"one free slot at the made-up practice {self.practice}")
        last = utc_text(start + timedelta(minutes=1))
        body = sample_request(
            self.practice, utc_text(start), last, synthetic_nhs_number(random.Random()), self.message_id
        )
        began = time.time_ns() // 1_000_000
        sent = {self._send_first(body), *(self._send(body) for _ in range(COPIES - 1))}
        self.say(f"{self.message_id} sent {COPIES} times")
        self._wait(lambda: self._complete(self.message_id), f"{self.message_id} is complete")
        outcomes = self._wait(lambda: self._outcomes(sent, began), "both copies are in the delivery log")
        if sorted(outcomes) != ["booked", "duplicate"]:
            raise SmokeFailed(
                f"Two copies ended as {', '.join(sorted(outcomes))} rather than booked, duplicate. {self.look}"
            )
        appointment, slot = self._appointment(), self._slot(slot_id)
        if (
            appointment.get("slot_id") != slot_id
            or slot.get("appointment_id") != self.message_id
            or slot["status"] != BUSY
        ):
            raise SmokeFailed(f"The appointment {self.message_id} and its slot do not agree. {self.look}")
        self.say("one appointment; the second copy was answered as a duplicate")
        self._settle()
        if self._appointment().get("status") != CANCELLED or self._slot(slot_id)["status"] != FREE:
            raise SmokeFailed(f"The cancellation did not free the slot. {self.look}")
        self.say("cancelled, and the slot is free again")

    def clean_up(self) -> None:
        """Cancel the booking if necessary, and delete the slot once it is free.

        A cancellation that overtakes its booking stops it, so this is safe wherever the check failed.
        """
        if not self.slot_opened:
            return
        if self.sent and not self.cancelled:
            self._settle()
        for slot in self._slots():
            try:
                self.target.dynamodb.delete_item(
                    TableName=self.target.outputs.tables[SLOTS],
                    Key=to_attributes({"practice": self.practice, "slot_id": slot["slot_id"]}),
                    ConditionExpression="#status = :free",
                    ExpressionAttributeNames={"#status": "status"},
                    ExpressionAttributeValues={":free": {"S": FREE}},
                )
            except ClientError as error:
                if error_code(error) != "ConditionalCheckFailedException":
                    raise
                raise SmokeFailed(f"The slot of {self.practice} is busy, so it was not deleted. {self.look}") from error
        self.slot_opened = False

    def remains(self) -> list[str]:
        """Return what remains: rows that the audit compares with the delivery log, and what a failure left."""
        slot = [f"perhaps the slot of the made-up practice {self.practice}"] if self.slot_opened else []
        if self.settled:
            return [
                *slot,
                f"appointment {self.message_id}, cancelled, of a made-up patient",
                f"ledger rows {self.message_id} and {self.cancel_id}, until they expire",
                "their lines in the delivery log",
            ]
        requests = " and ".join([self.message_id, *([self.cancel_id] if self.cancelled else [])])
        return [*slot, *([f"{requests} in the queue, or what the stack makes of it"] if self.sent else [])]

    def _open_slot(self, slot_id: str, start: datetime) -> None:
        self.slot_opened = True
        slot = {
            "practice": self.practice,
            "slot_id": slot_id,
            "start": utc_text(start),
            "end": utc_text(start + timedelta(minutes=10)),
            "status": FREE,
            "delivery_channel": CHANNEL,
            "service_type": SERVICE,
        }
        self.target.dynamodb.put_item(
            TableName=self.target.outputs.tables[SLOTS],
            Item=to_attributes({**slot, "free_key": free_key(slot)}),
            ConditionExpression="attribute_not_exists(slot_id)",
        )

    def _send(self, body: str) -> str:
        url = self.target.outputs.queue_url
        # On FIFO each copy has its own id: SQS would drop the second one before the ledger sees it.
        order: Any = {"MessageGroupId": self.practice, "MessageDeduplicationId": uuid4().hex} if is_fifo(url) else {}
        return str(self.target.sqs.send_message(QueueUrl=url, MessageBody=body, **order)["MessageId"])

    def _send_first(self, body: str) -> str:
        self.sent = True  # even if the answer is lost
        try:
            return self._send(body)
        except ClientError as refusal:
            self.sent = refusal.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 400) >= SERVER_FAULT
            raise

    def _settle(self) -> None:
        self._cancel()
        self._wait(lambda: self._complete(self.cancel_id), f"{self.cancel_id} is complete")
        self.settled = True

    def _cancel(self) -> None:
        self._send(json.dumps({"message_id": self.cancel_id, "type": "cancel", "appointment_id": self.message_id}))
        self.cancelled = True

    def _complete(self, message_id: str) -> bool:
        ledger, key = self.target.outputs.ledger_table_name, {"message_id": message_id}
        row = read_row(self.target.dynamodb, ledger, key, LEDGER_ATTRIBUTES)
        return row is not None and row.get("status") == COMPLETE

    def _outcomes(self, sent: set[str], since_ms: int) -> list[str]:
        """Return the outcomes of the copies once all have one; before that an empty list."""
        ended: dict[str, str] = {}
        since = since_ms - CLOCK_DIFFERENCE_MS
        for line in valid_deliveries(self.target, [], since_ms=since, mentioning=self.message_id):
            if line["outcome"] not in ("busy", "failed", "fenced"):
                ended.setdefault(line["sqs_message_id"], line["outcome"])
        return list(ended.values()) if sent <= set(ended) else []

    def _appointment(self) -> dict[str, Any]:
        return self._own(APPOINTMENTS, {"appointment_id": self.message_id})

    def _slot(self, slot_id: str) -> dict[str, Any]:
        return self._own(SLOTS, {"practice": self.practice, "slot_id": slot_id})

    def _slots(self) -> Iterator[dict[str, Any]]:
        answer = self.target.dynamodb.query(
            TableName=self.target.outputs.tables[SLOTS],
            ConsistentRead=True,
            KeyConditionExpression="practice = :practice",
            ExpressionAttributeValues={":practice": {"S": self.practice}},
        )
        for item in answer["Items"]:
            yield from_attributes(item)

    def _own(self, table: str, key: dict[str, str]) -> dict[str, Any]:
        attributes = self.target.declaration.schema.tables[table].attributes
        return read_row(self.target.dynamodb, self.target.outputs.tables[table], key, attributes) or {}

    def _wait(self, condition: Callable[[], Any], what: str) -> Any:
        deadline = time.monotonic() + self.timeout
        while not (found := condition()):
            if time.monotonic() > deadline:
                raise SmokeFailed(f"Not within {self.timeout:g} s: {what}. {self.look}")
            self.sleep(self.interval)
        return found
