"""The local event source mapping: from the queue to the real handler and back, by AWS's rules.

The embedded AWS has a mapping of its own, but that one deletes batches that AWS would retry, ignores the batching
window and competes with other consumers. So it is disabled, and this one takes its place. It reads the configuration
of the deployed mapping, function and queue when it starts.
"""

from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Self

from oneslot.errors import OneslotError
from oneslot.local.aws.connection import Connection
from oneslot.local.mapping.configuration import MappingConfiguration, read_mapping
from oneslot.local.mapping.handler_pool import Environment, HandlerPool
from oneslot.local.mapping.handler_process import FunctionError, HandlerProcess
from oneslot.local.mapping.installation import Installation, install
from oneslot.local.mapping.poller import Poller, Statistics, StatisticsCounter
from oneslot.runtime.surroundings import Surroundings

DEFAULT_PROCESSES = 4
PAUSED_AT = "oneslot:paused-at"
"""The tag of a mapping that `oneslot pause` has switched off."""
RESTART, ASKED, STARTED = "oneslot:restart", "asked", "started"
"""The tag by which `oneslot up` asks for a new start, and its values; else the reason why nothing starts."""


def unstarted(said: str, log_file: Path | str) -> str:
    """Return that the function does not start, as `said`, and what to do."""
    return f"The deployed function does not start: {said}. Correct it, and run `oneslot up`; {log_file} ends with the error."


class EventSourceMapping:
    """The local mapping of one deployed mapping. Each `start` reads the configuration again."""

    def __init__(
        self,
        connection: Connection,
        mapping_id: str,
        *,
        folder: Path,
        processes: int = DEFAULT_PROCESSES,
        surroundings: Surroundings | None = None,
        make: Callable[[Installation], Environment] = HandlerProcess,
    ) -> None:
        """connection: where the stack is deployed. mapping_id: the mapping's UUID. folder: for the unpacked function
        and the logs (`consumer.jsonl`: every line of the handler). processes: the limit of handler processes here.
        make: starts one of them.
        """
        self._connection = connection
        self._mapping_id = mapping_id
        self._folder = folder
        self._processes = processes
        self._surroundings = surroundings or Surroundings()
        self._make = make
        self._counter = StatisticsCounter(self._surroundings)
        self._run: tuple[Poller, HandlerPool] | None = None
        self._running = ExitStack()
        self._paused = False

    @property
    def log_file(self) -> Path:
        """The handler's standard output, appended by every process of every start."""
        return self._folder / "consumer.jsonl"

    @property
    def running(self) -> bool:
        """Whether it was started and not stopped."""
        return self._run is not None

    @property
    def configuration(self) -> MappingConfiguration:
        """The configuration, as read at the last start. Raises `LookupError` if it does not run."""
        if self._run is None:
            raise LookupError("The poller does not run. Start it: it reads the configuration then.")
        return self._run[0].configuration

    @property
    def statistics(self) -> Statistics:
        """The current numbers, summed over all starts."""
        return self._counter.snapshot()

    def handler_pids(self) -> list[int]:
        """Return the ids of the live handler processes, for tests that kill one."""
        return [] if self._run is None else self._run[1].pids()

    def start(self) -> FunctionError | None:
        """Read the configuration, disable the emulator's own mapping, warm the processes, and poll.

        Raises `UnsupportedMapping`, or botocore's errors if the mapping cannot be read. Returns the error of a handler
        that cannot be imported: as on AWS the mapping runs, its invocations fail, and the statistics show it.
        """
        if self._run is not None:
            return None
        with ExitStack() as stack:  # an interrupted start leaves nothing running
            sqs = stack.enter_context(closing(self._connection.sqs()))
            with closing(self._connection.functions()) as functions:
                configuration = read_mapping(self._mapping_id, functions=functions, sqs=sqs)
                functions.update_event_source_mapping(UUID=self._mapping_id, Enabled=False)
            function = configuration.function
            installation = Installation(
                function=function,
                code=install(function.code_url, self._folder / "function", self._connection),
                connection=self._connection,
                log_file=self.log_file,
                error_file=self._folder / "handler.stderr.log",
            )
            reserved = function.reserved_concurrency
            size = self._processes if reserved is None else min(self._processes, reserved)
            pool = HandlerPool(installation, size, self._surroundings, self._make)
            stack.callback(pool.close)
            poller = Poller(
                configuration,
                invoke=pool.invoke,
                sqs=sqs,
                threads=self._processes,
                counter=self._counter,
                surroundings=self._surroundings,
            )
            stack.callback(poller.finish)
            if error := pool.warm(poller.size):
                self._counter.add(last_error=error.error_type)
            poller.start()
            self._run, self._running = (poller, pool), stack.pop_all()
        return error

    def follow(self, also: Callable[[], None]) -> None:
        """Stop if the deployed mapping is paused. Start again when it is resumed or updated; call `also` after an update."""
        with closing(self._connection.functions()) as functions:
            arn = functions.get_event_source_mapping(UUID=self._mapping_id)["EventSourceMappingArn"]
            tags = functions.list_tags(Resource=arn).get("Tags", {})
            paused, updated = PAUSED_AT in tags, tags.get(RESTART) == ASKED
            if paused or updated:
                self.stop()
            try:
                error = self.start() if (starts := not paused and (updated or self._paused)) else None
                said = error.error_type if error else STARTED
                if updated:
                    also()
            except (OneslotError, OSError) as refused:
                self._counter.add(last_error=type(refused).__name__)
                said = str(refused).removesuffix(".")
            self._paused = paused
            if updated or (starts and said != tags.get(RESTART, STARTED)):
                functions.tag_resource(Resource=arn, Tags={RESTART: said})

    def stop(self) -> None:
        """Receive nothing more, finish the batches in hand (at most the function's timeout), and end the processes."""
        self._run = None
        self._running.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
