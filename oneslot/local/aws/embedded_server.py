"""The program of the embedded AWS's process: ministack, which ends with the process that started it.

`embedded_aws` runs it. Standard input is a pipe whose other end only the parent holds, so it ends when the parent does.
PR_SET_PDEATHSIG would not do: it follows the *thread* that started the child, and only Linux has it.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import threading
import time
from functools import lru_cache
from typing import Any

from ministack.services import dynamodb, sqs

from oneslot.runtime.sqs.sending import Entry

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


if __name__ == "__main__":
    end_with_parent()
    parse_expressions_once()
    count_attributes()
    sys.argv = ["ministack"]
    runpy.run_module("ministack", run_name="__main__")
