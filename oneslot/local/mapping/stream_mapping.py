"""The local mapping from a ledger's stream to the deployed relay, by the rules of Lambda's mapping for streams.

The embedded AWS has such a mapping, too, but takes no notice of partial failures.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from oneslot.local.aws.connection import Connection
from oneslot.local.mapping.configuration import read_function
from oneslot.local.mapping.handler_pool import HandlerPool
from oneslot.local.mapping.handler_process import Answered
from oneslot.local.mapping.installation import Installation, install
from oneslot.runtime.lambda_consumer import UNSENT_INDEX
from oneslot.runtime.protocol import UNSENT
from oneslot.runtime.surroundings import Surroundings
from oneslot.worker.log import WorkerLog
from oneslot.worker.stream import LedgerStream


@contextmanager
def stream_mapping(connection: Connection, function_name: str, *, folder: Path) -> Iterator[HandlerPool]:
    """Feed the relay in a thread until the end of the block; yield its processes. Its lines are in `relay.jsonl`."""
    surroundings = Surroundings()
    with closing(connection.functions()) as functions:
        function = read_function(function_name, functions=functions)
    # The embedded AWS has no schedule for the relay's looks. Without its index the relay reports what failed, to be repeated.
    variables = {name: value for name, value in function.environment.items() if name != UNSENT_INDEX}
    function = replace(function, environment=variables)
    with closing(connection.dynamodb()) as dynamodb:
        about = dynamodb.describe_table(TableName=function.environment["ONESLOT_LEDGER_TABLE"])
    log = folder / "relay.jsonl"
    log.touch(mode=0o600)
    code = install(function.code_url, folder / "relay", connection)
    pool = HandlerPool(Installation(function, code, connection, log, folder / "relay.stderr.log"), size=1)

    def write(line: str) -> None:
        surroundings.append(log, f"{line}\n".encode())

    with ExitStack() as stack:
        stack.callback(pool.close)
        streams = stack.enter_context(closing(connection.client("dynamodbstreams")))
        arn, invoke = about["Table"]["LatestStreamArn"], partial(_invoke, pool)
        stream = LedgerStream(streams, arn, invoke, start="TRIM_HORIZON", log=WorkerLog(write))
        stopping = surroundings.threads.event()
        thread = surroundings.threads.start(lambda: stream.run(stopping), "relay")
        stack.callback(thread.join)
        stack.callback(stopping.set)
        yield pool


def _invoke(pool: HandlerPool, event: Mapping[str, Any]) -> Mapping[str, Any]:
    """Invoke the relay with the records that hold messages, as the deployed mapping's filter chooses them."""
    records = [record for record in event["Records"] if UNSENT in record["dynamodb"].get("NewImage", {})]
    if not records:
        return {"batchItemFailures": []}
    outcome = pool.invoke(json.loads(json.dumps({"Records": records}, default=str)))
    if isinstance(outcome, Answered):
        answer: Mapping[str, Any] = json.loads(outcome.answer)
        return answer
    return {"batchItemFailures": [{"itemIdentifier": records[0]["dynamodb"]["SequenceNumber"]}]}
