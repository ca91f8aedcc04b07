"""Operators at their terminals while workers consume: redrives, drops, unlocked and forgotten rows.

Each operator runs one command after another. A command that dies is followed by another process on the same machine. The
operators may work on machines of their own, or at two terminals of one.
"""

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from appointments.statuses import CANCELLED
from lab.explore.practice import APPOINTMENTS, LEDGER, SLOTS, booking
from lab.simulation.scenarios.workers import run_worker
from lab.simulation.sqs.queue import Message
from lab.simulation.systems.application import ATTRIBUTES, Application, Request, message_id_of
from lab.simulation.world.faults import REPEATING, kind_of
from lab.simulation.world.kernel import MICROSECONDS, Process
from lab.simulation.world.network import Watched
from lab.simulation.world.simulation import Simulation
from oneslot.errors import OneslotError
from oneslot.laws.evidence import Evidence
from oneslot.operator.evidence.malformed import Standing, standing
from oneslot.operator.evidence.operator_log import BEGUN, DROP, OPERATOR_LOG_FILE, OperatorLog, drops, read_lines
from oneslot.operator.repair.forecast import forecast_all
from oneslot.operator.repair.ledger_row import advice, consequences, forget, read_row, unlock
from oneslot.operator.repair.redrive import Redrive, drop, redrive
from oneslot.operator.target import Outputs, Target
from oneslot.runtime.sqs.dead_letters import HIDDEN_SECONDS
from oneslot.runtime.sqs.queue import REASON_ATTRIBUTE
from oneslot.worker.settings import WorkerSettings

