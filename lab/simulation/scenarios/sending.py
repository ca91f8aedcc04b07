"""`oneslot send` and producers, under faults, while a worker consumes, beside what the queue accepted."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from lab.simulation.scenarios.workers import FAULTS_SECONDS, run_worker, short_settings
from lab.simulation.systems.application import Application, Request
from lab.simulation.world.kernel import Process
from lab.simulation.world.network import Watched
from lab.simulation.world.simulation import Simulation
from oneslot.errors import OneslotError
from oneslot.operator.sending.archive import Archive, read_archive
from oneslot.operator.sending.messages import Archived, RequestCopy
from oneslot.operator.sending.sender import BatchSender, send_all
from oneslot.runtime.record import IDENTITY_ATTRIBUTE
from oneslot.runtime.sqs.producer import Accepted as Result
from oneslot.runtime.sqs.producer import NotAccepted, Outgoing, Producer, Refused
from oneslot.runtime.sqs.queue import is_fifo

ARCHIVE = "Q7"
NO_MORE = "Q13"
EACH_ONE = "Q14"
IN_ORDER = "Q4"
ENDS = "Q15"

TWICE = 0.25
"""The share of calls that a message is in twice."""

SHARE_LARGE, LARGE_BYTES = 0.25, 700_000
"""The share of a producer's messages of which no call takes two, and the white space that makes one so large."""

ENDS_WITHIN = 400.0
"""Seconds after the last fault: a sender may have each call wait for its answer, and is then run again."""


def sender(simulation: Simulation) -> None:
    """`oneslot send` with one archive, by one operator or two at once. Each repeats the command until it succeeds."""
    world = Sending(simulation)
    world.run([Send(world, f"send-{number + 1}") for number in range(simulation.number("commands", 1, 2))])


def producers(simulation: Simulation) -> None:
    """Producers with an outbox each; on a FIFO queue an outbox has two groups of its own."""
    world = Sending(simulation)
    world.run([Outbox(world, f"producer-{number + 1}") for number in range(simulation.number("producers", 1, 3))])


