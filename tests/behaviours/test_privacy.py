"""Patients' numbers in every place where a producer could put one, and a search of all output."""

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from appointments.nhs_number import is_valid
from oneslot.runtime.sqs.queue import QUARANTINE_ATTRIBUTES
from oneslot.runtime.values import from_attributes
from tests.behaviours.conftest import Terminal
from tests.behaviours.privacy import spelled, telling
from tests.kits.consumer import booking

pytestmark = pytest.mark.embedded_aws

NUMBERS = ("9990000018", "9992468130")
"""Valid numbers of the range that is reserved for tests."""
ALWAYS = {"practice": "Z00001", "not_before": "2020-01-01T08:00:00Z", "not_after": "2100-12-31T18:00:00Z"}


def hostile_bodies() -> Iterator[str]:
    """Yield bodies with a number in each field and spelling: as a name, as an id, nested, and outside JSON."""
    for at, number in enumerate(NUMBERS):
        for spelling in (
            number,
            f"{number[:3]} {number[3:6]} {number[6:]}",
            f"{number[:3]}-{number[3:6]}-{number[6:]}",
        ):
            body: dict[str, Any] = booking(f"m-{at}", nhs_number=number, **ALWAYS)
            for field in body:
                yield json.dumps({**body, "message_id": f"m-{at}-{field}-{len(spelling)}", field: spelling})
            yield json.dumps({**body, "message_id": f"m-{at}-more-{len(spelling)}", spelling: {"x": [spelling]}})
            yield json.dumps({"message_id": f"c-{at}-{len(spelling)}", "type": "cancel", "appointment_id": spelling})
            yield f"patient {spelling} called"
            yield f'{{"message_id": "{spelling}", "message_id": "{spelling}"}}'
        yield json.dumps(booking(f"good-{at}", nhs_number=number, **ALWAYS))


@pytest.mark.slow
def test_no_output_shows_a_patients_number(terminal: Terminal) -> None:
    assert all(is_valid(number) for number in NUMBERS)
    terminal.json("seed", "--slots", "100", "--practice-count", "1")
    target = terminal.target
    sent = list(hostile_bodies())
    for body in sent:
        target.sqs.send_message(QueueUrl=target.outputs.queue_url, MessageBody=body)
    for number in NUMBERS:  # in an attribute
        target.sqs.send_message(
            QueueUrl=target.outputs.queue_url,
            MessageBody=json.dumps(booking("x", nhs_number=number, **ALWAYS)),
            MessageAttributes={"MessageDeduplicationId": {"DataType": "String", "StringValue": number}},
        )
    output = [terminal.drain()]
    listed = terminal.json("dlq", "list")
    assert listed["count"] > len(NUMBERS) * 10
    ids = [letter["message_id"] or letter["sqs_message_id"] for letter in listed["messages"]]
    output += [json.dumps(listed)]
    for command in (
        ["status"],
        ["dlq", "list"],
        ["inspect", ids[0]],
        ["dlq", "redrive", "--all", "--yes"],
        ["check"],
    ):
        output += [terminal.run(*command).output, terminal.run(*command, "--json").output]
    output += [terminal.drain()]
    output += [
        terminal.run(verb, *words).output for verb, *words in (("inspect", "good-0"), ("ledger", "show", "good-0"))
    ]
    pattern = spelled(NUMBERS)
    assert [text for text in output if pattern.search(text)] == []
    assert telling(terminal.home, NUMBERS) == [], "delivery log, archive, operator log, reports"
    for name, table in (("ledger", target.outputs.ledger_table_name), ("slots", target.outputs.tables["slots"])):
        rows = [from_attributes(item) for item in target.dynamodb.scan(TableName=table)["Items"]]
        assert not pattern.search(json.dumps(rows, default=str)), name
    assert pattern.search(bodies_of_the_dead_letters(target)), "the search finds what is there"
    assert not pattern.search(log_groups(terminal))


def bodies_of_the_dead_letters(target: Any) -> str:
    """Return the bodies, which are unchanged, and assert that no reason shows a number."""
    pattern = spelled(NUMBERS)
    answer = target.sqs.receive_message(
        QueueUrl=target.outputs.dead_letter_queue_url, MaxNumberOfMessages=10, MessageAttributeNames=["All"]
    )
    for message in answer["Messages"]:
        said = [message["MessageAttributes"][name]["StringValue"] for name in QUARANTINE_ATTRIBUTES]
        assert not pattern.search(" ".join(said))
    return " ".join(message["Body"] for message in answer["Messages"])


def log_groups(terminal: Terminal) -> str:
    """Return all events of the account's log groups."""
    local = terminal.target.local
    assert local is not None
    with closing(local.connection.client("logs")) as logs:
        groups = [group["logGroupName"] for group in logs.describe_log_groups()["logGroups"]]
        return json.dumps([logs.filter_log_events(logGroupName=name)["events"] for name in groups])
