"""The stand-ins for AWS's services, as the explorer of any handler calls them.

A stand-in lives for one call: it is made over the account's state, performs the call, and is dropped. All state is in the
account, which the explorer turns into a world and back.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from oneslot.explorer.services.answers import UnsupportedRequest
from oneslot.explorer.services.contents import Contents, Table
from oneslot.explorer.services.dynamodb import InMemoryDynamoDB
from oneslot.explorer.services.sqs.explored import ExploredSQS, Sent


class StandIn(Protocol):
    """One service of AWS, in memory."""

    def call(self, operation: str, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        """Perform the operation with this name of boto3's method ("put_item") and return its answer.

        Parameters and answer have the shapes of boto3's client (low level: {"S": "x"} in DynamoDB). Bytes are `bytes`,
        times are aware `datetime`s; the body of a stream is given and returned as `bytes`.

        Raises botocore's `ClientError` where AWS would, and `UnsupportedRequest`, with the remedy, for what is not modelled.
        """


@dataclass
class Account:
    """The state that the stand-ins share while one call is performed.

    Attributes:
        now_ms: the time of the call (epoch ms).
        tables: DynamoDB's tables by name; `contents` holds their items and the tokens of transactions.
        sent: the parameters of messages sent to SQS, by queue URL.
        state: the state of all other stand-ins: container ("s3/bucket", "states/arn") → key → value. Values are JSON, and
            `bytes` and `datetime` within them. Empty containers are forgotten.
        effects: what left the account for good, in any order: the explorer reports what may happen twice.
        answers: the user's answers by "service.operation" ("ssm.get_parameter"): a mapping, or a function of the parameters.
    """

    now_ms: int
    tables: Mapping[str, Table]
    contents: Contents
    sent: Sent = field(default_factory=dict)
    state: dict[str, dict[str, Any]] = field(default_factory=dict)
    effects: list[dict[str, Any]] = field(default_factory=list)
    answers: Mapping[str, Any] = field(default_factory=dict)

    def record(self, service: str, operation: str, target: str, parameters: Mapping[str, Any]) -> str:
        """Record an outside effect; return an id for it: the same for equal effects, with a count.

        `target` is what it goes to: a topic, a bus, an address. `parameters` are what makes two effects the same one.
        """
        effect = {"service": service, "operation": operation, "target": target, "parameters": dict(parameters)}
        text = json.dumps(effect, sort_keys=True, default=repr)
        equal = sum(json.dumps(one, sort_keys=True, default=repr) == text for one in self.effects)
        self.effects.append(effect)
        return f"{hashlib.sha256(text.encode()).hexdigest()[:12]}-{equal + 1}"


STAND_INS: dict[str, Callable[[Account], StandIn]] = {}
"""The stand-in of each service by the name that boto3 gives it ("sns", "stepfunctions", "events")."""


def perform(account: Account, service: str, operation: str, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Perform a call in the account.

    The order is: the user's answer, the stand-in, a refusal by name.
    """
    given = account.answers.get(f"{service}.{operation}")
    if given is not None:
        return given(parameters) if callable(given) else given  # type: ignore[no-any-return]
    if service == "dynamodb":
        dynamodb = InMemoryDynamoDB(lambda: account.now_ms, account.tables, account.contents)
        return _method(dynamodb, service, operation)(**parameters)
    if service == "sqs":
        return _method(ExploredSQS(account.sent), service, operation)(**parameters)
    if service not in STAND_INS:
        raise UnsupportedRequest(
            f'{service}.{operation} has no stand-in. Give its answer: answers={{"{service}.{operation}": {{...}}}}.'
        )
    return STAND_INS[service](account).call(operation, parameters)


def _method(port: Any, service: str, operation: str) -> Callable[..., Mapping[str, Any]]:
    method = getattr(port, operation, None)
    if method is None:
        raise UnsupportedRequest(
            f'{service}.{operation} is not modelled. Give its answer: answers={{"{service}.{operation}": {{...}}}}.'
        )
    return method  # type: ignore[no-any-return]
