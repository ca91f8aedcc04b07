"""HTTP: the user's answers by method and address, and requests as outside effects.

It leaves out names, certificates and connections that are kept.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

from oneslot.dynamodb_in_memory.answers import UnsupportedRequest
from oneslot.explorer.services import account as accounts
from oneslot.explorer.services.account import Account

READING = ("get", "head", "options")
"""The methods that change nothing (RFC 9110, safe methods)."""

KEYS = "http/keys"


def reads(name: str) -> bool:
    """Return whether a call, by its name, changes nothing."""
    service, _, operation = name.rpartition(".")
    return operation in READING if service == "http" else operation.startswith(accounts.READING)


def request(account: Account, method: str, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Answer a request as the user says, and record it as an outside effect unless it only reads.

    A request with the Idempotency-Key of an earlier one takes effect once. Raises `UnsupportedRequest` without an answer.
    """
    url, headers, body = parameters["url"], parameters["headers"], parameters["body"]
    address = f"{method.upper()} {url.partition('?')[0]}"
    given = next((one for pattern, one in account.answers.items() if fnmatchcase(address, pattern)), None)
    if given is None:
        raise UnsupportedRequest(
            f'no answer is given. Give it: answers={{"{address}": {{"status": 200, "body": {{}}}}}}'
        )
    if method not in READING:
        key = headers.get("idempotency-key")
        known = account.state.setdefault(KEYS, {})
        if key is None or f"{address} {key}" not in known:
            text = body.decode(errors="replace")
            account.record("http", method, url, {"body": text, **({"key": key} if key else {})})
            if key:
                known[f"{address} {key}"] = True
    return _answer(given(parameters) if callable(given) else given)


def _answer(given: Mapping[str, Any]) -> dict[str, Any]:
    body, headers = given.get("body", b""), {"Content-Type": "application/json"}
    if not isinstance(body, (bytes, str)):
        body = json.dumps(body)
    encoded = body.encode() if isinstance(body, str) else body
    return {"status": given.get("status", 200), "headers": {**headers, **given.get("headers", {})}, "body": encoded}
