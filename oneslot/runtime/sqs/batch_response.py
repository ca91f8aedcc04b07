"""AWS's reading of a function's answer to a batch from SQS: which messages to delete, and which to redeliver.

Pure. The rules are those of the Lambda guide, "Using Lambda with Amazon SQS", partial batch responses:
success is an empty or null `batchItemFailures`, or an empty or null answer; a complete failure is an exception, an
answer that is not JSON, an empty or null `itemIdentifier`, or one under a wrong key. Where the guide is silent (an
unknown identifier, an answer that is not an object) nothing is deleted, which is safe.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

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