FAULTS_SECONDS = 600.0
"""Faults happen in this part of a run."""
OUTAGES = 3
"""Outages of the consumer in this time, each with dead letters."""
SHIFT_SECONDS, BREAK_SECONDS = 6.0, 54.0
"""How long a worker runs, and the time until the next: an idle one costs more steps than all operators."""
LOOKS = 40
"""Looks at the ledger, one a second, for a row to unlock."""
THINKING_SECONDS = 40.0
"""The longest time from a look at a row to its change: it can change in between."""
RATE = 100.0
REST_SECONDS = HIDDEN_SECONDS + 10
"""A failed command advises to continue in five minutes."""

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
            self.simulation.network.client(process, "sqs"),
            {
                "send_message_batch": self._check_send,
                "delete_message_batch": lambda request: self._check_deletion(target, request),
            },
            {"send_message_batch": self._note_accepted},
        )
        dynamodb = Watched(
            self.simulation.network.client(process, "dynamodb"),
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
        self.simulation.journal.reached["a redrive ran"] += 1
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


Command = Callable[[Repaired, Target, OperatorLog], None]


def redrives(simulation: Simulation) -> None:
    """Redrives on a standard queue."""
    repair(Repaired(simulation), [run_redrive])


def redrives_fifo(simulation: Simulation) -> None:
    """Redrives on a FIFO queue."""
    repair(Repaired(simulation, fifo=True), [run_redrive])


def operators(simulation: Simulation) -> None:
    """Redrives, drops, and rows that are unlocked or forgotten."""
    repair(Repaired(simulation), [run_redrive, run_drop, run_drop, run_unlock, run_forget])


def repair(application: Repaired, commands: list[Command]) -> None:
    """Let operators repair what workers consume, under faults; then every redrive must end, and every law hold."""
    simulation = application.simulation
    settings = WorkerSettings(threads=2, limit_seconds=30, wait_seconds=5, grace_seconds=10)

    def work(process: Process) -> None:
        run_worker(application, process, settings, application.consumer(process), stop_after=SHIFT_SECONDS)

    application.open_slots(simulation.number("slots", 1, 6))
    messages = simulation.number("messages", 1, 15)
    if simulation.chance("oversized", 4):
        application.add_oversized()
    for outage in range(OUTAGES):
        ids = range(outage * messages // OUTAGES, (outage + 1) * messages // OUTAGES)
        simulation.kernel.at(
            int(outage * FAULTS_SECONDS / OUTAGES) * MICROSECONDS, functools.partial(application.break_down, ids)
        )
    for number in range(simulation.number("workers", 1, 2)):
        simulation.keep_running(f"worker-{number + 1}", work, after_seconds=BREAK_SECONDS)
    one_machine = simulation.chance("one_machine", 3)
    for number in range(simulation.number("operators", 1, 2)):
        machine = "machine-1" if one_machine else f"machine-{number + 1}"
        simulation.keep_running(
            f"operator-{number + 1}",
            lambda process, machine=machine: run_operator(application, process, machine, commands),  # type: ignore[misc]
            after_seconds=simulation.number(f"pause-{number + 1}", 2, 60),
        )
    simulation.run_for(FAULTS_SECONDS)
    simulation.faults.stop()
    simulation.run_until(lambda: False, max(0.0, (simulation.network.last_fault - simulation.kernel.now) / 1_000_000))
    application.settled = True
    if not simulation.run_until(lambda: not application.left(), within=5 * REST_SECONDS):
        simulation.breach("Q10", f"still to do: {application.left()}")
    application.must_drain(within=2 * settings.limit_seconds + 2 * settings.hidden_seconds + 2 * BREAK_SECONDS)
    application.check()


def run_operator(application: Repaired, process: Process, machine: str, commands: list[Command]) -> None:
    """Run one command after another until the process dies."""
    target, log = application.machine(process, machine)
    while True:
        # The last command of a world without faults is a redrive: it ends what is left.
        choice = 0 if application.settled else int(target.surroundings.jitter() * len(commands))
        try:
            commands[choice](application, target, log)
        except (OneslotError, ClientError, BotoCoreError) as error:
            application.simulation.journal.note(process.name, "fails", type(error).__name__)
            target.surroundings.sleep(REST_SECONDS)
        target.surroundings.sleep(1 + 60 * target.surroundings.jitter())


def run_redrive(application: Repaired, target: Target, log: OperatorLog) -> None:
    """Redrive what it helps, or now and then everything."""
    everything = not application.settled and target.surroundings.jitter() * 4 < 1
    planned = {each.letter.sqs_message_id for each in forecast_all(target)[0] if everything or each.helps}
    if not planned:
        return
    one = Redrive(frozenset(planned), RATE, target.surroundings.new_id())
    redrive(target, one, lambda _: None)
    application.note_run(one)
    if one.left:
        target.surroundings.sleep(REST_SECONDS)


def run_drop(application: Repaired, target: Target, log: OperatorLog) -> None:
    """Drop what has its answer; or, accepting the loss, everything."""
    accept_loss = target.surroundings.jitter() * 2 < 1
    forecasts = [each for each in forecast_all(target)[0] if each.finished or accept_loss]
    drop(target, {each.letter.sqs_message_id: each for each in forecasts}, log, lambda _: None)


def run_unlock(application: Repaired, target: Target, log: OperatorLog) -> None:
    """Wait for a leased row, look at it, and end its lease."""
    for _ in range(LOOKS):
        for message_id in application.rows(LEDGER, "message_id"):
            row = read_row(target, message_id)
            now = target.surroundings.now_ms()
            if standing(row, now) is Standing.LEASED:
                application.simulation.journal.note("operator", "reads", advice(target, row, now))
                target.surroundings.sleep(THINKING_SECONDS * target.surroundings.jitter())
                unlock(target, row, log)
                return
        target.surroundings.sleep(1)


def run_forget(application: Repaired, target: Target, log: OperatorLog) -> None:
    """Look at a row and at what forgetting it brings about; forget it if it is not leased."""
    ids = list(application.requests) or ["none"]
    row = read_row(target, ids[int(target.surroundings.jitter() * len(ids))])
    now = target.surroundings.now_ms()
    application.simulation.journal.note("operator", "reads", (advice(target, row, now), consequences(target, row)))
    if standing(row, now) is not Standing.LEASED:
        target.surroundings.sleep(THINKING_SECONDS * target.surroundings.jitter())
        forget(target, row, log)
