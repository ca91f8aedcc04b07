"""Messages that follow a commit and cannot be delivered: every verb that looks at the stack says so, and why."""

import json
import time
from dataclasses import replace

import pytest

from oneslot.operator.evidence.unsent import RELAY_LOG_FILE, Undelivered, find_undelivered
from oneslot.runtime.sends.relay import YOUNG_MS
from tests.kits.consumer import booking, record
from tests.kits.moto_stack import NOW, Logs, MotoStack, document, invoke
from tests.oneslot.operator.evidence.test_deliveries import NoLogs

FAILURE = {"message": "relay", "message_id": "m-1", "id": "s-1", "to": "shipping", "failed": "QueueDoesNotExist"}
LATE, YOUNG = YOUNG_MS + 1_000, 1_000


@pytest.mark.parametrize(
    ("age_ms", "about", "refused"),
    [(YOUNG, "m-2", None), (YOUNG, "m-1", {"shipping": "QueueDoesNotExist"}), (LATE, "m-2", {})],
)
def test_verbs_name_what_no_relay_delivers_when_it_is_late_or_refused(
    moto_stack: MotoStack, age_ms: int, about: str, refused: dict[str, str] | None
) -> None:
    moto_stack.bench.deliver(record(booking("m-1", **NOW)))
    moto_stack.write_log()
    since = time.time_ns() // 1_000_000 - age_ms
    moto_stack.bench.dynamodb.update_item(
        TableName="ledger",
        Key={"message_id": {"S": "m-1"}},
        UpdateExpression="SET unsent = :two, updated = :since",
        ExpressionAttributeValues={":two": {"N": "2"}, ":since": {"N": str(since)}},
    )
    line = json.dumps({**FAILURE, "message_id": about, "count": 2})
    (moto_stack.home / RELAY_LOG_FILE).write_text(f"START of an invocation\n{line}\n")

    shown = {verb: invoke(*verb.split()).stdout for verb in ("status", "watch --timeout 0.1", "check", "inspect m-1")}
    documents = [document(invoke("status", "--json")), document(invoke("check", "--json"), int(refused is not None))]

    expected = None if refused is None else {"messages": 2, "since": since, "refused": refused}
    assert [each["undelivered"] for each in documents] == [expected, expected]
    assert documents[1]["kind"] == ("holds" if refused is None else "unfinished")
    for said in shown.values():
        assert ("2 messages that follow commits are not sent" in said) == (refused is not None)
        assert ("(shipping: QueueDoesNotExist). Correct" in said) == bool(refused)


def test_undelivered_names_the_error_of_the_relays_log_group_when_the_stack_is_on_aws(moto_stack: MotoStack) -> None:
    row, logs = {"message_id": "m-1", "unsent": 1, "updated": 7}, Logs(json.dumps({**FAILURE, "count": 1}), "REPORT")
    target = moto_stack.on_aws(logs)
    relayed = replace(target, outputs=replace(target.outputs, relay_log_group_name="/relay"))
    relayed.__dict__["logs"] = logs

    assert find_undelivered(relayed, [row]) == Undelivered(1, 7, {"shipping": "QueueDoesNotExist"})
    assert (logs.asked[0]["logGroupName"], logs.asked[0]["startTime"]) == ("/relay", 7)
    relayed.__dict__["logs"] = NoLogs("AccessDeniedException")
    assert find_undelivered(relayed, [row]) == find_undelivered(target, [row]) == Undelivered(1, 7)
