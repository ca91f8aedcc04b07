"""AWS inside the handler: boto3's calls stop at the explorer, which performs them in its account, or lets them fail."""

import copy
import io
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import boto3
from boto3.resources.factory import ResourceFactory
from botocore import xform_name
from botocore.client import BaseClient
from botocore.exceptions import ClientError, ParamValidationError, ReadTimeoutError
from botocore.handlers import BUILTIN_HANDLERS
from botocore.hooks import HierarchicalEmitter
from botocore.loaders import Loader
from botocore.response import StreamingBody
from botocore.session import Session
from botocore.validate import ParamValidator

from oneslot.dynamodb_in_memory import InMemoryDynamoDB
from oneslot.dynamodb_in_memory.answers import UnsupportedRequest
from oneslot.dynamodb_in_memory.contents import Contents, TableSchema
from oneslot.explorer.execution.process import TIMEOUT
from oneslot.explorer.faults import CRASHES, LATER, LOST, NEVER, TIMED_OUT, Choice, error_choice
from oneslot.explorer.handlers.surroundings.chance import DRAW
from oneslot.explorer.refusal import NotExplorable
from oneslot.explorer.services.account import READING, SAFE_METHODS, Account
from oneslot.explorer.services.batches import BATCHES, NAMES
from oneslot.explorer.services.stand_in import perform
from oneslot.explorer.world import EFFECT, STATE, UNANSWERED, ApiCall, World, from_text, to_text

OWN = ("dynamodb", "sqs")
"""The services whose calls are named by the method alone, as the explorer's faults and words know them."""

clients: dict[Any, Any] = {}
"""boto3's clients and resources, by their arguments, and its classes of resources: all environments share them."""
_loaded: dict[tuple[str, ...], dict[Any, Any]] = {}
"""What botocore has read of its own files, by the folders that it searches: every session would read them again."""
_registered: dict[tuple[Any, ...], Any] = {}
"""The events of a session after each of its steps of registration: every session would find these places again."""


def _changing(name: str) -> Any:
    change = getattr(HierarchicalEmitter, name)

    def changed(self: Any, *values: Any, **named: Any) -> None:
        if self.shares:
            self._handlers, self.shares = copy.copy(self._handlers), ()
        change(self, *values, **named)

    return changed


class _SharedEvents(HierarchicalEmitter):
    """A session's events. It `shares` the handlers of a key of `_registered`, until one of its own changes them."""

    __module__ = HierarchicalEmitter.__module__  # no memory of a handler's, as all events of botocore
    _register_section, unregister = _changing("_register_section"), _changing("unregister")


def call_name(service: str, operation: str) -> str:
    """Return the name of a call in a request."""
    return operation if service in OWN else f"{service}.{operation}"


class _Http:
    status_code, headers, content = 200, {}, b""  # type: ignore[var-annotated]


