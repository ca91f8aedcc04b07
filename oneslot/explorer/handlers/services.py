"""The account as a function from world to world, and the faults of its calls."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import ClientError

from oneslot.dynamodb_in_memory import InMemoryDynamoDB
from oneslot.dynamodb_in_memory.answers import UnsupportedRequest
from oneslot.dynamodb_in_memory.contents import Contents, TableSchema
from oneslot.explorer.execution.process import TIMEOUT
from oneslot.explorer.faults import CRASHES, LATER, LOST, NEVER, TIMED_OUT, Choice, error_choice
from oneslot.explorer.handlers.aws import OWN
from oneslot.explorer.handlers.surroundings.chance import DRAW
from oneslot.explorer.refusal import NotExplorable
from oneslot.explorer.services.account import READING, SAFE_METHODS, Account
from oneslot.explorer.services.batches import BATCHES, NAMES
from oneslot.explorer.services.stand_in import perform
from oneslot.explorer.world import EFFECT, STATE, UNANSWERED, ApiCall, World, from_text, to_text

THROTTLES = {
    "dynamodb": "ProvisionedThroughputExceededException",
    "lambda": "TooManyRequestsException",
    "s3": "SlowDown",
    "ses": "Throttling",
    "sesv2": "TooManyRequestsException",
    "sns": "Throttled",
    "sqs": "RequestThrottled",
}
"""The code by which a service refuses too many requests; all others say ThrottlingException."""

FAILURES = {
    "dynamodb": "InternalServerError",
    "lambda": "ServiceException",
    "s3": "InternalError",
    "sns": "InternalError",
}
"""The code by which a service fails; all others say InternalFailure."""

HTTP_ERRORS = frozenset(range(400, 600))
HTTP_503, *HTTP_OTHERS = (
    Choice(
        f"answered with {status}",
        NEVER,
        observation=to_text({"answer": {"status": status, "headers": {}, "body": b""}}),
    )
    for status in (503, 500, 429)
)
HTTP_TIMED_OUT = Choice("times out, and the request is on its way", LATER, observation=UNANSWERED)


EXPIRE = ApiCall.of("delete_expired", {})
"""The call by which DynamoDB deletes what has expired: no code makes it."""
MOST_REFUSALS = 6
"""How often in a row a batch is refused in part: once as a fault, then again at each retry."""

AS_BEFORE = 100
"""The `conflict` of a read that is answered as before the last write."""
LAG = "lag"
"""The kind of line that holds, for a table, the time of its last write, and the item of this key before it."""


def lagging_tables(name: str, parameters: Mapping[str, Any]) -> list[str]:
    """Return the tables that a call reads, and may find as before the last write.

    All reads are eventually consistent by default:
    https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/HowItWorks.ReadConsistency.html.
    """
    asked: Mapping[str, Any] = {}
    if name in ("get_item", "query", "scan"):
        asked = {parameters["TableName"]: parameters}
    elif name == "batch_get_item":
        asked = parameters["RequestItems"]
    return [table for table, one in asked.items() if not one.get("ConsistentRead")]


@dataclass(frozen=True)
class AccountServices:
    """The services of an account with these tables; see `oneslot.explorer.world.Services`.

    Attributes:
        high: the random numbers that are drawn high, each by the identity of its invocation and its number there.
        first_id, depends_on_time: see `Account`.
        lagging: the tables that some call has read without ConsistentRead. For these the world keeps what was written last.
    """

    tables: Mapping[str, TableSchema]
    answers: Mapping[str, Any] = field(default_factory=dict)
    values: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    high: frozenset[tuple[int, int]] = frozenset()
    first_id: int = 1
    depends_on_time: Callable[[], None] = lambda: None
    lagging: set[str] = field(default_factory=set)

    def __call__(self, world: World, request: ApiCall, now: int, conflict: int | None = None) -> tuple[World, str]:
        """Perform a call. Raises `NotExplorable` for what the stand-ins do not model."""
        name, parameters = request.parts
        if name == DRAW:
            drawn = (parameters["identity"], parameters["number"])
            return world, to_text({"answer": {"high": drawn in self.high}})
        if name == TIMEOUT:
            return world, to_text({"answer": {}})
        service, operation = service_and_operation(name)
        if conflict == AS_BEFORE:
            return world, self(self._as_before(world, lagging_tables(name, parameters), now), request, now)[1]
        self.lagging.update(lagging_tables(name, parameters))
        if request == EXPIRE:
            return self._expired(world, now), ""
        state: dict[str, dict[str, Any]] = {}
        for container, key, value in world.lines(STATE):
            state.setdefault(container, {})[key] = from_text(value)
        effects = [from_text(value) for _, _, value in world.lines(EFFECT)]
        contents = world.contents(self.tables)
        given = (self.answers, self.values, self.first_id, self.depends_on_time)
        account = Account(now, self.tables, contents, world.queues, state, effects, *given)
        try:
            if conflict is None:
                answer = perform(account, service, operation, parameters)
            elif name in BATCHES:
                answer = BATCHES[name].perform(
                    parameters, conflict, lambda rest: perform(account, service, operation, rest)
                )
            else:
                dynamodb = InMemoryDynamoDB(lambda: now, self.tables, account.contents)
                dynamodb.refuse_for_conflict(conflict, **parameters)
        except ClientError as error:
            return world, to_text({"error": error.response})
        except UnsupportedRequest as error:
            raise NotExplorable(f"{service}.{operation}: {error}") from error
        others = [
            [STATE, container, key, to_text(value)]
            for container, values in account.state.items()
            for key, value in values.items()
        ]
        refused = {kind: count for kind in map(_refused, BATCHES) for _, _, count in world.lines(kind)}
        if name in BATCHES:
            count = refused.pop(_refused(name), 0) + 1
            if conflict is not None and count < MOST_REFUSALS:
                refused[_refused(name)] = count
        others += [[kind, "", "", count] for kind, count in refused.items()]
        others += self._lags(world, account.contents, now)
        others += [[EFFECT, one["service"], "", to_text(one)] for one in account.effects]
        return World.of(account.contents, account.sent, others), to_text({"answer": answer})

    def _expired(self, world: World, now: int) -> World:
        """Return a world without the rows whose time to live is over.

        DynamoDB deletes them within days: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/TTL.html.
        """
        contents = world.contents(self.tables)
        contents.delete_expired(self.tables, now)
        others = [[kind, *line] for kind in (STATE, EFFECT) for line in world.lines(kind)]
        return World.of(contents, world.queues, others)

    def _as_before(self, world: World, tables: Collection[str], now: int) -> World:
        """Return the rows of a world before the last write to each of these tables, if that was at this moment."""
        contents = world.contents(self.tables)
        for table, key, (at, item) in world.lines(LAG):
            if table in tables and at == now:
                contents.tables[table] = {**contents.tables[table], key: item}
                if item is None:
                    del contents.tables[table][key]
        return World.of(contents, {})

    def _lags(self, world: World, after: Contents, now: int) -> list[list[Any]]:
        """Return what a world keeps of the last writes. A later read, after a timeout, finds them."""
        if not self.lagging:
            return []
        kept = {table: [LAG, table, key, held] for table, key, held in world.lines(LAG) if held[0] == now}
        before = world.contents(self.tables).tables
        for table in self.lagging & before.keys():
            held, now_held = before[table], after.tables[table]
            changed = [key for key in {**held, **now_held} if held.get(key) != now_held.get(key)]
            for key in changed[:1]:
                kept[table] = [LAG, table, key, [now, held.get(key)]]
        return list(kept.values())


def _refused(name: str) -> str:
    """Return the kind of line that a world has after the last call of a batch of this name was refused in part."""
    return f"refused {name}"


def service_and_operation(name: str) -> tuple[str, str]:
    """Return the service and the operation of a call's name, in which DynamoDB's and SQS's stand alone."""
    service, _, operation = name.rpartition(".")
    return service or OWN["message" in name or "queue" in name], operation