class Sending:
    """The application with a worker, and what its queue accepts."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.application = Application(simulation, fifo=simulation.chance("fifo", 2))
        self.accepted = Accepted(self.application)
        self.application.open_slots(simulation.number("slots", 1, 6))
        settings = short_settings(threads=2)
        simulation.keep_running(
            "worker",
            lambda process: run_worker(self.application, process, settings, self.application.consumer(process)),
        )
        if simulation.chance("outage", 3):
            random = simulation.random_of("outage").random
            simulation.network.take_down("sqs", random() * 20, 20 + random() * 40)
        self.archive = simulation.home / "accepted.jsonl"
        self.lease = settings.limit_seconds + settings.hidden_seconds
        self._numbers = itertools.count()

    def messages(self, name: str, most: int) -> list[RequestCopy]:
        """Return the messages of as many further requests."""
        numbers = [next(self._numbers) for _ in range(self.simulation.number(f"messages of {name}", 1, most))]
        return [self._message(number) for number in numbers if self.simulation.keeps(f"request {number}")]

    def _message(self, number: int) -> RequestCopy:
        request = self.application.request(number, self.simulation.random_of(f"request {number}"))
        return RequestCopy(request.body, Archived(request.message_id), number, request.group)

    def archived(self) -> dict[str, str]:
        """Return the message ids in the archive, by SQS id."""
        return {
            sqs_message_id: str(line.subject[0])
            for line in read_archive(self.archive, "this stack")
            for sqs_message_id in line.sqs_message_ids
        }

    def run(self, senders: Sequence[Send | Outbox]) -> None:
        """Let the senders end, first under faults, then without, and the queue drain; every law must hold.

        An operator repeats a command, in a new process, until it has succeeded.
        """
        simulation = self.simulation
        for each in senders:
            simulation.keep_running(each.name, each.run, after_seconds=5.0, done=lambda each=each: each.done)  # type: ignore[misc]
        simulation.run_for(FAULTS_SECONDS)
        simulation.faults.stop()
        if not simulation.run_until(lambda: all(each.done for each in senders), ENDS_WITHIN):
            simulation.breach(ENDS, f"not {ENDS_WITHIN:g} s after the last fault")
        self.application.must_drain(within=2 * self.lease)
        for each in senders:
            each.check()
        self.application.check()


class Send:
    """`oneslot send` of a stream."""

    def __init__(self, world: Sending, name: str) -> None:
        simulation = world.simulation
        self.name = name
        self.done = False
        self._world = world
        self._messages = world.messages(name, 30)
        self._rate = simulation.number(f"rate of {name}", 0, 20) or None
        self._threads = simulation.number(f"threads of {name}", 1, 4)
        interrupted = simulation.chance(f"interrupt {name}", 3)
        self._interrupts = [simulation.number(f"interrupt {name} after", 0, 29)] if interrupted else []

    def run(self, process: Process) -> None:
        """Run the command once. Check the archive however it ended."""
        simulation, application = self._world.simulation, self._world.application
        surroundings = simulation.surroundings(process)
        known: dict[str, str] = {}

        def note(request: Mapping[str, Any], answer: Any) -> None:
            known.update({sqs_message_id: identity(entry) for entry, sqs_message_id in confirmed(request, answer)})

        own = simulation.network.client(process, "sqs", attempts=3, read_timeout=10)
        client: Any = Watched(own, after={"send_message_batch": note})
        archive = Archive(self._world.archive, "this stack", surroundings)
        sender = BatchSender(client, application.queue_url, surroundings)
        counted: list[int] = []
        try:
            sent = send_all(
                self._stream(),
                sender,
                archive,
                progress=counted.append,
                rate=self._rate,
                workers=self._threads,
                surroundings=surroundings,
            )
        except (OneslotError, ClientError, BotoCoreError, KeyboardInterrupt) as error:
            simulation.journal.note(process.name, "ends with an error", type(error).__name__)
            self._check_archive(process, known, sum(counted))
            return
        self._check_archive(process, known, sent.accepted)
        if sent.accepted != len(self._messages):
            simulation.breach(ARCHIVE, f"{process.name}: {sent.accepted} of {len(self._messages)} accepted at its end")
        self.done = True

    def check(self) -> None:
        """Check that the archive has each request of which any process knew, and nothing else."""
        simulation, accepted = self._world.simulation, self._world.accepted
        archived = self._world.archived()
        mine = [str(message.request.message_id) for message in self._messages]
        if missing := set(mine) - set(archived.values()):
            simulation.breach(ARCHIVE, f"not in it after the last run: {', '.join(sorted(missing))}")
        if more := archived.keys() - accepted.ids.keys():
            simulation.breach(NO_MORE, ", ".join(sorted(more)))
        check_order(self._world, mine)

    def _stream(self) -> Iterator[RequestCopy]:
        end = self._interrupts.pop() if self._interrupts else None
        for at, message in enumerate(self._messages):
            if at == end:
                raise KeyboardInterrupt
            yield message

    def _check_archive(self, process: Process, known: dict[str, str], counted: int) -> None:
        if missing := known.keys() - self._world.archived().keys():
            names = ", ".join(sorted(known[sqs_message_id] for sqs_message_id in missing))
            self._world.simulation.breach(ARCHIVE, f"{process.name}: {names}")
        if counted != len(known):
            self._world.simulation.breach(ARCHIVE, f"{process.name}: {counted} counted, {len(known)} known")


class Outbox:
    """A producer with its messages, which it keeps until it knows that they are accepted."""

    def __init__(self, world: Sending, name: str) -> None:
        self.name = name
        self.done = False
        self._world = world
        self._fifo = is_fifo(world.application.queue_url)
        self._all = [self._outgoing(message) for message in world.messages(name, 12)]
        self._left = list(self._all)

    def run(self, process: Process) -> None:
        """Send what is left, a few at a time."""
        simulation, application = self._world.simulation, self._world.application
        surroundings, random = simulation.surroundings(process), simulation.random_of(process.name).random
        client = simulation.network.client(process, "sqs", attempts=2, read_timeout=10)
        producer = Producer(client, application.queue_url, surroundings)
        while self._left:
            batch = self._left[: 1 + int(random() * 12)]
            if random() < TWICE:
                batch = [batch[0], *batch]
            try:
                results = producer.send(batch, within_seconds=1 + random() * 60)
                unconfirmed: Sequence[Outgoing] = ()
            except NotAccepted as error:
                results, unconfirmed = list(error.settled), error.messages
            self._check_results(process, batch, results, unconfirmed)
            settled = {result.message.message_id for result in results}
            self._left = [message for message in self._left if message.message_id not in settled]
            surroundings.sleep(random())
        self.done = True

    def check(self) -> None:
        """Check that the queue accepted each message, in the order of its group."""
        check_order(self._world, [message.message_id for message in self._all])

    def _outgoing(self, message: RequestCopy) -> Outgoing:
        message_id = str(message.request.message_id)
        random = self._world.simulation.random_of(f"group and size of {message_id}")
        group = f"{self.name}-{random.randrange(2)}" if self._fifo else None
        body = message.body + " " * LARGE_BYTES * (random.random() < SHARE_LARGE)
        return Outgoing(message_id, body, group, {"source": self.name})

    def _check_results(
        self,
        process: Process,
        batch: Sequence[Outgoing],
        results: Sequence[Result | Refused],
        unconfirmed: Sequence[Outgoing],
    ) -> None:
        given = Counter(message.message_id for message in batch)
        found = Counter(message.message_id for message in [*(result.message for result in results), *unconfirmed])
        if given != found:
            self._world.simulation.breach(EACH_ONE, f"{process.name}: {dict(given)} sent, {dict(found)} answered")
        for result in results:
            accepted = isinstance(result, Result) and self._world.accepted.ids.get(result.sqs_message_id)
            if accepted != result.message.message_id:
                self._world.simulation.breach(EACH_ONE, f"{process.name}: {result} is not what the queue answered")


def check_order(world: Sending, messages: Sequence[str]) -> None:
    """Check that the queue accepted these, and those of a group in this order."""
    turn = {message_id: at for at, message_id in enumerate(messages)}
    if missing := turn.keys() - world.accepted.ids.values():
        world.simulation.breach(ENDS, f"never accepted: {', '.join(sorted(missing))}")
    for group, order in world.accepted.order.items() if is_fifo(world.application.queue_url) else ():
        turns = [turn[message_id] for message_id in order if message_id in turn]
        if turns != sorted(turns):
            world.simulation.breach(IN_ORDER, f"{group}: {', '.join(order)}")


class Accepted:
    """What the queue accepted from clients. The requests become the application's, which must not lose one.

    Attributes:
        ids: the message id of each message in the queue, by its SQS id.
        order: the message ids of each group, in the order in which the queue accepted their first copies.
    """

    def __init__(self, application: Application) -> None:
        self.ids: dict[str, str] = {}
        self.order: dict[str | None, list[str]] = {}
        self._application = application
        application.simulation.journal.observers.append(self._observe)

    def _observe(self, _: str, operation: str, parameters: Mapping[str, Any], answer: Any) -> None:
        if operation != "send_message_batch" or parameters["QueueUrl"] != self._application.queue_url:
            return
        for entry, sqs_message_id in confirmed(parameters, answer):
            if sqs_message_id not in self.ids:  # a FIFO queue answers a dropped copy with the id of the first
                self._accept(entry, sqs_message_id)

    def _accept(self, entry: Mapping[str, Any], sqs_message_id: str) -> None:
        message_id, group = identity(entry), entry.get("MessageGroupId")
        self.ids[sqs_message_id] = message_id
        request = Request(message_id, entry["MessageBody"], group, healthy=True)
        request = self._application.requests.setdefault(message_id, request)
        if not request.copies:
            self.order.setdefault(group, []).append(message_id)
        request.copies.append(sqs_message_id)


def confirmed(parameters: Mapping[str, Any], answer: Any) -> list[tuple[Mapping[str, Any], str]]:
    """Return the entries that an answer to a batch confirms, with their SQS ids; none without an answer."""
    entries = {entry["Id"]: entry for entry in parameters["Entries"]}
    successful = answer.get("Successful", ()) if isinstance(answer, Mapping) else ()
    return [(entries[each["Id"]], each["MessageId"]) for each in successful]


def identity(entry: Mapping[str, Any]) -> str:
    """Return an entry's message id: its attribute, or the field in its body."""
    attribute = entry.get("MessageAttributes", {}).get(IDENTITY_ATTRIBUTE)
    return str(attribute["StringValue"] if attribute else json.loads(entry["MessageBody"])["message_id"])
