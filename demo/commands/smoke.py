"""`smoke`: one request booked once from two copies, cancelled and cleaned up, on a deployed stack."""

from __future__ import annotations

import json
import random
import string
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import click
from botocore.exceptions import BotoCoreError, ClientError

from appointments.allocation import APPOINTMENTS, SLOTS, free_key, utc_text
from appointments.statuses import CANCELLED, FREE
from demo.errors import SmokeFailed
from demo.next_steps import sample_request
from demo.plan import synthetic_nhs_number
from oneslot.errors import OneslotError
from oneslot.explanations import explain
from oneslot.laws.schema import LEDGER_ATTRIBUTES
from oneslot.operator.evidence.deliveries import valid_deliveries
from oneslot.operator.evidence.tables import read_row
from oneslot.options import Number, json_option, stack_option
from oneslot.runtime.protocol import COMPLETE
from oneslot.runtime.sqs.fifo import is_fifo
from oneslot.runtime.values import to_attributes
from oneslot.target import Target, open_target
from oneslot.terminal import Terminal

LOCAL_INTERVAL, AWS_INTERVAL = 0.2, 2.0
CLOCK_DIFFERENCE_MS = 60_000


@click.command(short_help="Test a new deployment: book once from two copies, cancel, clean up.")
@click.option(
    "--timeout",
    type=Number(min=0, min_open=True),
    default=120.0,
    show_default=True,
    metavar="SECONDS",
    help="Fail a step after this time.",
)
@stack_option
@json_option
def smoke(timeout: float, stack: str | None, as_json: bool) -> int:
    """Send a request and its duplicate, and check for one appointment; then cancel it and check that its slot is free.

    It books the only slot of a made-up practice. The cancelled appointment of a made-up patient and two ledger rows remain,
    because the audit compares them with the delivery log. The rows expire.
    """
    terminal = Terminal(as_json)
    target = open_target(stack)
    steps: list[str] = []

    def say(step: str) -> None:
        steps.append(step)
        terminal.plain(f"ok  {step}")

    test = Smoke(target, timeout, LOCAL_INTERVAL if target.local else AWS_INTERVAL, say)
    failures: list[str] = []
    try:
        failures += _failures(test.check, stack)
    finally:
        # Also after Ctrl-C, so that no slot and no appointment remain.
        terminal.say(f"Cleaning up after {test.message_id} at {test.practice}")
        failures += _failures(test.clean_up, stack)
    failure = next(iter(failures), None)
    document = {"passed": failure is None, "failure": failure, "steps": steps}
    terminal.result(
        {"stack_name": target.stack_name, "practice": test.practice, "message_id": test.message_id, **document}
    )
    terminal.plain(f"The practice {test.practice}, the requests {test.message_id} and {test.message_id}-cancel.")
    if failure:
        terminal.plain(f"FAILED  {failure}", style="red")
    else:
        terminal.plain(f"{target.stack_name} works.", style="green")
    return 0 if failure is None else 1


def _failures(part: Callable[[], None], stack: str | None) -> list[str]:
    """Run a part of the test. Return its failure as a sentence, or an empty list."""
    try:
        part()
    except (OneslotError, BotoCoreError, ClientError) as error:
        return [str(explain(error, stack))]
    return []


