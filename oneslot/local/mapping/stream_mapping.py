"""The local mapping from a ledger's stream to the deployed relay, by the rules of Lambda's mapping for streams.

The embedded AWS has such a mapping, too, but takes no notice of partial failures.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from oneslot.local.aws.connection import Connection
from oneslot.local.mapping.configuration import read_function
from oneslot.local.mapping.handler_pool import HandlerPool
from oneslot.local.mapping.handler_process import Answered
from oneslot.local.mapping.installation import Installation, install
from oneslot.runtime.protocol import UNSENT
from oneslot.runtime.surroundings import Surroundings
from oneslot.worker.log import WorkerLog
from oneslot.worker.stream import LedgerStream


class StreamMapping:
    """Feeds the relay in a thread, within its `with` block. Its lines are in `relay.jsonl` of the folder."""

    def __init__(self, connection: Connection, function_name: str, *, folder: Path) -> None:
        self._connection, self._name, self._folder = connection, function_name, folder
        self._surroundings = Surroundings()
        self._running = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            with closing(self._connection.functions()) as functions:
                function = read_function(self._name, functions=functions)
            with closing(self._connection.dynamodb()) as dynamodb:
                about = dynamodb.describe_table(TableName=function.environment["ONESLOT_LEDGER_TABLE"])
            log = self._folder / "relay.jsonl"
            log.touch(mode=0o600)
            code = install(function.code_url, self._folder / "relay")
            errors = self._folder / "relay.stderr.log"
            self.pool = HandlerPool(Installation(function, code, self._connection, log, errors), size=1)
            stack.callback(self.pool.close)
            streams = stack.enter_context(closing(self._connection.client("dynamodbstreams")))
            arn = about["Table"]["LatestStreamArn"]

            def write(line: str) -> None:
                self._surroundings.append(log, f"{line}\n".encode())

            stream = LedgerStream(streams, arn, self._invoke, start="TRIM_HORIZON", log=WorkerLog(write))
            stopping = self._surroundings.threads.event()
            thread = self._surroundings.threads.start(lambda: stream.run(stopping), "relay")
            stack.callback(thread.join)
            stack.callback(stopping.set)
            self._running = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._running.close()

    def _invoke(self, event: Mapping[str, Any]) -> Mapping[str, Any]:
        """Invoke the relay with the records that hold messages, as the deployed mapping's filter chooses them."""
        records = [record for record in event["Records"] if UNSENT in record["dynamodb"].get("NewImage", {})]
        if not records:
            return {"batchItemFailures": []}
        outcome = self.pool.invoke(json.loads(json.dumps({"Records": records}, default=str)))
        if isinstance(outcome, Answered):
            answer: Mapping[str, Any] = json.loads(outcome.answer)
            return answer
        return {"batchItemFailures": [{"itemIdentifier": records[0]["dynamodb"]["SequenceNumber"]}]}
