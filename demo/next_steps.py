"""The commands to paste once the local stack is up."""

import json
import random
import shlex
from datetime import date
from uuid import uuid4

from demo.plan import LOCAL_TIME, load, next_monday, opening_hours, synthetic_nhs_number, working_days
from oneslot.local.state import LocalState
from oneslot.operator.target import Target
from oneslot.runtime.sqs.queue import is_fifo


def next_steps(target: Target, state: LocalState) -> list[tuple[str, str, str]]:
    """Return `(name, purpose, shell lines)`: one request by the AWS CLI, then thousands by the command line."""
    seeded = load(target.plan, target.identity)
    practice = next(iter(seeded.practices)) if seeded else "Z00001"
    days = seeded.days if seeded else working_days(next_monday(date.today()))  # noqa: DTZ011 - the user's own day
    first, last = (opening_hours(days[at])[end].astimezone(LOCAL_TIME).isoformat() for at, end in ((0, 0), (-1, 1)))
    message_id = str(uuid4())
    body = sample_request(practice, first, last, synthetic_nhs_number(random.Random()), message_id)
    # The CLI's sqs commands do not read AWS_ENDPOINT_URL, so every line names the endpoint.
    endpoint = f"--endpoint-url {state.endpoint_url}"
    key = '{"message_id": {"S": "%s"}}' % message_id  # noqa: UP031 - braces are part of the text
    outputs = target.outputs
    order = f" --message-group-id {practice}" if is_fifo(outputs.queue_url) else ""
    return [
        ("credentials", "let the AWS CLI reach it", 'eval "$(oneslot env)"'),
        ("seed", "open slots" + (" (already done)" if seeded else ""), "oneslot seed"),
        (
            "send",
            "send one request, for a made-up patient whose number is reserved for tests",
            f"aws sqs send-message {endpoint} --queue-url {outputs.queue_url} --message-body {shlex.quote(body)}{order}",
        ),
        ("inspect", "see what became of it", f"oneslot inspect {message_id}"),
        (
            "ledger",
            "see its row in the ledger",
            f"aws dynamodb get-item {endpoint} --table-name {outputs.ledger_table_name} --key {shlex.quote(key)}",
        ),
        (
            "queue",
            "count the messages in the queue",
            f"aws sqs get-queue-attributes {endpoint} --queue-url {outputs.queue_url} --attribute-names All",
        ),
        (
            "more",
            "or send thousands of requests, many of them twice, and judge the result",
            "oneslot send\noneslot watch --until-drained\noneslot check",
        ),
        ("update", "deploy an edit; what queues and tables hold stays", "oneslot up"),
        ("down", "stop the local stack", "oneslot down"),
    ]


def sample_request(practice: str, not_before: str, not_after: str, patient: str, message_id: str) -> str:
    """Return the body of a booking."""
    return json.dumps(
        {
            "message_id": message_id,
            "type": "book",
            "practice": practice,
            "nhs_number": patient,
            "not_before": not_before,
            "not_after": not_after,
            "delivery_channel": "In-person",
            "service_type": "General Consultation Routine",
        }
    )
