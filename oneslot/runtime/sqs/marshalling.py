"""The text of a function's answer, as AWS's runtime client for Python encodes it (`lambda_runtime_marshaller`).

It needs the standard library alone: the local handler process runs this file beside the packages of another asset.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable
from decimal import Decimal
from typing import Any


class MarshalError(TypeError):
    """Lambda fails the invocation, after its effects, because the answer has no encoding. `str(error)` says why."""


MarshalError.__name__ = "Runtime.MarshalError"  # Lambda's own name, which a user searches for


def encoded(answer: Any) -> str:
    """Return an answer's text. Raises `MarshalError`.

    A Decimal is a number, bytes are text, a tuple is a list and a named tuple an object. NaN and Infinity are written so,
    which JSON does not allow. Bytes alone are sent as they are.
    """
    if isinstance(answer, bytes):
        return answer.decode(errors="replace")
    try:
        text = _text(answer)
        text.encode()  # a half surrogate pair has no bytes
    except Exception as error:  # as the runtime client does
        raise MarshalError(f"Unable to marshal response: {error}") from error
    return text


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        value = value.decode()
    if isinstance(value, Decimal):
        return "NaN" if value.is_nan() else str(value)
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return f"{{{_joined(f'{_key(name)}: {_text(one)}' for name, one in value.items())}}}"
    if isinstance(value, list | tuple):
        return f"[{_joined(map(_text, value))}]"
    if inspect.iscoroutine(value):
        value.close()
        raise TypeError("Object of type coroutine is not JSON serializable. Lambda does not await an async handler")
    return json.dumps(value, ensure_ascii=False)


def _key(name: Any) -> str:
    # A text, or what JSON's own encoder makes text of: a number, true, false or null.
    return json.dumps({name.decode() if isinstance(name, bytes) else name: 0}, ensure_ascii=False)[1:-4]


def _joined(texts: Iterable[str]) -> str:
    return ", ".join(texts)
