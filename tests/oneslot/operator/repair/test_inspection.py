"""`inspect` by SQS's own id."""

from __future__ import annotations

from tests.kits.consumer import record
from tests.kits.moto_stack import MotoStack, document, invoke


def test_inspect_finds_a_message_by_sqs_own_id(moto_stack: MotoStack) -> None:
    bad = record("not json")
    moto_stack.bench.deliver(bad)
    moto_stack.write_log()
    found = document(invoke("inspect", bad["messageId"], "--json"))
    assert found["summary"] == "Quarantined: not_json."
    assert found["dead_letters"][0]["source_sqs_message_id"] == bad["messageId"]
