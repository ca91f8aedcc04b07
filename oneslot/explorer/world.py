"""The services' contents as an immutable value, and the services as a function from one such value to the next."""

from __future__ import annotations

import base64
import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import cached_property
from typing import Any, Protocol

from oneslot.dynamodb_in_memory.contents import Contents, TableSchema
from oneslot.explorer.renaming import OWN_NAME
from oneslot.runtime.sqs.lambda_event import received, record
from oneslot.runtime.values import from_attributes, to_attributes

NOON = int(datetime(2026, 11, 20, 12, 0, tzinfo=UTC).timestamp() * 1000)
"""The default start of an exploration (epoch ms)."""

SENT_MS = NOON - 1_000
"""When the messages were sent (epoch ms)."""

Line = list[Any]
STATE, EFFECT = "state", "effect"
"""The kinds of lines that hold what other services than DynamoDB and SQS keep, and what left the account."""


def to_text(value: Any) -> str:
    """Return JSON text of parameters or an answer."""
    return json.dumps(value, sort_keys=True, default=_encoded)


def from_text(text: str) -> Any:
    """Return what `to_text` was given."""
    return json.loads(text, object_hook=_decoded if '"$' in text else None)


def _encoded(value: Any) -> Any:
    if hasattr(value, "read"):
        value = value.read()
    match value:
        case str():
            return value
        case bytes() | bytearray():
            return {"$bytes": base64.b64encode(value).decode()}
        case datetime():
            return {"$time": value.isoformat()}
        case Decimal():
            return int(value) if value == int(value) else float(value)
        case set() | frozenset() | tuple():
            return sorted(value)
    raise TypeError(f"{type(value).__name__} is not a parameter of an AWS call")


def _decoded(value: dict[str, Any]) -> Any:
    if value.keys() == {"$bytes"}:
        return base64.b64decode(value["$bytes"])
    return datetime.fromisoformat(value["$time"]) if value.keys() == {"$time"} else value


@dataclass(frozen=True, slots=True)
class ApiCall:
    """One API call: boto3's method name and its parameters, as JSON text, so that equal calls are equal."""

    text: str

    @classmethod
    def of(cls, operation: str, parameters: Mapping[str, Any]) -> ApiCall:
        """Return the request of a call's name and parameters."""
        return cls(to_text([operation, parameters]))

    @property
    def parts(self) -> tuple[str, dict[str, Any]]:
        """The call's name and parameters."""
        operation, parameters = from_text(self.text)
        return operation, parameters


@dataclass(frozen=True, slots=True)
class SqsMessage:
    """A message in the queue. `message_id` is the request's id, not SQS's; a malformed message has its body as the id.

    `receives` is SQS's count of its deliveries. `fifo_number` is its place in a FIFO queue.
    """

    message_id: str
    body: str
    receives: int = 1
    fifo_number: int | None = None

    @property
    def sqs_id(self) -> str:
        """SQS's own id, the same in all deliveries."""
        return f"sqs-{hashlib.sha256(self.body.encode()).hexdigest()[:8]}"

    def record(self, position: int) -> dict[str, Any]:
        """Return the record that delivers the message at this position of a batch."""
        receipt = f"receipt-{position}-of-{OWN_NAME}"
        message = received(
            self.body, self.sqs_id, receipt, receives=self.receives, sent_ms=SENT_MS, fifo_number=self.fifo_number
        )
        queue = "arn:aws:sqs:eu-west-2:000000000000:explored"
        return record(message, queue_arn=queue if self.fifo_number is None else f"{queue}.fifo", region="eu-west-2")


@dataclass(frozen=True)
class World:
    """Items, tokens, queues and others as sorted lines of JSON: comparable, hashable, and renamed as text.

    A line is [kind, container, key, value].
    """

    text: str

    @classmethod
    def of(
        cls, contents: Contents, queues: Mapping[str, list[Mapping[str, Any]]], others: Iterable[Line] = ()
    ) -> World:
        """Return the world in which the services hold this."""
        lines: list[list[Any]] = [
            ["item", table, key, item] for table, items in contents.tables.items() for key, item in items.items()
        ]
        lines += [["token", "", token, list(value)] for token, value in contents.tokens.items()]
        lines += [["message", queue, "", message] for queue, messages in queues.items() for message in messages]
        lines += others
        return cls("\n".join(sorted(map(to_text, lines))))

    @classmethod
    def before(cls, rows: Mapping[str, Sequence[Mapping[str, Any]]], tables: Mapping[str, TableSchema]) -> World:
        """Return the world that holds these rows, in plain values by table, and nothing else."""
        contents = Contents({name: {} for name in tables})
        for name, table_rows in rows.items():
            for row in table_rows:
                item = to_attributes(row)
                contents.tables[name][tables[name].key_text(item)] = item
        return cls.of(contents, {})

    def lines(self, kind: str) -> Iterator[tuple[str, str, Any]]:
        """Yield container, key and value of each line of a kind."""
        for line in self.text.splitlines():
            if line.startswith(f'["{kind}"'):
                _, container, key, value = from_text(line)
                yield container, key, value

    def contents(self, tables: Iterable[str]) -> Contents:
        """Return what DynamoDB holds, with an entry for each of these tables."""
        contents = Contents({name: {} for name in tables})
        for table, key, item in self.lines("item"):
            contents.tables[table][key] = item
        contents.tokens = {token: (since, request) for _, token, (since, request) in self.lines("token")}
        return contents

    @property
    def queues(self) -> dict[str, list[Mapping[str, Any]]]:
        """The messages that were sent, by queue URL."""
        queues: dict[str, list[Mapping[str, Any]]] = {}
        for queue, _, message in self.lines("message"):
            queues.setdefault(queue, []).append(message)
        return queues

    @cached_property
    def rows(self) -> Mapping[str, Mapping[str, dict[str, Any]]]:
        """Items in plain values, by table and key. A table without items is empty."""
        rows: dict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
        for table, key, item in self.lines("item"):
            rows[table][key] = from_attributes(item)
        return rows

    def by(self, table: str, *names: str) -> dict[Any, dict[str, Any]]:
        """Return a table's rows by the values of these attributes."""
        return {
            row[names[0]] if len(names) == 1 else tuple(row[name] for name in names): row
            for row in self.rows[table].values()
        }


def error_text(error: Mapping[str, Any]) -> str:
    """Return the observation of an error in botocore's shape."""
    return to_text({"error": error})


UNANSWERED = json.dumps({"unanswered": True})
"""The observation that all of the SDK's attempts stayed without an answer."""


class Services(Protocol):
    """The services as a function. `conflict` names the item of a transaction that another transaction holds."""

    def __call__(self, world: World, request: ApiCall, now: int, conflict: int | None = None) -> tuple[World, str]:
        """Return the world after `request` at `now` (epoch ms), and the caller's observation."""
