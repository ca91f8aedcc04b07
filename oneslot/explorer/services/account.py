"""The account that the stand-ins of one call share.

A stand-in lives for one call. All state is in the account, which the explorer turns into a world and back.
"""

import functools
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import boto3
from botocore import xform_name

from oneslot.dynamodb_in_memory.contents import Contents, TableSchema

DEDUPLICATION_MS = 5 * 60 * 1000
"""How long SQS and SNS remember a MessageDeduplicationId (API references, SendMessage and Publish)."""

DEDUPLICATION = "deduplication/"
"""How the containers of deduplication ids begin, before their queue or topic."""

Sent = dict[str, list[Mapping[str, Any]]]
"""The parameters of sent messages, by queue URL."""

READING = ("get_", "list_", "describe_", "query", "scan", "head_", "batch_get")
"""How the names of operations begin that change nothing."""
SAFE_METHODS = ("get", "head", "options")
"""The methods of HTTP that change nothing (RFC 9110)."""

Parameters = Mapping[str, Any]
Answer = Mapping[str, Any]


def reads(name: str) -> bool:
    """Return whether a call, by its name, changes nothing."""
    service, _, operation = name.rpartition(".")
    return operation in SAFE_METHODS if service == "http" else operation.startswith(READING)


@functools.cache
def services() -> frozenset[str]:
    """Return the names of AWS's services, as boto3 has them."""
    return frozenset(boto3.Session().get_available_services())


@functools.cache
def operations(service: str) -> dict[str, Any]:
    """Return botocore's model of each operation of a service, by its name as a method of the client."""
    model = boto3.Session()._session.get_service_model(service)
    return {xform_name(name): model.operation_model(name) for name in model.operation_names}


@dataclass
class Account:
    """The state that the stand-ins share while one call is performed.

    Attributes:
        now_ms: the time of the call (epoch ms).
        tables: DynamoDB's tables by name; `contents` holds their items and the tokens of transactions.
        sent: the messages sent to SQS.
        state: the state of all other stand-ins: container ("s3/bucket", "states/arn") → key → value. Values are JSON, and
            `bytes` and `datetime` within them. Empty containers are forgotten.
        effects: what left the account for good, in any order: the explorer reports what may happen twice.
        answers: the user's answers by "service.operation" ("athena.start_query_execution"): a mapping, or a function of
            the parameters.
        values: the values that the user gives, by kind ("parameters" or "secrets") and name.
        first_id: where the numbers of the ids begin that services give.
        depends_on_time: called when an answer depends on the time: it holds the time, or a window that may be over.
    """

    now_ms: int
    tables: Mapping[str, TableSchema]
    contents: Contents
    sent: Sent = field(default_factory=dict)
    state: dict[str, dict[str, Any]] = field(default_factory=dict)
    effects: list[dict[str, Any]] = field(default_factory=list)
    answers: Mapping[str, Any] = field(default_factory=dict)
    values: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    first_id: int = 1
    depends_on_time: Callable[[], None] = lambda: None

    @property
    def now(self) -> datetime:
        """The time of the call, for this answer or a later one to hold."""
        self.depends_on_time()
        return datetime.fromtimestamp(self.now_ms / 1000, UTC)

    def record(self, service: str, operation: str, target: str, parameters: Mapping[str, Any]) -> str:
        """Record an outside effect; return an id for it: the same for equal effects, with a count.

        `target` is what it goes to: a topic, a bus, an address. `parameters` are what makes two effects the same one.
        """
        effect = {"service": service, "operation": operation, "target": target, "parameters": dict(parameters)}
        text = json.dumps(effect, sort_keys=True, default=repr)
        equal = sum(json.dumps(one, sort_keys=True, default=repr) == text for one in self.effects)
        self.effects.append(effect)
        return f"{hashlib.sha256(text.encode()).hexdigest()[:12]}-{equal + self.first_id}"

    def is_first(self, target: str, token: str | None) -> bool:
        """Return whether no earlier call to a target had this token, and keep it. A call without one is always the first."""
        known = self.state.setdefault("tokens", {})
        first = token is None or f"{target} {token}" not in known
        if token is not None:
            known[f"{target} {token}"] = True
        return first

    def once(self, target: str, token: str, send: Callable[[], str]) -> str:
        """Send to a FIFO queue or topic and return the id. A deduplication id of the last five minutes sends nothing.

        The answer to such a copy is the first id, and it depends on the time.
        """
        held = self.state.setdefault(DEDUPLICATION + target, {})
        if token in held:
            self.depends_on_time()
        if token not in held or held[token]["until"] <= self.now_ms:
            held[token] = {"until": self.now_ms + DEDUPLICATION_MS, "id": send()}
        return str(held[token]["id"])


Operation = Callable[[Account, Parameters], Mapping[str, Any]]
"""One operation of a stand-in: the answer to these parameters, in the shapes of boto3's client.

Bytes are `bytes`, times are aware `datetime`s; the body of a stream is given and returned as `bytes`. It raises botocore's
`ClientError` where AWS would, and `UnsupportedRequest`, with the remedy, for what is not modelled.
"""
