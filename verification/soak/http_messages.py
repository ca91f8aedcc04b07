"""As much of HTTP/1.1 as passes between an AWS SDK and the embedded AWS, and the errors that a service answers with."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from http import HTTPStatus

from verification.soak.plan import NetworkFault

_END_OF_HEAD = b"\r\n\r\n"


@dataclass(frozen=True)
class HttpMessage:
    """A request or an answer, as its bytes were."""

    head: bytes
    body: bytes

    def header(self, name: str) -> str:
        """Return a header's value; empty if there is none."""
        for line in self.head.split(b"\r\n")[1:]:
            found, _, value = line.partition(b":")
            if found.decode("latin-1").lower() == name:
                return value.strip().decode("latin-1")
        return ""

    @property
    def operation(self) -> str:
        """The AWS operation of a request in one of AWS's JSON protocols, e.g. "UpdateItem"."""
        return self.header("x-amz-target").rpartition(".")[2]

    @property
    def is_dynamodb(self) -> bool:
        """Whether the request is for DynamoDB."""
        return self.header("x-amz-target").startswith("DynamoDB")


async def read_message(reader: asyncio.StreamReader) -> HttpMessage | None:
    """Read one message, its body by Content-Length; None if the other side has closed in good order."""
    try:
        head = await reader.readuntil(_END_OF_HEAD)
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise
        return None
    length = int(HttpMessage(head, b"").header("content-length") or "0")
    return HttpMessage(head, await reader.readexactly(length))


def error_answer(fault: NetworkFault, request: HttpMessage) -> bytes:
    """Return the service's error for THROTTLED, SERVER_ERROR or CONFLICT, in the words of the service that was asked."""
    status = HTTPStatus.INTERNAL_SERVER_ERROR if fault is NetworkFault.SERVER_ERROR else HTTPStatus.BAD_REQUEST
    document: dict[str, object] = {"message": "injected"}
    if fault is NetworkFault.SERVER_ERROR:
        code = "InternalServerError"
    elif fault is NetworkFault.THROTTLED:
        code = "ProvisionedThroughputExceededException" if request.is_dynamodb else "RequestThrottled"
    elif request.operation == "TransactWriteItems":
        # The first of the items is the ledger's row: the one that two consumers of one message meet at.
        code = "TransactionCanceledException"
        rest = [{"Code": "None"} for _ in json.loads(request.body)["TransactItems"][1:]]
        document["CancellationReasons"] = [{"Code": "TransactionConflict"}, *rest]
    else:
        code = "TransactionConflictException"
    body = json.dumps({"__type": f"com.amazonaws.dynamodb.v20120810#{code}", **document}).encode()
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: application/x-amz-json-1.0\r\n"
        f"x-amzn-errortype: {code}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body
