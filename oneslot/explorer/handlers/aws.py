"""boto3 below its clients, resources and tables: calls stop at the explorer instead of being signed and sent."""

import copy
import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import boto3
from boto3.resources.factory import ResourceFactory
from botocore import xform_name
from botocore.client import BaseClient
from botocore.exceptions import ParamValidationError, ReadTimeoutError
from botocore.handlers import BUILTIN_HANDLERS
from botocore.hooks import HierarchicalEmitter
from botocore.loaders import Loader
from botocore.response import StreamingBody
from botocore.session import Session
from botocore.validate import ParamValidator

from oneslot.explorer.refusal import NotExplorable
from oneslot.explorer.world import ApiCall, from_text

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
        raise NotExplorable(
            "moto's mock_aws is active, and the explorer brings its own AWS. Leave mock_aws out of this test."
        )
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
    parsed["ResponseMetadata"] = {
        "RequestId": "explored",
        "HTTPStatusCode": status,
        "HTTPHeaders": {},
        "RetryAttempts": 0,
    }
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
        parsed[member] = StreamingBody(
            io.BytesIO(content := body if isinstance(body, bytes) else str(body).encode()), len(content)
        )
    return parsed
