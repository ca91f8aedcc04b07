"""The local event source mapping: from the queue to the real handler and back, by AWS's rules.

The embedded AWS has a mapping of its own, but that one deletes batches that AWS would retry, ignores the batching
window and competes with other consumers. So it is disabled, and this one takes its place. It reads the configuration
of the deployed mapping, function and queue when it starts.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from oneslot.local.aws.connection import Connection
from oneslot.local.mapping.configuration import MappingConfiguration, read_mapping
from oneslot.local.mapping.handler_process import FunctionError
from oneslot.local.mapping.installation import Installation, install
from oneslot.local.mapping.poller import Poller
from oneslot.local.mapping.statistics import Statistics, StatisticsCounter

DEFAULT_PROCESSES = 4


class EventSourceMapping:
    """The local mapping of one deployed mapping. Each `start` reads the configuration again."""

    def __init__(
        self, connection: Connection, mapping_id: str, *, folder: Path, processes: int = DEFAULT_PROCESSES
    ) -> None:
        """connection: where the stack is deployed. mapping_id: the mapping's UUID. folder: for the unpacked function
        and the logs (`consumer.jsonl`: every line of the handler). processes: the limit of handler processes here.
        """
        self._connection = connection
        self._mapping_id = mapping_id
        self._folder = folder
        self._processes = processes
        self._counter = StatisticsCounter()
        self._stopping = threading.Event()
        self._run: Poller | None = None

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
        return self._started().configuration

    @property
    def statistics(self) -> Statistics:
        """The current numbers, summed over all starts."""
        snapshot = self._counter.snapshot()
        return snapshot if self._run is None else replace(snapshot, concurrency=self._run.allowed())

    def handler_pids(self) -> list[int]:
        """Return the ids of the live handler processes, for tests that kill one."""
        return [] if self._run is None else self._run.pool.pids()

    def start(self) -> FunctionError | None:
        """Read the configuration, disable the emulator's own mapping, warm the processes, and poll.

        Raises `UnsupportedMapping`, or botocore's errors if the mapping cannot be read. Returns the error of a handler
        that cannot be imported: as on AWS the mapping runs, its invocations fail, and the statistics show it.
        """
        if self._run is not None:
            return None
        functions = self._connection.functions()
        sqs = self._connection.sqs()
        try:
            configuration = read_mapping(self._mapping_id, functions=functions, sqs=sqs)
            functions.update_event_source_mapping(UUID=self._mapping_id, Enabled=False)
            code = install(configuration.function.code_url, self._folder / "function")
        except BaseException:
            sqs.close()
            raise
        finally:
            functions.close()
        installation = Installation(
            function=configuration.function,
            code=code,
            connection=self._connection,
            log_file=self.log_file,
            error_file=self._folder / "handler.stderr.log",
        )
        self._stopping.clear()
        self._run = Poller(
            configuration,
            installation=installation,
            sqs=sqs,
            processes=self._processes,
            counter=self._counter,
            stopping=self._stopping,
        )
        try:
            return self._run.start()
        except BaseException:  # Ctrl-C too: an interrupted start leaves nothing running
            self.stop()
            raise

    def stop(self) -> None:
        """Receive nothing more, finish the batches in hand (at most the function's timeout), and end the processes."""
        run, self._run = self._run, None
        if run is not None:
            self._stopping.set()
            run.finish()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _started(self) -> Poller:
        if self._run is None:
            raise LookupError("The poller does not run. Start it: it reads the configuration then.")
        return self._run
