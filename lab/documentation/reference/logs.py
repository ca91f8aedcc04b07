"""The lines of the delivery log, the worker's events, and every metric with its dimensions and unit."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

from lab.figures.tables import listing, table
from oneslot.cdk.monitoring.metrics import deliveries_metric
from oneslot.runtime.consumer.delivery_log import Delivery
from oneslot.worker.log import NAMESPACE
from stacks.shared.measures import LATENCY_METRIC, OUTCOMES, SERVICE, VIOLATIONS_METRIC, namespace

WORKER = Path(__file__).resolve().parents[3] / "oneslot" / "worker"

FIELDS = {
    "sqs_message_id": "SQS's own id of the message",
    "receive_count": "how often SQS has delivered it",
    "sent": "when it was sent, in epoch ms",
    "function_request_id": "the invocation's id, or the worker's",
    "message_id": "the message's own id, if it may be logged",
    "outcome": "one of the outcomes below",
    "reason": "why it was quarantined or failed: a code, or an error's class",
    "consumption_count": "how often the request was claimed",
    "claimed_by": "the claim that answered",
    "answer": "a digest of the answer, to compare duplicates'",
    "finished": "when the attempt ended, in epoch ms",
    "attempt_ms": "the attempt's duration in ms",
    "trace": "the producer's trace, as W3C's or X-Ray's header",
    "where": "file and line where the attempt failed, in your code if it was running",
    "detail": "the text of an error of Oneslot, such as `InvalidEffects`, without values",
}

MEANINGS = {
    "booked": "got a slot",
    "waitlist": "no slot was free",
    "cancelled": "the appointment is cancelled",
    "refused": "cannot be met",
    "duplicate": "gets the first answer",
    "busy": "another consumer works on it; comes back",
    "quarantined": "is in the dead-letter queue with its reason",
    "fenced": "another consumer took over, and nothing was written",
    "failed": "raised, or ran out of time; comes back",
}

EVENTS = {
    "started": "the worker begins to poll",
    "stopping": "a signal or a failure ends it; messages in hand",
    "stopped": "the end; messages released, threads stuck",
    "broken": "a thread died; restart the process",
    "receive_error": "a poll failed; it is repeated",
    "received_too_late": "a message's visibility had ended on arrival",
    "visibility_error": "a heartbeat failed; it is repeated",
    "lease_lost": "SQS no longer keeps the message for this worker",
    "finished": "a handler returned",
    "finished_too_late": "a handler returned after the limit",
    "failed": "a handler raised",
    "over_limit": "a message exceeded `--limit`; its thread is abandoned",
    "retry_after_refused": "a handler asked for its own wait on a FIFO queue, or not as an int of 0 or more",
    "delete_error": "a deletion failed; it is repeated",
    "not_deleted": "a processed message could not be deleted; a duplicate follows",
    "claim_not_released": "a claim stays until its lease ends",
}


def delivery() -> str:
    """Return the list of a delivery line's fields."""
    return listing((f"`{each.name}`", FIELDS[each.name]) for each in fields(Delivery))


def outcomes() -> str:
    """Return the list of outcomes."""
    return listing((f"`{each}`", MEANINGS[each]) for each in OUTCOMES)


def events() -> str:
    """Return the list of the worker's events. Raises `LookupError` if it lacks one, or has one that no code writes."""
    code = "".join(source.read_text(encoding="utf-8") for source in sorted(WORKER.glob("*.py")))
    found = set(re.findall(r'\.event\(\s*"(\w+)"', code)) | set(re.findall(r'"(\w+)" if [^\n]* else "\w+",\n', code))
    if wrong := found ^ EVENTS.keys():
        raise LookupError(f"not both in the code and in EVENTS: {', '.join(sorted(wrong))}")
    return listing((f"`{name}`", meaning) for name, meaning in EVENTS.items())


def metrics() -> str:
    """Return the table of our own metrics."""
    own, service = f"`{namespace('STAGE')}`", f"`service` = `{SERVICE}`"
    code = "".join(source.read_text(encoding="utf-8") for source in sorted(WORKER.glob("*.py")))
    counters = sorted(set(re.findall(r"\.count\(\s*(\w+)=", code)))
    worker = ", ".join(f"`Worker{''.join(word.capitalize() for word in name.split('_'))}`" for name in counters)
    rows = [
        [f"`{deliveries_metric('')}`", own, service, "count", "each invocation, from the function"],
        [f"one for each outcome, such as `{deliveries_metric(OUTCOMES[0])}`", own, service, "count", "each invocation"],
        [f"`{LATENCY_METRIC}`", own, service, "ms", "each first answer: from the send to the answer"],
        [f"`{VIOLATIONS_METRIC}`", own, "none", "count", "each night, from the audit: what breaks an invariant"],
        [
            "`Worker` and the counter's name",
            f"`{NAMESPACE}`",
            "`service` = `worker`",
            "count",
            "each minute, from `oneslot worker`",
        ],
    ]
    table_of_all = table(["metric", "namespace", "dimension", "unit", "written"], rows)
    return f"{table_of_all}\nThe worker's counters: {worker}.\n"
