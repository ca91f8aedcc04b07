"""The appointments application in a simulated world: its queues, its requests, its consumer, and what they left behind."""

import functools
import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from random import Random
from typing import Any

from booking.consumer import appointments_consumer
from demo.declared import CONSUMER
from lab.explore.ours import ENVIRONMENT
from lab.explore.practice import APPOINTMENTS, LEDGER, SLOTS, booking, cancellation, free_slots
from lab.simulation.sqs.queue import Message
from lab.simulation.world.faults import SLOW_SECONDS, is_mild
from lab.simulation.world.kernel import MICROSECONDS, Process
from lab.simulation.world.simulation import Simulation
from oneslot.laws.evidence import Evidence
from oneslot.runtime.consumer.consumer import Consumer
from oneslot.runtime.protocol import COMPLETE
from oneslot.runtime.record import Delivery
from oneslot.runtime.sqs.queue import REASON_ATTRIBUTE, SHORT_WAITS_SHARE, is_fifo
from oneslot.runtime.values import from_attributes, to_attributes

ON_ITS_WAY = "on its way"
"""In the name of a fault whose request lands later."""

GROUPS = ("g0", "g1", "g2")
"""The message groups of a FIFO queue."""

ATTRIBUTES = {"origin": {"DataType": "String", "StringValue": "a producer"}}
"""The attributes of each message."""

MALFORMED = "malformed"
"""The type of a message that the consumer quarantines."""

SHARE_MALFORMED, SHARE_CANCELLATIONS, COPIED = 0.1, 0.2, 0.25
"""The shares of malformed requests, of cancellations, and of requests with a second copy."""

SHARE_LATE, BEGUN, SOON = 0.05, "2026-11-20T08:00:00Z", "2026-11-20T08:00:20Z"
"""The share of bookings whose window ends twenty seconds after the start: later they are refused."""


@dataclass
class Request:
    """A message that the queue accepted. `copies` are its SQS ids. A poisonous one fails in every attempt."""

    message_id: str
    body: str
    group: str | None
    healthy: bool
    copies: list[str] = field(default_factory=list)
    poisonous: bool = False