def handler_faults(request: ApiCall, *, ordered: bool = False, names: Collection[object] = ()) -> tuple[Choice, ...]:
    """Return what may become of a call: one fault of each kind that a handler can tell apart.

    A handler that `names` an error, or its number, may mean that there is no other. So it gets one that it does not name:
    - DynamoDB's InternalServerError:
      https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Programming.Errors.html
    - a transaction cancelled for ThrottlingError:
      https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TransactWriteItems.html
    - S3's 409 Conflict for one of two conditional writes:
      https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html

    Where messages are `ordered`, no request travels longer than the SDK waits for its answer, which is a minute.
    """
    name, parameters = request.parts
    service, operation = service_and_operation(name)
    usual, other = THROTTLES.get(service, "ThrottlingException"), FAILURES.get(service, "InternalFailure")
    errors = [error_choice(usual)]
    if usual in names:
        errors += [error_choice(other, status=500)] if other not in names else []
    if name == DRAW:
        return (Choice("drawn high", observation=to_text({"answer": {"high": True}}), is_fault=False),)
    if name == TIMEOUT:
        return (Choice("the time is over", NEVER, observation=to_text({"answer": {}})),)
    if service == "http":
        # Of a handler that looks at the status, every number may be told apart.
        others = HTTP_OTHERS if not HTTP_ERRORS.isdisjoint(names) else ()
        refusals = (HTTP_503, *others)
        return (CRASHES[0], *refusals) if operation in SAFE_METHODS else (*CRASHES, *refusals, HTTP_TIMED_OUT)
    own: list[Choice] = []
    if name == "transact_write_items":
        own.append(Choice("TransactionConflict at item 1", NEVER, conflict=0))
        if "TransactionConflict" in names:
            reasons = [{"Code": "ThrottlingError"}, *({"Code": "None"} for _ in parameters["TransactItems"][1:])]
            own.append(error_choice("TransactionCanceledException", CancellationReasons=reasons))
    elif name == "s3.put_object" and parameters.keys() & {"IfMatch", "IfNoneMatch"}:
        own.append(error_choice("ConditionalRequestConflict", status=409))
    elif name in BATCHES:
        *_, most = BATCHES[name].refusals(parameters)
        for one in BATCHES[name].refusals(parameters):
            again = _refused(name) if one == most else ""
            own.append(Choice(f"answered with {NAMES[one]} refused", NEVER, conflict=one, again=again))
    if lagging_tables(name, parameters):
        own.append(Choice("answered as before the last write", NEVER, conflict=AS_BEFORE))
    if operation.startswith(READING):
        return (CRASHES[0], *errors, *own)
    return (*CRASHES, *(LOST[:1] if ordered else LOST), *errors, TIMED_OUT, *own)