@contextmanager
def intercepted(running: Any) -> Iterator[None]:
    """Intercept the calls of the process that `running` returns, and cache boto3's clients by their arguments."""
    stubber = getattr(sys.modules.get("moto.core.models"), "botocore_stubber", None)
    if getattr(stubber, "enabled", False):
        why = "moto's mock_aws is active, and the explorer brings its own AWS."
        raise NotExplorable(f"{why} Leave mock_aws out of this test.")
    call: Any = vars(BaseClient)["_make_api_call"]

    def make_api_call(self: Any, operation_name: str, parameters: Any) -> Any:
        process = running()
        if process is None:
            return call(self, operation_name, parameters)
        return _perform(self, process, operation_name, parameters)

    def cached(kind: str) -> Any:
        make = getattr(boto3.Session, kind)

        def made(self: Any, *arguments: Any, **options: Any) -> Any:
            if running() is None:
                return make(self, *arguments, **options)
            settings = {  # a resource names all of them when it makes its own client
                name: getattr(value, "_user_provided_options", None) or repr(value) if name == "config" else value
                for name, value in options.items()
            }
            key = f"{kind} {self.region_name} {arguments} {sorted(settings.items(), key=str)}"
            if key not in clients:
                clients[key] = make(self, *arguments, **options)
            return clients[key]

        return mock.patch.object(boto3.Session, kind, made)

    def shared(kind: Any, name: str, events_of: Any) -> Any:
        register = getattr(kind, name)

        def registered(self: Any, *given: Any) -> None:
            events = events_of(self)
            shares = getattr(events, "shares", ())
            key, is_usual = (*shares, name, len(BUILTIN_HANDLERS)), shares or not events._handlers._root["children"]
            if not is_usual or key not in _registered:
                register(self, *given)
            if is_usual:
                known = _registered.get(key) or _registered.setdefault(key, copy.copy(events))
                events.__class__ = _SharedEvents
                vars(events).update(vars(known), shares=key, _unique_id_handlers={**known._unique_id_handlers})
                events._lookup_cache = {}

        return mock.patch.object(kind, name, registered)

    load = ResourceFactory.load_from_definition

    def load_from_definition(
        self: Any, resource_name: str, single_resource_json_definition: Any, service_context: Any
    ) -> Any:
        key = (self, service_context.service_name, resource_name)
        if key not in clients:  # else boto3 makes a class again for each of its tables
            clients[key] = load(self, resource_name, single_resource_json_definition, service_context)
        return clients[key]

    read = property(
        lambda self: _loaded.setdefault((*self.search_paths,), {}), lambda self, own: vars(self).update(_cache=own)
    )
    with (
        mock.patch.object(BaseClient, "_make_api_call", make_api_call),
        mock.patch.object(Loader, "_cache", read, create=True),
        shared(Session, "_register_builtin_handlers", lambda session: session._original_handler),
        shared(boto3.Session, "_register_default_handlers", lambda session: session._session._original_handler),
        mock.patch.object(ResourceFactory, "load_from_definition", load_from_definition),
        cached("client"),
        cached("resource"),
    ):
        try:
            yield
        finally:
            clients.clear()


def _perform(client: Any, process: Any, operation_name: str, parameters: Any) -> Any:
    model = client._service_model.operation_model(operation_name)
    service = client._service_model.service_name
    context = {
        "client_region": client.meta.region_name,
        "client_config": client.meta.config,
        "has_streaming_input": model.has_streaming_input,
        "auth_type": None,
    }
    parameters = client._emit_api_params(api_params=parameters, operation_model=model, context=context)
    if model.input_shape is not None:
        report = ParamValidator().validate(parameters, model.input_shape)
        if report.has_errors():
            raise ParamValidationError(report=report.generate_report())
    observation = process.wait(ApiCall.of(call_name(service, xform_name(operation_name)), parameters))
    seen = from_text(observation)
    if "unanswered" in seen:
        raise ReadTimeoutError(endpoint_url=client.meta.endpoint_url)
    parsed = seen["answer"] if "answer" in seen else seen["error"]
    status = parsed.get("ResponseMetadata", {}).get("HTTPStatusCode", 200 if "answer" in seen else 400)
    said = {"RequestId": "explored", "HTTPStatusCode": status, "HTTPHeaders": {}, "RetryAttempts": 0}
    parsed["ResponseMetadata"] = said
    if service == "dynamodb":  # a resource turns typed attributes into plain ones here
        event = f"after-call.dynamodb.{operation_name}"
        client.meta.events.emit(event, http_response=_Http, parsed=parsed, model=model, context=context)
    asked = getattr(process.code, "asked", None)
    if asked is not None:
        asked.note_answer(xform_name(operation_name), parameters, parsed)
    if "error" in seen:
        raise client.exceptions.from_code(parsed["Error"]["Code"])(parsed, operation_name)
    if model.has_streaming_output:
        member = model.output_shape.serialization["payload"]
        body = parsed.get(member, b"")
        content = body if isinstance(body, bytes) else str(body).encode()
        parsed[member] = StreamingBody(io.BytesIO(content), len(content))
    return parsed


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
_EMPTY = {"headers": {}, "body": b""}
HTTP_503, *HTTP_OTHERS = (
    Choice(f"answered with {status}", NEVER, observation=to_text({"answer": {"status": status, **_EMPTY}}))
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

    A handler that `names` an error, or its number, may know no other one. So it also gets an error that it does not name:
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
        # A handler that looks at the status may tell all numbers apart.
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
