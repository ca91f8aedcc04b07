"""The program of the embedded AWS's process: ministack, which ends with the process that started it.

It runs code, so it obeys only its session token: loopback keeps out neither the machine's other users nor a page in a
browser.

`embedded_aws` runs it. Standard input is a pipe whose other end only the parent holds, so it ends when the parent does.
PR_SET_PDEATHSIG would not do: it follows the *thread* that started the child, and only Linux has it.
"""

import decimal
import hmac
import json
import os
import runpy
import signal
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from functools import lru_cache
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs

from ministack import app
from ministack.services import dynamodb, sqs

from oneslot.runtime.sqs.batches import Entry
from oneslot.runtime.values import MAXIMUM_DIGITS

GRACE_SECONDS = 5.0
EXPRESSIONS = 256
MAXIMUM_MESSAGE_BYTES = 1_048_576


def end_with_parent() -> None:
    """Start a thread that waits for standard input to end, then ends this process: by SIGTERM, then by exit."""

    def wait() -> None:
        while os.read(0, 1024):
            pass
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(GRACE_SECONDS)
        os._exit(1)

    threading.Thread(target=wait, name="end-with-parent", daemon=True).start()


def parse_expressions_once() -> None:
    """Keep how ministack reads an expression. It reads the text again for each item that a query tests."""
    tokenize = lru_cache(EXPRESSIONS)(dynamodb._tokenize)
    dynamodb._tokenize = lambda expression: list(tokenize(expression))  # callers may change their list
    dynamodb._condition_syntax_error = lru_cache(EXPRESSIONS)(dynamodb._condition_syntax_error)


def add_exactly() -> None:
    """Let sums keep all digits: DynamoDB has 38, and Python's own context rounds to 28."""
    decimal.DefaultContext.prec = 2 * MAXIMUM_DIGITS  # of each new thread
    decimal.setcontext(decimal.DefaultContext)


def count_attributes() -> None:
    """Refuse a message that is too large with its attributes, as SQS does. Ministack counts the body alone."""
    send = sqs._act_send_message

    def send_counted(request: dict[str, Any], address: str) -> Any:
        if request.get("MessageAttributes"):
            queue = sqs._get_q(request.get("QueueUrl", address), "sqs:SendMessage")
            limit = int(queue["attributes"].get("MaximumMessageSize", MAXIMUM_MESSAGE_BYTES))
            if Entry(None, request).size > limit:
                reason = f"One or more parameters are invalid. Reason: Message must be shorter than {limit} bytes."
                raise sqs._Err("InvalidParameterValue", reason)
        return send(request, address)

    sqs._act_send_message = sqs._HANDLERS["SendMessage"] = send_counted


HEADER = "x-amz-security-token"
# A custom resource answers to the address of its event, whose last part is a secret of its own.
ANSWERS = "/_ministack/cfn-response/"
REFUSED = (
    "The embedded AWS takes only requests with the session token of its start, and none from a web page. "
    'Set it: eval "$(oneslot env)".'
)


def ask_for_the_token(token: str) -> None:
    """Refuse each request without `token`, and each one of a web page (header Origin), with 403 InvalidClientTokenId."""
    served = app.app

    async def guarded(
        scope: dict[str, Any],
        receive: Callable[[], Awaitable[dict[str, Any]]],
        send: Callable[[dict[str, Any]], Awaitable[None]],
    ) -> None:
        if scope["type"] == "lifespan" or _may_pass(scope, token):
            await served(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            error = f"<Error><Code>InvalidClientTokenId</Code><Message>{REFUSED}</Message></Error>"
            kind, reply = b"text/xml", f"<ErrorResponse>{error}</ErrorResponse>"
            if any(name == b"x-amz-target" for name, _ in scope["headers"]):
                kind = b"application/x-amz-json-1.0"
                reply = json.dumps({"__type": "InvalidClientTokenId", "message": REFUSED})
            headers = [
                (b"content-type", kind),
                (b"x-amzn-errortype", b"InvalidClientTokenId"),
                (b"connection", b"close"),
            ]
            await send({"type": "http.response.start", "status": HTTPStatus.FORBIDDEN, "headers": headers})
            await send({"type": "http.response.body", "body": reply.encode()})

    app.app = guarded


def _may_pass(scope: dict[str, Any], token: str) -> bool:
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    if "origin" in headers:
        return False
    if scope["path"].startswith(ANSWERS):
        return True
    query = {name.lower(): values[-1] for name, values in parse_qs(scope["query_string"].decode("latin-1")).items()}
    return hmac.compare_digest(headers.get(HEADER, query.get(HEADER, "")).encode(), token.encode())


if __name__ == "__main__":
    end_with_parent()
    ask_for_the_token(os.environ["AWS_SESSION_TOKEN"])
    parse_expressions_once()
    add_exactly()
    count_attributes()
    sys.argv = ["ministack"]
    runpy.run_module("ministack", run_name="__main__")