class Application:
    """One queue with its dead-letter queue and the three tables.

    Attributes:
        padding: follows each body, to make it larger.
        mild_seconds: the longest answer that the consumer survives without a second receive.
        thrice: send three copies of each request at once.
        requests: what the queue accepted, by message id.
        receives, shown: how often each message was received, and made visible before its time, by its SQS id.
        given_up: how often a worker gave a message up at its hard limit, by its SQS id; SQS may not have learned of it.
        effects: how many transactions wrote a request's effects, counted where DynamoDB performs them.
        committed: the requests in the order of their first commits.
        begun: (message id, number of the event) of each attempt that a handler began.
        deliveries: the delivery log.
        in_hand: for each worker, returns how many messages it has now; 0 once it has ended.
    """

    def __init__(
        self,
        simulation: Simulation,
        *,
        fifo: bool = False,
        visibility_seconds: int = 30,
        maximum_receives: int = 10,
        retention_seconds: int = 30 * 86_400,
    ) -> None:
        self.simulation = simulation
        self.fifo = fifo
        self.visibility_seconds = visibility_seconds
        self.maximum_receives = maximum_receives
        suffix = ".fifo" if fifo else ""
        kind = {"FifoQueue": "true"} if fifo else {}
        sqs = simulation.sqs
        retention = {"MessageRetentionPeriod": str(14 * 86_400), "VisibilityTimeout": str(visibility_seconds)}
        self.dead_letter_queue_url = self._create(f"requests-dead-letters{suffix}", {**kind, **retention})
        arn = self.arn_of(self.dead_letter_queue_url)
        policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": maximum_receives})
        self.queue_url = self._create(f"requests{suffix}", {**kind, **retention, "RedrivePolicy": policy})
        self.retention_seconds = retention_seconds
        self.environment = {
            **ENVIRONMENT,
            "ONESLOT_QUEUE_URL": self.queue_url,
            "ONESLOT_DEAD_LETTER_QUEUE_URL": self.dead_letter_queue_url,
            "ONESLOT_LEDGER_RETENTION_SECONDS": str(retention_seconds),
            "ONESLOT_MAX_RECEIVE_COUNT": str(maximum_receives),
        }
        self.thrice = False
        self.padding = ""
        self.mild_seconds = SLOW_SECONDS
        self.sqs = sqs
        self.requests: dict[str, Request] = {}
        self.receives: Counter[str] = Counter()
        self.shown: Counter[str] = Counter()
        self.given_up: Counter[str] = Counter()
        self.effects: Counter[str] = Counter()
        self.committed: list[str] = []
        self.deliveries: list[dict[str, Any]] = []
        self.in_hand: list[Callable[[], int]] = []
        simulation.journal.observers.append(self._observe)
        simulation.writers.append(self._written)

    def arn_of(self, queue_url: str) -> str:
        """Return the ARN of a queue."""
        answer = self.simulation.sqs.get_queue_attributes(QueueUrl=queue_url, AttributeNames=["QueueArn"])
        return str(answer["Attributes"]["QueueArn"])

    def open_slots(self, number: int) -> None:
        """Open this many slots at the practice."""
        for slot in free_slots(number):
            self.simulation.dynamodb.put_item(TableName=SLOTS, Item=to_attributes(slot))

    def request(self, number: int, random: Random) -> Request:
        """Draw a request: mostly a booking, now and then a cancellation of an earlier one, or a malformed message."""
        message_id, draw = f"m{number}", random.random()
        group = GROUPS[random.randrange(len(GROUPS))] if is_fifo(self.queue_url) else None
        if draw < SHARE_MALFORMED:
            return Request(message_id, json.dumps({"message_id": message_id, "type": MALFORMED}), group, healthy=False)
        if draw < SHARE_MALFORMED + SHARE_CANCELLATIONS and number:
            message = cancellation(message_id, f"m{random.randrange(number)}")
        else:
            soon = {"not_before": BEGUN, "not_after": SOON} if draw > 1 - SHARE_LATE else {}
            message = booking(message_id, number % 3, **soon)
        return Request(message_id, message.body, group, healthy=True)

    def send(self, request: Request) -> None:
        """Let the queue accept a copy of a request, without a producer."""
        self.requests[request.message_id] = request
        parameters: dict[str, Any] = {
            "QueueUrl": self.queue_url,
            "MessageBody": request.body + self.padding,
            "MessageAttributes": ATTRIBUTES,
        }
        if request.group is not None:
            name = f"{request.message_id}-{len(request.copies)}"
            parameters |= {"MessageGroupId": request.group, "MessageDeduplicationId": name}
        request.copies.append(self.sqs.send_message(**parameters)["MessageId"])
        self.simulation.network.stir(self.queue_url)

    def send_again(self, message_id: str) -> None:
        """Let the queue accept one more copy of a request, if it is part of this run."""
        if message_id in self.requests:
            self.send(self.requests[message_id])

    def send_over(self, number: int, seconds: float, *, duplicates: bool = True) -> None:
        """Let the queue accept this many requests, spread over this time; one of four has a second copy later.

        Each request has a source of chance of its own, so that the shrinker can leave it out and move no other.
        """
        kernel = self.simulation.kernel
        for each in range(number):
            random = self.simulation.random_of(f"request {each}")
            request = self.request(each, random)
            ordered = is_fifo(self.queue_url)
            first = seconds * (each / number if ordered else random.random())
            copied = duplicates and random.random() < COPIED
            second = first + random.random() * (seconds - first)
            moments = [first, first, first] if self.thrice else [first, second][: 1 + copied]
            for at in moments if self.simulation.keeps(f"request {each}") else []:
                kernel.at(kernel.now + int(at * MICROSECONDS), functools.partial(self.send, request))

    def consumer(self, process: Process, variables: Mapping[str, str] | None = None) -> Consumer[Any]:
        """Return the consumer in a process. `variables` replace those of its environment."""
        return appointments_consumer(
            {**self.environment, **(variables or {})},
            lambda delivery: self._log(process, delivery),
            dynamodb=self.simulation.network.client(process, "dynamodb"),
            sqs=self.simulation.network.client(process, "sqs"),
            surroundings=self.simulation.surroundings(process),
        )

    def must_recover(self, after: float, within: float) -> None:
        """Let the world run for `after` seconds, the last ones with faults; then it must drain."""
        self.simulation.run_for(after)
        self.simulation.faults.stop()
        self.must_drain(within)

    def must_drain(self, within: float) -> None:
        """Let the world run until the queue is empty. It must be so within this many seconds after the last fault."""
        simulation = self.simulation
        left = within + max(0.0, (simulation.network.last_fault - simulation.kernel.now) / 1_000_000)
        if not simulation.run_until(lambda: not self.sqs.messages(self.queue_url), left):
            waiting = ", ".join(sorted(message_id_of(message.body) for message in self.sqs.messages(self.queue_url)))
            simulation.breach("Q6", f"{within:g} s after the last fault these still wait: {waiting}")
        elif not simulation.run_until(lambda: not any(count() for count in self.in_hand), within):
            simulation.breach("Q6", f"{within:g} s after the queue drained, a worker still has messages in hand")

    def rows(self, table: str, *names: str) -> dict[Any, dict[str, Any]]:
        """Return a table's rows by the values of these attributes."""
        rows = [from_attributes(item) for item in self.simulation.dynamodb.contents.tables[table].values()]
        return {row[names[0]] if len(names) == 1 else tuple(row[name] for name in names): row for row in rows}

    def dead_letters(self) -> list[Message]:
        """Return the messages in the dead-letter queue."""
        return self.sqs.messages(self.dead_letter_queue_url)

    def evidence(self) -> Evidence:
        """Return what the run left behind, for `appointments.invariants`."""
        ids = [message_id_of(letter.body) for letter in self.dead_letters()]
        return CONSUMER.evidence(
            requests=list(self.requests),
            ledger=self.rows(LEDGER, "message_id"),
            slots=self.rows(SLOTS, "practice", "slot_id"),
            appointments=self.rows(APPOINTMENTS, "appointment_id"),
            quarantined=frozenset(ids),
            deliveries=self.deliveries,
            waiting=frozenset(message_id_of(message.body) for message in self.sqs.messages(self.queue_url)),
            now=self.simulation.now_ms,
            retention_ms=1000 * self.retention_seconds,
        )

    def is_excused(self, law: str, subject: str) -> bool:
        """Return whether an operator has suspended a law for this request."""
        return False

    def check(self) -> None:
        """Check every law about what the run left behind."""
        simulation = self.simulation
        for breach in CONSUMER.check(self.evidence()):
            if not self.is_excused(breach.invariant, breach.subject):
                simulation.breach(breach.invariant, f"{breach.subject}: {breach.detail}")
        for message_id, count in self.effects.items():
            if count > 1 and not self.is_excused("Q1", message_id):
                simulation.breach("Q1", f"{message_id}: {count} transactions wrote its effects")
        self.check_deliveries()
        if is_fifo(self.queue_url):
            self._check_order()

    def check_deliveries(self) -> None:
        """Check the laws about receives and dead letters."""
        for letter in self.dead_letters():
            self._check_dead_letter(letter)
        for request in self.requests.values():
            if len(request.copies) == 1 and not request.poisonous:  # a copy may meet its twin at work
                self._check_receives(request)

    def _check_receives(self, request: Request) -> None:
        """A message is received once, and again after it was shown; a crash costs two receives, and short waits a share.

        A request of the killed process that lands later is one more: it can shorten the time that its successor asked for.
        """
        simulation = self.simulation
        copy = request.copies[0]
        received, due = self.receives[copy], 1 + max(self.shown[copy], self.given_up[copy])
        crashes = sum("crash" in fault.name for fault in simulation.faults.met)
        landing = sum(ON_ITS_WAY in fault.name for fault in simulation.faults.met)
        said = f"{request.message_id}: received {received} times"
        if simulation.network.calm and received > due:
            simulation.breach("Q2", f"{said} on a calm network")
        elif is_mild(simulation.faults.met, self.mild_seconds) and not simulation.network.had_outage and received > due:
            simulation.breach("Q2", f"{said} though its worker could keep it hidden")
        if simulation.network.only_crashes and received > 2 * crashes + landing + due + self._short_waits:
            simulation.breach("Q3", f"{said} after {crashes} crashes")

    @property
    def _short_waits(self) -> int:
        """The receives that a busy message may spend on waits shorter than the lease."""
        return max(0, self.maximum_receives // SHORT_WAITS_SHARE - 1)

    def _check_dead_letter(self, letter: Message) -> None:
        message_id = message_id_of(letter.body)
        request = self.requests.get(message_id)
        by_policy = letter.source_arn is not None
        if not by_policy and REASON_ATTRIBUTE not in letter.attributes:
            self.simulation.breach("Q8", f"{message_id}: in the dead-letter queue without a reason")
        crashes = len(self.simulation.faults.met)
        due = 1 + self.shown[letter.message_id] + 2 * crashes + self._short_waits
        few = self.simulation.network.only_crashes and due <= self.maximum_receives
        if request and request.healthy and by_policy and few:
            self.simulation.breach("Q3", f"{message_id}: healthy, and in the dead-letter queue after {crashes} crashes")

    def _check_order(self) -> None:
        """Of each group, first commits follow the order of sending, and none begins before the one before is done."""
        turn = {message_id: position for position, message_id in enumerate(self.requests)}
        last: dict[str, str] = {}
        for message_id in self.committed:
            request = self.requests[message_id]
            before = last.get(str(request.group))
            if before is not None and turn[before] > turn[message_id]:
                self.simulation.breach("Q4", f"{message_id} committed after {before} of the same group")
            last[str(request.group)] = message_id

    def _create(self, name: str, attributes: Mapping[str, str]) -> str:
        return str(self.simulation.sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"])

    def _log(self, process: Process, delivery: Delivery) -> None:
        process.check()
        self.deliveries.append(asdict(delivery))
        self.simulation.journal.reached[f"outcome: {delivery.outcome}"] += 1

    def _observe(self, process: str, operation: str, parameters: Mapping[str, Any], answer: Any) -> None:
        if operation == "receive_message" and parameters["QueueUrl"] == self.queue_url and isinstance(answer, Mapping):
            for message in answer.get("Messages", ()):
                self.receives[message["MessageId"]] += 1
        if operation == "change_message_visibility_batch" and isinstance(answer, Mapping):
            done = {entry["Id"] for entry in answer.get("Successful", ())}
            for entry in parameters["Entries"]:
                if entry["VisibilityTimeout"] == 0 and entry["Id"] in done:
                    self.shown[entry["ReceiptHandle"].partition("/")[0]] += 1

    def _written(self, table: str, key: str, before: Any, after: Any) -> None:
        """Count the writes that make a request's row COMPLETE: its commits, whatever the row said before.

        A row that has expired is forgotten: the effects themselves keep a later copy from being done again.
        """
        if table == LEDGER and after is None:
            self.effects.pop(before["message_id"]["S"], None)
        elif table == LEDGER and after is not None and after["status"]["S"] == COMPLETE:
            message_id = after["message_id"]["S"]
            self.effects[message_id] += 1
            if message_id not in self.committed:
                self.committed.append(message_id)


def message_id_of(body: str) -> str:
    """Return the message id in a body."""
    return str(json.loads(body)["message_id"])
