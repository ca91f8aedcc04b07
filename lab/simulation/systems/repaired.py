"""The application with operators, who repair it from machines of their own, and the laws about what they do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from appointments.statuses import CANCELLED
from lab.explore.practice import APPOINTMENTS, LEDGER, SLOTS, booking
from lab.simulation.sqs.message import Message
from lab.simulation.systems.application import ATTRIBUTES, Application, Request, message_id_of
from lab.simulation.world.faults import REPEATING, kind_of
from lab.simulation.world.kernel import Process
from lab.simulation.world.network import Watched
from lab.simulation.world.simulation import Simulation
from oneslot.laws.evidence import Evidence
from oneslot.operator.evidence.operator_log import BEGUN, DROP, OPERATOR_LOG_FILE, OperatorLog, drops, read_lines
from oneslot.operator.repair.redrive import Redrive
from oneslot.operator.target import Outputs, Target
from oneslot.runtime.sqs.dead_letters import REASON_ATTRIBUTE

RECEIVES = 3
"""Receives before a message becomes a dead letter: few, so that healthy ones do."""
MAXIMUM_BYTES = 4096
"""The size of a message that the queue takes."""
OF_ROWS_THAT_STAY = frozenset({"I2", "I5r", "I6", "I9", "I10", "I11", "Q1"})
"""The laws that an operator suspends for a request whose row is forgotten."""


class Repaired(Application):
    """The application, and the machines of its operators.

    Attributes:
        forgotten: message ids of the rows that an operator deleted.
        settled: whether the last fault is over.
        accepted: SQS ids of the letters of which the queue accepted a copy.
    """

    def __init__(self, simulation: Simulation, *, fifo: bool = False) -> None:
        super().__init__(simulation, fifo=fifo, maximum_receives=RECEIVES)
        self.forgotten: set[str] = set()
        self.settled = False
        self.accepted: set[str] = set()
        self._machines: dict[str, Target] = {}

    def break_down(self, numbers: Iterable[int]) -> None:
        """Let the queue accept requests of these numbers while the consumer is down: whatever waits is received in vain."""
        for number in numbers:
            if self.simulation.keeps(f"request {number}"):
                self.send(self.request(number, self.simulation.random_of(f"request {number}")))
        for _ in range(len(self.sqs.messages(self.queue_url)) * (RECEIVES + 1)):
            self.sqs.receive_message(QueueUrl=self.queue_url, MaxNumberOfMessages=10, VisibilityTimeout=0)

    def add_oversized(self) -> None:
        """Add a dead letter that is too large for the queue, which refuses it for good."""
        message_id = "oversized"
        body = booking(message_id).body + " " * MAXIMUM_BYTES
        group = "g0" if self.fifo else None
        more = {"MessageGroupId": group, "MessageDeduplicationId": message_id} if self.fifo else {}
        reason = {**ATTRIBUTES, REASON_ATTRIBUTE: {"DataType": "String", "StringValue": "invalid_field"}}
        answer = self.sqs.send_message(
            QueueUrl=self.dead_letter_queue_url, MessageBody=body, MessageAttributes=reason, **more
        )
        self.requests[message_id] = Request(message_id, body, group, healthy=False, copies=[answer["MessageId"]])

    def machine(self, process: Process, name: str) -> tuple[Target, OperatorLog]:
        """Return the stack and the operator log, as a process on the machine of this name has them."""
        home = self.simulation.home / name
        home.mkdir(exist_ok=True)
        sqs = Watched(
            self.simulation.client(process, "sqs"),
            {
                "send_message_batch": self._check_send,
                "delete_message_batch": lambda request: self._check_deletion(target, request),
            },
            {"send_message_batch": self._note_accepted},
        )
        dynamodb = Watched(
            self.simulation.client(process, "dynamodb"),
            {
                "update_item": lambda request: self._check_change(target, request),
                "delete_item": lambda request: self._check_change(target, request, forgets=True),
            },
        )
        clients: Any = SimpleNamespace(sqs=lambda: sqs, dynamodb=lambda: dynamodb)
        outputs = Outputs(
            self.queue_url,
            self.dead_letter_queue_url,
            LEDGER,
            "consumer",
            "",
            "",
            {"slots": SLOTS, "appointments": APPOINTMENTS},
        )
        surroundings = self.simulation.surroundings(process)
        target = Target("Oneslot-dev", "the stack", outputs, home, None, clients, surroundings)
        self._machines[name] = target
        log = OperatorLog(home / OPERATOR_LOG_FILE, target.stack_name, target.identity, {"user": name}, surroundings)
        return target, log

    def left(self) -> str:
        """Return what is left to do for the operators, in words; empty for nothing."""
        waiting = len(self.sqs.messages(self.queue_url))
        healthy = sum(self.requests[message_id_of(letter.body)].healthy for letter in self.dead_letters())
        named = {"messages": waiting, "healthy dead letters": healthy}
        return ", ".join(f"{number} {what}" for what, number in named.items() if number)

    def note_run(self, done: Redrive) -> None:
        """Check that a redrive that has ended left nothing but what it says."""
        self.simulation.reached["a redrive ran"] += 1
        returned = any(kind_of(fault.name) == REPEATING for fault in self.simulation.faults.met)
        if not done.left and not returned:
            left = (done.planned - set(done.refused)) & {letter.message_id for letter in self.dead_letters()}
            if left:
                self.simulation.breach("Q10", f"the redrive {done.run} has ended, and left {sorted(left)}")

    def evidence(self) -> Evidence:
        """See `Application`. A letter that an operator dropped is accounted for."""
        dropped = {line["message_id"] for target in self._machines.values() for line in drops(target)}
        evidence = super().evidence()
        return replace(evidence, quarantined=frozenset(evidence.quarantined) | dropped)

    def is_excused(self, law: str, subject: str) -> bool:
        """See `Application`."""
        return subject in self.forgotten and (law in OF_ROWS_THAT_STAY or (law == "I7" and self._is_cancelled(subject)))

    def _is_cancelled(self, appointment_id: str) -> bool:
        """Return whether the appointment is cancelled: a later copy of its forgotten booking answers that."""
        appointment = self.rows(APPOINTMENTS, "appointment_id").get(appointment_id, {})
        return appointment.get("status") == CANCELLED

    def _create(self, name: str, attributes: Mapping[str, str]) -> str:
        """Let the queue take smaller messages than the dead-letter queue."""
        limit = {} if "dead-letters" in name else {"MaximumMessageSize": str(MAXIMUM_BYTES)}
        return super()._create(name, {**attributes, **limit})

    def _check_dead_letter(self, letter: Message) -> None:
        """Check the reason only: healthy messages are dead letters here from the start."""
        if letter.source_arn is None and REASON_ATTRIBUTE not in letter.attributes:
            self.simulation.breach("Q8", f"{letter.message_id}: in the dead-letter queue without a reason")

    def _check_order(self) -> None:
        """Check nothing: a redrive changes the order."""

    def _check_send(self, request: Mapping[str, Any]) -> None:
        """A redrive sends each letter with its producer's attributes."""
        for entry in request["Entries"]:
            if entry.get("MessageAttributes") != ATTRIBUTES:
                self.simulation.breach("Q11", f"sent with the attributes {entry.get('MessageAttributes')}")

    def _note_accepted(self, request: Mapping[str, Any], answer: Any) -> None:
        done = {each["Id"] for each in (answer or {}).get("Successful", ())}
        bodies = {entry["MessageBody"] for entry in request["Entries"] if entry["Id"] in done}
        self.accepted |= {letter.message_id for letter in self.dead_letters() if letter.body in bodies}

    def _check_deletion(self, target: Target, request: Mapping[str, Any]) -> None:
        """A letter is deleted after the queue has accepted a copy, or after a line in the log that it is dropped."""
        dropped = {line["sqs_message_id"] for line in self._begun(target) if line["action"] == DROP}
        deleted = {entry["ReceiptHandle"].partition("/")[0] for entry in request["Entries"]}
        if unsent := deleted - self.accepted - dropped:
            self.simulation.breach("Q12", f"{min(unsent)} is deleted, and neither sent nor dropped")

    def _check_change(self, target: Target, request: Mapping[str, Any], *, forgets: bool = False) -> None:
        """A row is changed after a line about it in the operator log."""
        message_id = request["Key"]["message_id"]["S"]
        if message_id not in {line["message_id"] for line in self._begun(target) if line["action"] != DROP}:
            self.simulation.breach("Q12", f"the row of {message_id} is changed before a line about it")
        if forgets:
            self.forgotten.add(message_id)

    def _begun(self, target: Target) -> list[dict[str, Any]]:
        return [line for line in read_lines(target.home / OPERATOR_LOG_FILE) if line["outcome"] == BEGUN]
