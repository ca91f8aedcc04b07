"""A function's answer to a batch from SQS: its text, and which messages it lets Lambda delete.

The text is as AWS's runtime client for Python encodes it (`lambda_runtime_marshaller`). The reading is by the Lambda guide,
"Using Lambda with Amazon SQS", partial batch responses: success is an empty or null `batchItemFailures`, or an empty or null
answer; a complete failure is an exception, an answer that is not JSON, an empty or null `itemIdentifier`, or one under a wrong
key. Where the guide is silent (an unknown identifier, an answer that is not an object) nothing is deleted, which is safe.

It needs the standard library alone: the local handler process runs this file beside the packages of another asset.
"""

import inspect
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
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


REPORT_FAILURES = "ReportBatchItemFailures"


@dataclass(frozen=True)
class Split:
    """A valid answer: delete the first, leave the second to their visibility timeout."""

    succeeded: tuple[str, ...]
    failed: tuple[str, ...]


@dataclass(frozen=True)
class Invalid:
    """An invalid answer: the whole batch failed. `reason` is a sentence without message content."""

    reason: str


class _Rejected(Exception):
    """The answer breaks a rule. The text is the reason."""


def judge(answer: str, message_ids: Sequence[str], *, reports_failures: bool) -> Split | Invalid:
    """Split a batch by the function's answer.

    answer: the function's return value as JSON text. message_ids: the SQS MessageIds of the batch, in its order.
    reports_failures: whether the mapping has `ReportBatchItemFailures`; without it every answer is a success.
    """
    try:
        failed = {_identifier(failure, message_ids) for failure in _failures(answer)} if reports_failures else set()
    except _Rejected as error:
        return Invalid(str(error))
    return Split(
        tuple(each for each in message_ids if each not in failed), tuple(each for each in message_ids if each in failed)
    )


def _failures(answer: str) -> list[Any]:
    try:
        document = json.loads(answer, parse_constant=_refuse_constant)
    except ValueError:
        raise _Rejected("The answer is not JSON.") from None
    if document is None:
        return []
    if not isinstance(document, dict):
        raise _Rejected("The answer is not a JSON object.")
    failures = document.get("batchItemFailures")
    if failures is None:
        return []
    if not isinstance(failures, list):
        raise _Rejected("batchItemFailures is not a list.")
    return failures


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON, although Python writes and reads it")


def _identifier(failure: Any, message_ids: Sequence[str]) -> str:
    if not isinstance(failure, dict) or "itemIdentifier" not in failure:
        raise _Rejected("An entry of batchItemFailures has no itemIdentifier.")
    identifier = failure["itemIdentifier"]
    if not isinstance(identifier, str) or not identifier:
        raise _Rejected("An itemIdentifier is empty or null.")
    if identifier not in message_ids:
        raise _Rejected("An itemIdentifier is not of this batch.")
    return identifier