class Smoke:
    """One run. `interval` is the time between polls and `timeout` the limit of each wait, in seconds."""

    def __init__(
        self,
        target: Target,
        timeout: float,
        interval: float,
        say: Callable[[str], None],
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._target, self.timeout, self._interval, self._say, self._sleep = target, timeout, interval, say, sleep
        self.message_id = f"smoke-{uuid4().hex[:12]}"
        self.practice = "ZZ" + "".join(random.choices(string.ascii_uppercase, k=4))
        start = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)
        slot = {
            "practice": self.practice,
            "slot_id": f"{start:%Y%m%dT%H%MZ}-01",
            "start": utc_text(start),
            "end": utc_text(start + timedelta(minutes=10)),
            "status": FREE,
            "delivery_channel": "In-person",
            "service_type": "General Consultation Routine",
        }
        self._slot = {**slot, "free_key": free_key(slot)}
        self._is_sent = self._is_cancelled = False

    def check(self) -> None:
        """Open a slot, send twice, expect one appointment, cancel, expect a free slot. Raises `SmokeFailed`."""
        slots, start = self._target.outputs.tables[SLOTS], datetime.fromisoformat(self._slot["start"])
        self._target.dynamodb.put_item(
            TableName=slots, Item=to_attributes(self._slot), ConditionExpression="attribute_not_exists(slot_id)"
        )
        patient, until = synthetic_nhs_number(random.Random()), utc_text(start + timedelta(minutes=1))
        body = sample_request(self.practice, self._slot["start"], until, patient, self.message_id)
        began = time.time_ns() // 1_000_000
        self._is_sent = True  # even if the answer is lost
        copies = {self._send(body), self._send(body)}
        self._wait(lambda: self._is_complete(self.message_id), f"{self.message_id} is complete")
        outcomes = self._wait(lambda: self._outcomes(copies, began), "both copies are in the delivery log")
        if sorted(outcomes) != ["booked", "duplicate"]:
            said = ", ".join(sorted(outcomes))
            raise SmokeFailed(f"Two copies ended as {said} rather than booked, duplicate. {self._look}")
        if self._appointment("slot_id") != self._slot["slot_id"] or self._held_by() != self.message_id:
            raise SmokeFailed(f"The appointment {self.message_id} and its slot do not agree. {self._look}")
        self._say("one appointment; the second copy was answered as a duplicate")
        self._cancel()
        if self._appointment("status") != CANCELLED or self._held_by() is not None:
            raise SmokeFailed(f"The cancellation did not free the slot. {self._look}")
        self._say("cancelled, and the slot is free again")

    def clean_up(self) -> None:
        """Cancel the booking if necessary, and delete the slot if it is free.

        A cancellation that overtakes its booking stops it, so this is safe wherever the check failed.
        """
        if self._is_sent and not self._is_cancelled:
            self._cancel()
        self._target.dynamodb.delete_item(
            TableName=self._target.outputs.tables[SLOTS],
            Key=to_attributes({name: self._slot[name] for name in ("practice", "slot_id")}),
            ConditionExpression="attribute_not_exists(slot_id) OR #status = :free",
            ExpressionAttributeNames={"#status": "status"},
            ExpressionAttributeValues={":free": {"S": FREE}},
        )

    @property
    def _look(self) -> str:
        asked, listed = self._target.command(f"inspect {self.message_id}"), self._target.command("dlq list")
        return f"See `{asked}`, `{listed}`, and the consumer's log."

    def _send(self, body: str) -> str:
        url = self._target.outputs.queue_url
        # On FIFO each copy has its own id: SQS would drop the second one before the ledger sees it.
        order: Any = {"MessageGroupId": self.practice, "MessageDeduplicationId": uuid4().hex} if is_fifo(url) else {}
        return str(self._target.sqs.send_message(QueueUrl=url, MessageBody=body, **order)["MessageId"])

    def _cancel(self) -> None:
        cancel_id = f"{self.message_id}-cancel"
        self._is_cancelled = True
        self._send(json.dumps({"message_id": cancel_id, "type": "cancel", "appointment_id": self.message_id}))
        self._wait(lambda: self._is_complete(cancel_id), f"{cancel_id} is complete")

    def _is_complete(self, message_id: str) -> bool:
        ledger, key = self._target.outputs.ledger_table_name, {"message_id": message_id}
        row = read_row(self._target.dynamodb, ledger, key, LEDGER_ATTRIBUTES)
        return row is not None and row.get("status") == COMPLETE

    def _outcomes(self, copies: set[str], since_ms: int) -> list[str]:
        """Return the outcomes of the copies once all have one; before that an empty list."""
        ended: dict[str, str] = {}
        since = since_ms - CLOCK_DIFFERENCE_MS
        for line in valid_deliveries(self._target, [], since_ms=since, mentioning=self.message_id):
            if line["outcome"] not in ("busy", "failed", "fenced"):
                ended.setdefault(line["sqs_message_id"], line["outcome"])
        return list(ended.values()) if copies <= set(ended) else []

    def _appointment(self, attribute: str) -> Any:
        return self._row(APPOINTMENTS, {"appointment_id": self.message_id}).get(attribute)

    def _held_by(self) -> Any:
        return self._row(SLOTS, {name: self._slot[name] for name in ("practice", "slot_id")}).get("appointment_id")

    def _row(self, table: str, key: dict[str, str]) -> dict[str, Any]:
        attributes = self._target.declaration.schema.tables[table].attributes
        return read_row(self._target.dynamodb, self._target.outputs.tables[table], key, attributes) or {}

    def _wait(self, condition: Callable[[], Any], what: str) -> Any:
        deadline = time.monotonic() + self.timeout
        while not (found := condition()):
            if time.monotonic() > deadline:
                raise SmokeFailed(f"Not within {self.timeout:g} s: {what}. {self._look}")
            self._sleep(self._interval)
        return found
