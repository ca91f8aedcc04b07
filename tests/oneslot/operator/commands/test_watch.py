"""`oneslot watch` of a stack whose consumer is paused, or fails."""

from __future__ import annotations

import time
from pathlib import Path

from tests.kits.consumer import booking
from tests.kits.logs import write_failures
from tests.kits.moto_stack import NOW, MotoStack, document, invoke

ONCE = ("--timeout", "0.1")


def test_watch_and_status_say_that_deliveries_fail_again(moto_stack: MotoStack) -> None:
    moto_stack.bench.sqs.send_message(QueueUrl=moto_stack.target.outputs.queue_url, MessageBody="{}")
    write_failures(moto_stack, "m-1", receives=4)
    write_failures(moto_stack, "m-2", receives=1)
    write_failures(moto_stack, "m-3", receives=9, at_ms=int(time.time() - 3_600) * 1_000)

    watched = invoke("watch", "--until-drained", *ONCE)
    [failing] = document(invoke("status", "--json"))["failing"]

    assert "; 1 failed again and again: KeyError at decision.py:8" in watched.stderr
    sentence = (
        "1 message failed again and again in the last 15 minutes: m-1 at delivery 4 with KeyError at /var/decision.py:8. "
        "See `oneslot inspect m-1`."
    )
    assert sentence in watched.stdout
    assert sentence in invoke("status").stdout
    assert (watched.exit_code, failing["message"], failing["receives"]) == (1, "m-1", 4)


def test_dlq_names_the_exception_when_all_receives_failed(moto_stack: MotoStack) -> None:
    for name in ("m-1", "m-2"):
        sqs_message_id = moto_stack.put_dead_letter(booking(name, **NOW))
        write_failures(moto_stack, name, sqs_message_id, receives=10)

    listed = document(invoke("dlq", "list", "--json"))["messages"]

    assert {each["failure"] for each in listed} == {"KeyError at /var/decision.py:8"}
    assert "receives_exhausted (KeyError at decision.py:8)" in invoke("dlq", "list", COLUMNS="200").stdout
    assert "KeyError at /var/decision.py:8" in invoke("dlq", "show", "m-1").stdout
    assert "failed (KeyError at decision.py:8)" in invoke("inspect", "m-1", COLUMNS="200").stdout

    assert moto_stack.target.local is not None
    Path(moto_stack.target.local.log_file).unlink()
    for verb in (("list",), ("show", "m-1")):
        sentence = "The delivery log names the exception of each delivery: oneslot inspect MESSAGE_ID."
        assert sentence in invoke("dlq", *verb).stdout
