"""The delivery log, the consumer's line about each delivery: a file for the local stack, CloudWatch Logs on AWS."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from oneslot.evidence.malformed import DELIVERY_LOG, Malformed, malformed_delivery
from oneslot.evidence.tables import NOT_FOUND
from oneslot.runtime.stores.expressions import error_code
from oneslot.target import Target

DELIVERY = "delivery"


def read_deliveries(target: Target, *, since_ms: int = 0, mentioning: str | None = None) -> Iterator[dict[str, Any]]:
    """Yield the log's lines about deliveries, in its order.

    since_ms: on AWS, skip earlier lines (epoch ms). mentioning: yield only lines about this message id or SQS message id.
    CloudWatch Logs returns a line some seconds after it was written.
    """
    for _, line in _lines(target, since_ms, mentioning):
        yield line


def valid_deliveries(
    target: Target, malformed: list[Malformed], *, since_ms: int = 0, mentioning: str | None = None
) -> Iterator[dict[str, Any]]:
    """Yield the valid lines of `read_deliveries`, each with both ids, None for a missing one.

    The malformed attribute of every other line is added to `malformed`. A missing log group yields nothing, as a missing
    local file does.
    """
    for place, line in _unless_missing(_lines(target, since_ms, mentioning)):
        if attribute := malformed_delivery(line, target.declaration.schema):
            malformed.append(Malformed(DELIVERY_LOG, place, attribute))
        else:
            yield {"message_id": None, "sqs_message_id": None, **line}


def _unless_missing(lines: Iterator[tuple[str, dict[str, Any]]]) -> Iterator[tuple[str, dict[str, Any]]]:
    try:
        yield from lines
    except ClientError as error:
        if error_code(error) != NOT_FOUND:
            raise


def _lines(target: Target, since_ms: int, mentioning: str | None) -> Iterator[tuple[str, dict[str, Any]]]:
    lines = (
        _of_file(Path(target.local.log_file))
        if target.local is not None
        else _of_log_group(target, since_ms, mentioning)
    )
    for place, line in lines:
        if mentioning is None or mentioning in (line.get("message_id"), line.get("sqs_message_id")):
            yield place, line


def _of_file(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    if not path.exists():
        return
    with path.open(encoding="utf-8", errors="replace") as file:
        for number, text in enumerate(file, 1):
            if (line := _delivery(text)) is not None:
                yield f"line {number} of {path}", line


def _of_log_group(target: Target, since_ms: int, mentioning: str | None) -> Iterator[tuple[str, dict[str, Any]]]:
    pattern = f'{{ $.message = "{DELIVERY}" }}'
    if mentioning is not None:
        pattern = (
            f'{{ $.message = "{DELIVERY}" && ($.message_id = "{mentioning}" || $.sqs_message_id = "{mentioning}") }}'
        )
    pages = target.logs.get_paginator("filter_log_events").paginate(
        logGroupName=target.outputs.consumer_log_group_name, filterPattern=pattern, startTime=since_ms
    )
    for page in pages:
        for event in page["events"]:
            if (line := _delivery(event["message"])) is not None:
                yield f"event {event['eventId']} of stream {event['logStreamName']}", line


def _delivery(text: str) -> dict[str, Any] | None:
    # The log has other lines too: metrics, and half a line where a process was killed.
    if DELIVERY not in text:
        return None
    try:
        line = json.loads(text)
    except ValueError:
        return None
    return line if isinstance(line, dict) and line.get("message") == DELIVERY else None
