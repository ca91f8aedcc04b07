"""The delivery log, the consumer's line about each delivery: a file for the local stack, CloudWatch Logs on AWS."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from oneslot.laws.form import is_encodable
from oneslot.operator.evidence.malformed import DELIVERY_LOG, Malformed, malformed_delivery
from oneslot.operator.evidence.tables import NOT_FOUND
from oneslot.operator.sending.archive import json_object
from oneslot.operator.target import Target
from oneslot.runtime.failures import error_code

DELIVERY = "delivery"
FAILED = "failed"
_PLACE = re.compile(r"^(?:/var/task/|.*/function/[0-9a-f]{16}/|.*/)")


@dataclass(frozen=True)
class Failure:
    """The last failed delivery of a message, by the delivery log.

    `reason` is the error's class or code, `where` its file and line. `receives` counts the deliveries until then.
    """

    message: str
    reason: str
    where: str | None
    receives: int

    def __str__(self) -> str:
        """Return both, with the file as the function's code names it, not where this machine keeps a copy of the code."""
        return self.reason + (f" at {_PLACE.sub('', self.where)}" if self.where else "")


def read_failures(target: Target, *, since_ms: int = 0, mentioning: str | None = None) -> dict[str, Failure]:
    """Return the last failed delivery of each message, by its SQS id. A missing log has none; see `valid_deliveries`."""
    lines = valid_deliveries(target, [], since_ms=since_ms, mentioning=mentioning)
    failed = (line for line in lines if line["outcome"] == FAILED and line["finished"] >= since_ms)
    return {line["sqs_message_id"]: failure_of(line) for line in failed}


def failure_of(line: Mapping[str, Any]) -> Failure:
    """Return what a valid line says of a failed delivery."""
    name = line["message_id"] or line["sqs_message_id"]
    return Failure(name, str(line.get("reason")), line.get("where"), line.get("receive_count", 1))


def read_deliveries(target: Target) -> Iterator[Mapping[str, Any]]:
    """Yield the log's lines about deliveries, as `identified`."""
    return identified(line for _, line in _lines(target, 0, None))


def identified(lines: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Yield lines in their order, but those of a message without an id when a later one has it, or last.

    They get this id, which a consumer whose rule for ids was corrected found in the redriven message.
    """
    held: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for line in lines:
        message_id, sqs_message_id = line.get("message_id"), line.get("sqs_message_id")
        if message_id is None and isinstance(sqs_message_id, str):
            held[sqs_message_id].append(line)
        else:
            found = held.pop(str(sqs_message_id), ()) if isinstance(message_id, str) else ()
            yield from ({**earlier, "message_id": message_id} for earlier in found)
            yield line
    yield from chain.from_iterable(held.values())


def valid_deliveries(
    target: Target,
    malformed: list[Malformed],
    *,
    since_ms: int = 0,
    mentioning: str | None = None,
    again: bool = False,
) -> Iterator[dict[str, Any]]:
    """Yield the valid lines about deliveries, each with both ids, None for a missing one.

    `since_ms` (epoch ms) skips earlier lines on AWS, `mentioning` those about other ids, and `again` first deliveries.
    The malformed attribute of a line goes to `malformed`. A missing log group yields nothing, as a missing local file does.
    """
    try:
        for place, line in _lines(target, since_ms, mentioning, again=again):
            if attribute := malformed_delivery(line, target.declaration.schema):
                malformed.append(Malformed(DELIVERY_LOG, place, attribute))
            else:
                yield {"message_id": None, "sqs_message_id": None, **line}
    except ClientError as error:
        if error_code(error) != NOT_FOUND:
            raise


def _lines(
    target: Target, since_ms: int, mentioning: str | None, *, again: bool = False
) -> Iterator[tuple[str, dict[str, Any]]]:
    wanted = [f'$.message = "{DELIVERY}"', *(["$.receive_count > 1"] if again else ())]
    if mentioning is not None:
        wanted.append(f'($.message_id = "{mentioning}" || $.sqs_message_id = "{mentioning}")')
    file = Path(target.local.log_file) if target.local else None
    for place, text in read_log(target, file, target.outputs.consumer_log_group_name, " && ".join(wanted), since_ms):
        line = _delivery(text)
        if line is None or (again and line.get("receive_count", 1) == 1):
            continue
        if mentioning is None or mentioning in (line.get("message_id"), line.get("sqs_message_id")):
            yield place, line


def read_log(target: Target, file: Path | None, group: str, wanted: str, since_ms: int) -> Iterator[tuple[str, str]]:
    """Yield each line with its place: all of a file, or those of a log group since then that are `wanted`."""
    if file is not None:
        if file.exists():
            with file.open(encoding="utf-8", errors="surrogateescape") as lines:
                for number, text in enumerate(lines, 1):
                    yield f"line {number} of {file}", text
        return
    pages = target.logs.get_paginator("filter_log_events").paginate(
        logGroupName=group, filterPattern=f"{{ {wanted} }}", startTime=since_ms
    )
    for page in pages:
        for event in page["events"]:
            yield f"event {event['eventId']} of stream {event['logStreamName']}", event["message"]


def _delivery(text: str) -> dict[str, Any] | None:
    # The log has other lines too: metrics, and half a line where a process was killed.
    if DELIVERY not in text:
        return None
    if "\0" in text or not is_encodable(text):  # of a damaged disk: a delivery, of which nothing else can be read
        return {"message": DELIVERY}
    line = json_object(text)
    return line if line and line.get("message") == DELIVERY else None
