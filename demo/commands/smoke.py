"""`smoke`: one request booked once from two copies, cancelled and cleaned up, on a deployed stack."""

import json
import random
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from uuid import uuid4

import click
from botocore.exceptions import BotoCoreError, ClientError

from appointments.allocation import SLOTS, free_key, utc_text
from appointments.statuses import FREE
from demo.errors import SmokeFailed
from demo.next_steps import sample_request
from demo.plan import synthetic_nhs_number
from oneslot.errors import OneslotError
from oneslot.laws.schema import LEDGER_ATTRIBUTES
from oneslot.operator.evidence.deliveries import valid_deliveries
from oneslot.operator.evidence.tables import read_row
from oneslot.operator.explanations import explain
from oneslot.operator.options import Number, json_option, stack_option
from oneslot.operator.target import Target, open_target
from oneslot.operator.terminal import Terminal
from oneslot.runtime.protocol import COMPLETE
from oneslot.runtime.sqs.queue import is_fifo
from oneslot.runtime.values import to_attributes

INTERVAL_SECONDS = 1.0
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
    terminal, target = Terminal(as_json), open_target(stack)
    test = Smoke(target, timeout)
    steps: list[str] = []
    failures: list[str] = []

    def run(part: Callable[[], str]) -> None:
        try:
            steps.append(part())
            terminal.plain(f"ok  {steps[-1]}")
        except (OneslotError, BotoCoreError, ClientError) as error:
            failures.append(str(explain(error, stack)))

    try:
        run(test.check)
    finally:
        # Also after Ctrl-C, so that no slot and no appointment remain.
        terminal.say(f"Cleaning up after {test.message_id} at {test.practice}")
        run(test.clean_up)
    failure = next(iter(failures), None)
    tested = {"stack_name": target.stack_name, "practice": test.practice, "message_id": test.message_id}
    terminal.result({**tested, "passed": not failures, "failure": failure, "steps": steps})
    said, style = (f"FAILED  {failure}", "red") if failure else (f"{target.stack_name} works.", "green")
    terminal.plain(said, style=style)
    return 1 if failure else 0


class Smoke:
    """One run. `timeout` is the limit of each wait, in seconds."""

    def __init__(self, target: Target, timeout: float, sleep: Callable[[float], None] = time.sleep) -> None:
        self._target, self.timeout, self._sleep = target, timeout, sleep
        self.message_id, self.practice = f"smoke-{uuid4().hex[:12]}", "ZZ" + uuid4().hex[:4].upper()
        self._start = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)
        self._key = {"practice": self.practice, "slot_id": f"{self._start:%Y%m%dT%H%MZ}-01"}
        self._is_sent = False
        asked, listed = target.command(f"inspect {self.message_id}"), target.command("dlq list")
        self._look = f"See `{asked}`, `{listed}`, and the consumer's log."

    def check(self) -> str:
        """Open a slot, send a request twice, and expect one appointment. Raises `SmokeFailed`."""
        start, end = utc_text(self._start), utc_text(self._start + timedelta(minutes=10))
        patient, began = synthetic_nhs_number(random.Random()), time.time_ns() // 1_000_000
        body = sample_request(self.practice, start, end, patient, self.message_id)
        asked = json.loads(body)
        slot = {**self._key, "start": start, "end": end, "status": FREE}
        slot |= {name: asked[name] for name in ("delivery_channel", "service_type")}
        self._target.dynamodb.put_item(
            TableName=self._target.outputs.tables[SLOTS],
            Item=to_attributes({**slot, "free_key": free_key(slot)}),
            ConditionExpression="attribute_not_exists(slot_id)",
        )
        self._is_sent = True  # even if the answer is lost
        copies = {self._send(body), self._send(body)}
        self._wait_until_complete(self.message_id)
        outcomes = self._wait(lambda: self._outcomes(copies, began), "both copies are in the delivery log")
        if sorted(outcomes) != ["booked", "duplicate"]:
            said = ", ".join(sorted(outcomes))
            raise SmokeFailed(f"Two copies ended as {said} rather than booked, duplicate. {self._look}")
        return "one appointment; the second copy was answered as a duplicate"

    def clean_up(self) -> str:
        """Cancel the booking, and delete the slot. Raises `SmokeFailed` if that did not free it.

        A cancellation that overtakes its booking stops it, so this is safe wherever the check failed.
        """
        if self._is_sent:
            cancel_id = f"{self.message_id}-cancel"
            self._send(json.dumps({"message_id": cancel_id, "type": "cancel", "appointment_id": self.message_id}))
            self._wait_until_complete(cancel_id)
        try:
            self._target.dynamodb.delete_item(
                TableName=self._target.outputs.tables[SLOTS],
                Key=to_attributes(self._key),
                ConditionExpression="attribute_not_exists(slot_id) OR #status = :free",
                ExpressionAttributeNames={"#status": "status"},
                ExpressionAttributeValues={":free": {"S": FREE}},
            )
        except self._target.dynamodb.exceptions.ConditionalCheckFailedException as error:
            raise SmokeFailed(f"The cancellation did not free the slot. {self._look}") from error
        return "cancelled, and the slot is free again"

    def _send(self, body: str) -> str:
        url = self._target.outputs.queue_url
        # On FIFO each copy has its own id: SQS would drop the second one before the ledger sees it.
        order: Any = {"MessageGroupId": self.practice, "MessageDeduplicationId": uuid4().hex} if is_fifo(url) else {}
        return str(self._target.sqs.send_message(QueueUrl=url, MessageBody=body, **order)["MessageId"])

    def _outcomes(self, copies: set[str], since_ms: int) -> list[str]:
        """Return the outcomes of the copies once all have one; before that an empty list."""
        ended: dict[str, str] = {}
        since = since_ms - CLOCK_DIFFERENCE_MS
        for line in valid_deliveries(self._target, [], since_ms=since, mentioning=self.message_id):
            if line["outcome"] not in ("busy", "failed", "fenced"):
                ended.setdefault(line["sqs_message_id"], line["outcome"])
        return list(ended.values()) if copies <= set(ended) else []

    def _wait_until_complete(self, message_id: str) -> None:
        ledger, key = self._target.outputs.ledger_table_name, {"message_id": message_id}
        read = partial(read_row, self._target.dynamodb, ledger, key, LEDGER_ATTRIBUTES)
        self._wait(lambda: (read() or {}).get("status") == COMPLETE, f"{message_id} is complete")

    def _wait(self, condition: Callable[[], Any], what: str) -> Any:
        deadline = time.monotonic() + self.timeout
        while not (found := condition()):
            if time.monotonic() > deadline:
                raise SmokeFailed(f"Not within {self.timeout:g} s: {what}. {self._look}")
            self._sleep(INTERVAL_SECONDS)
        return found
