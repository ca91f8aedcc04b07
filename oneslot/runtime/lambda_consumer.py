"""A consumer in Lambda from a decision and the environment, as the construct `ExactlyOnceConsumer` sets it.

| variable                           | value                                                  |
|------------------------------------|--------------------------------------------------------|
| `ONESLOT_LEDGER_TABLE`             | the ledger's table                                     |
| `ONESLOT_LEDGER_RETENTION_SECONDS` | how long the ledger knows a message, or `forever`      |
| `ONESLOT_QUEUE_URL`                | the queue                                              |
| `ONESLOT_DEAD_LETTER_QUEUE_URL`    | its dead-letter queue                                  |
| `ONESLOT_TABLE_ORDERS`             | the table that a decision calls "orders"; one for each |
| `ONESLOT_KEY_ORDERS`               | that table's key, such as `id`, or `customer,order` with a sort key |
| `ONESLOT_SEND_MAILS`               | the target that a decision calls "mails": a queue's URL, or the ARN of a topic or bus |
| `ONESLOT_MAX_RECEIVE_COUNT` ...    | the deferral's numbers, optional; see `sqs/queue.py` |
"""

import gc
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar, overload


@contextmanager
def uncollected() -> Iterator[None]:
    """Collect no garbage meanwhile, and leave out of later collections what was made.

    The objects that imports make stay. Searching them again and again took a seventh of a cold start's CPU.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if collects:
            gc.enable()


with uncollected():
    import boto3
    from botocore import __version__
    from botocore.config import Config

    from oneslot.runtime.consumer.consumer import Consumer
    from oneslot.runtime.consumer.group_commit import GroupCommit
    from oneslot.runtime.consumer.queues import SQS, Queues
    from oneslot.runtime.effects import Effects
    from oneslot.runtime.protocol import Message
    from oneslot.runtime.record import Parse
    from oneslot.runtime.sqs.queue import deferral_of
    from oneslot.runtime.stores.dynamodb import DynamoDB, DynamoDBLedger
    from oneslot.runtime.stores.transaction import KEY_PREFIX
    from oneslot.runtime.surroundings import Executor, Lock, Surroundings
    from oneslot.runtime.typed import JsonMessage

M = TypeVar("M", bound=Message)

LEDGER_TABLE = "ONESLOT_LEDGER_TABLE"
LEDGER_RETENTION = "ONESLOT_LEDGER_RETENTION_SECONDS"
QUEUE_URL = "ONESLOT_QUEUE_URL"
DEAD_LETTER_QUEUE_URL = "ONESLOT_DEAD_LETTER_QUEUE_URL"
TABLE_PREFIX = "ONESLOT_TABLE_"
SEND_PREFIX = "ONESLOT_SEND_"
UNSENT_INDEX = "ONESLOT_UNSENT_INDEX"
WORKER_THREADS = "ONESLOT_WORKER_THREADS"
"""Set by `oneslot worker`: so many threads call the handler at once, where Lambda has one."""
FOREVER = "forever"


@overload
def consumer_from_environment(
    decide: Callable[[JsonMessage], Effects], *, threads: int = 1, **options: Any
) -> Consumer[JsonMessage]: ...


@overload
def consumer_from_environment(
    decide: Callable[[M], Effects], parse: Parse[M], *, threads: int = 1, **options: Any
) -> Consumer[M]: ...


def consumer_from_environment(
    decide: Callable[[Any], Effects],
    parse: Parse[Any] = JsonMessage,
    *,
    threads: int = 1,
    environment: Mapping[str, str] | None = None,
    ledger: DynamoDBLedger | None = None,
    sqs: SQS | None = None,
    decide_together: Callable[[Sequence[Any], Executor | None], Sequence[Effects | None]] | None = None,
    **options: Any,
) -> Consumer[Any]:
    """Return the consumer, which is the Lambda handler. Call it once, when the module is imported.

    Args:
        decide: the message → its `Effects`; raises `Unprocessable` for what can never succeed.
        parse: `(message_id, payload_hash, body)` → the message; raises `Unprocessable`.
        threads: how many records of a batch are consumed side by side.
        environment: the variables; None for those of the process.
        ledger: one of `ledger_from_environment`, if `decide` reads with its client.
        sqs: a client in place of boto3's.
        decide_together: commits a batch's first deliveries together; see `GroupCommit`.
        options: further attributes of `Consumer`, such as `identity` or `log`.

    Raises:
        ValueError: naming the variable that is missing or malformed.
    """
    environment = os.environ if environment is None else environment
    ledger = ledger or ledger_from_environment(threads, environment)
    surroundings = ledger.surroundings
    queues = Queues(
        sqs or _SQSOnFirstUse(threads, surroundings.threads.lock()),
        _text(environment, QUEUE_URL),
        _text(environment, DEAD_LETTER_QUEUE_URL),
        surroundings.jitter,
        deferral_of(environment),
    )
    if threads > 1:
        options.setdefault("executor", surroundings.threads.executor(threads, "record"))
    if decide_together:
        options["group"] = GroupCommit(ledger, decide_together, options.get("executor"))
    return Consumer(ledger, queues, parse, decide, **options)


def ledger_from_environment(
    threads: int = 1,
    environment: Mapping[str, str] | None = None,
    *,
    client: DynamoDB | None = None,
    surroundings: Surroundings | None = None,
) -> DynamoDBLedger:
    """Return the ledger, which knows every table of the environment. Raises `ValueError` if a variable is missing."""
    environment = os.environ if environment is None else environment
    retention = _text(environment, LEDGER_RETENTION)
    if retention != FOREVER and not (retention.isdecimal() and int(retention) > 0):
        raise ValueError(f"environment variable {LEDGER_RETENTION} must be a whole number above 0, or {FOREVER!r}")
    tables, keys, sends = (
        {name.removeprefix(prefix).lower(): value for name, value in environment.items() if name.startswith(prefix)}
        for prefix in (TABLE_PREFIX, KEY_PREFIX, SEND_PREFIX)
    )
    if client is None:
        with uncollected():
            client = boto3.client("dynamodb", config=client_configuration(threads))
    return DynamoDBLedger(
        client,
        _text(environment, LEDGER_TABLE),
        retention_seconds=None if retention == FOREVER else int(retention),
        tables=tables,
        keys=keys,
        sends=sends,
        sender=environment.get(QUEUE_URL, ""),
        surroundings=surroundings,
    )


def client_configuration(threads: int) -> Config:
    """Return the settings of the AWS clients. Their timeouts are short: a lost answer is asked for again in time."""
    return Config(
        connect_timeout=1,
        read_timeout=3,
        retries={"mode": "standard", "total_max_attempts": 4},
        # One for each thread, and one for the thread that waits for them: in a group it makes a call, too.
        max_pool_connections=max(threads, int(os.environ.get(WORKER_THREADS, "1"))) + 1,
        # Botocore would do both again for each call. The tests check the parameters of every call.
        user_agent=f"Oneslot Botocore/{__version__}",
        parameter_validation=False,
    )


def number(environment: Mapping[str, str], name: str) -> int:
    """Return a variable that must be a whole number above 0. Raises `ValueError` as above."""
    text = _text(environment, name)
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"environment variable {name} must be a whole number above 0")
    return int(text)


class _SQSOnFirstUse:
    """An SQS client made for the first message that is busy or unprocessable: to make it takes a sixth of a start."""

    def __init__(self, threads: int, lock: Lock) -> None:
        self._threads = threads
        self._lock = lock  # boto3 cannot make two clients at once
        self._client: Any = None

    def __getattr__(self, name: str) -> Any:
        with self._lock:
            self._client = self._client or boto3.client("sqs", config=client_configuration(self._threads))
        return getattr(self._client, name)


def _text(environment: Mapping[str, str], name: str) -> str:
    if not environment.get(name):
        raise ValueError(f"environment variable {name} is not set; the stack sets it")
    return environment[name]
