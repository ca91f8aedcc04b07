"""The verdict on real runs, damaged rows and expired ones."""

import json
import time
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import pytest

from demo.generator import Mix, RequestGenerator
from demo.plan import make_plan
from oneslot.errors import InvalidRetention
from oneslot.local.aws.connection import Connection
from oneslot.operator.evidence.gathering import gather
from oneslot.operator.evidence.verdict import CheckVerdict, judge
from oneslot.operator.sending.archive import Archive
from oneslot.operator.sending.messages import MALFORMED, Archived, RequestCopy
from oneslot.operator.sending.sender import BatchSender, send_all
from oneslot.runtime.surroundings import Surroundings
from oneslot.runtime.values import to_attributes
from tests.kits.consumer import BEFORE, booking, record
from tests.kits.moto_stack import ENVIRONMENT, Functions, MotoStack

RETENTION_MS = 1000 * int(ENVIRONMENT["ONESLOT_LEDGER_RETENTION_SECONDS"])
NOW = datetime.fromtimestamp(BEFORE / 1000, UTC)


def send(stack: MotoStack, mix: Mix, slots: int = 40) -> list[RequestCopy]:
    """Seed, and send a mix of requests."""
    plan = make_plan(2, slots, seed=1, monday=datetime(2026, 11, 23).date())
    stack.seed(plan)
    messages = list(RequestGenerator(plan, mix, 1, NOW).messages())
    archive = Archive(stack.target.archive)
    sender = BatchSender(stack.bench.sqs, stack.target.outputs.queue_url)
    send_all(iter(messages), sender, archive, progress=lambda _: None, workers=1)
    return messages


def accept(stack: MotoStack, message: RequestCopy, sqs_message_id: str) -> None:
    """Note in the archive that the queue took a message."""
    archive = Archive(stack.target.archive, surroundings=Surroundings(now_ms=lambda: BEFORE))
    archive.accepted([(message, sqs_message_id)])


def verdict_of(stack: MotoStack, now: int = BEFORE) -> CheckVerdict:
    """Gather and judge, as of `now` (epoch ms)."""
    return judge(gather(stack.target, lambda: now), stack.target.command)


MIX = Mix(100, duplicates=0.3, malformed=0.15, cancellations=0.1)


@pytest.mark.slow
def test_verdict_holds_for_a_run_with_every_kind_of_request(moto_stack: MotoStack) -> None:
    messages = send(moto_stack, MIX)
    moto_stack.consume()
    verdict = verdict_of(moto_stack)
    assert verdict.holds, verdict.sentence
    assert verdict.sentence.startswith("Exactly once: each of 98 requests has exactly one answer or is quarantined")
    counts = verdict.counts
    assert (counts.requests, counts.messages, counts.deliveries) == (98, 130, 130)
    assert counts.verdicts is not None
    assert counts.verdicts["waitlist"], "forty slots for seventy-five patients"
    assert (counts.verdicts["quarantined"], counts.reused) == (13, 2)
    assert counts.duplicates == 31, "thirty copies, and a booking that its cancellation overtook"
    malformed = {message.number: message.request for message in messages if message.request.kind == MALFORMED}
    assert sum(counts.dead_letters.values()) == len(malformed) == 15
    assert counts.dead_letters["conflict"] == 2
    # Every request ended somewhere: 85 in the ledger, of which 10 are cancellations.
    assert counts.completed == 85
    assert counts.lost == counts.double_booked == 0
    assert asdict(verdict_of(moto_stack)) == asdict(verdict), "to look changes nothing"


def test_message_without_id_is_not_lost_when_a_worker_answered(moto_stack: MotoStack) -> None:
    """A worker's lines are not in the delivery log; the row has the content's digest for its id."""
    moto_stack.bench.deliver(record(booking("m-1")))
    row = moto_stack.bench.row("m-1") | {"message_id": "0" * 64, "result": '{"outcome": "cancelled"}'}
    moto_stack.bench.dynamodb.put_item(TableName="ledger", Item=to_attributes(row))
    for content in (row["payload_hash"], "another"):
        accept(moto_stack, RequestCopy("", Archived(None, payload_hash=content), 0), f"of {content}")
    lost = [breach.subject for breach in verdict_of(moto_stack).breaches if breach.invariant == "I2"]
    assert lost == ["of another"]


def expire(stack: MotoStack) -> None:
    """Expire the ledger's rows and the log's lines, as a month does; keep appointments and archive."""
    for row in stack.bench.rows("ledger"):
        stack.bench.dynamodb.delete_item(TableName="ledger", Key={"message_id": {"S": row["message_id"]}})
    assert stack.target.local is not None
    Path(stack.target.local.log_file).unlink()
    url = stack.target.outputs.dead_letter_queue_url
    stack.bench.sqs.purge_queue(QueueUrl=url)


def test_verdict_holds_when_rows_expired_after_the_retention(moto_stack: MotoStack) -> None:
    """Whether or not the log is kept for longer."""
    send(moto_stack, Mix(10, duplicates=0.3, malformed=0.1, cancellations=0.2))
    moto_stack.consume()
    before = verdict_of(moto_stack)
    assert before.holds, before.sentence
    expire(moto_stack)
    assert verdict_of(moto_stack).kind == "broken", "nothing may be missing yet"
    later = max(BEFORE, time.time_ns() // 1_000_000) + RETENTION_MS + 1
    without_log = verdict_of(moto_stack, later)
    moto_stack.write_log()
    for after in (without_log, verdict_of(moto_stack, later)):
        assert after.holds, after.sentence
        assert (after.counts.lost, after.counts.too_old) == (None, before.counts.requests)
        assert "10 more are older than the ledger's retention" in after.sentence


def test_recent_requests_are_judged_on_an_old_stack(moto_stack: MotoStack) -> None:
    send(moto_stack, Mix(10, malformed=0, cancellations=0))
    moto_stack.consume()
    expire(moto_stack)
    archive = moto_stack.target.archive
    lines = [json.loads(line) for line in archive.read_text().splitlines()]
    month_ago = "".join(json.dumps({**line, "sent": BEFORE - RETENTION_MS}) + "\n" for line in lines[1:])
    archive.write_text(json.dumps({**lines[0], "sent": BEFORE}) + "\n" + month_ago)
    for row in moto_stack.bench.rows("appointments"):
        item = to_attributes({**row, "created": BEFORE - RETENTION_MS})
        moto_stack.bench.dynamodb.put_item(TableName="appointments", Item=item)
    verdict = verdict_of(moto_stack, BEFORE + 1)
    assert {(breach.invariant, breach.subject) for breach in verdict.breaches} == set()
    nothing_made = lines[0]["message_id"]
    moto_stack.bench.dynamodb.delete_item(TableName="appointments", Key={"appointment_id": {"S": nothing_made}})
    lost = verdict_of(moto_stack, BEFORE + 1)
    assert ("I2", nothing_made) in {(breach.invariant, breach.subject) for breach in lost.breaches}
    assert lost.counts.too_old == 10 - 1


def test_rows_from_before_a_longer_retention_are_not_missed(
    moto_stack: MotoStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported = {**ENVIRONMENT, "ONESLOT_LEDGER_RETENTION_SECONDS": "forever"}
    monkeypatch.setattr(Connection, "functions", lambda _: Functions(reported))
    send(moto_stack, Mix(10, malformed=0))
    moto_stack.consume()
    expire(moto_stack)
    later = max(BEFORE, time.time_ns() // 1_000_000) + 5_000
    assert verdict_of(moto_stack, later).counts.lost == 10
    reported["LEDGER_FORGOTTEN_BEFORE"] = datetime.fromtimestamp(later / 1000, UTC).isoformat()
    after = verdict_of(moto_stack, later)
    assert after.holds, after.sentence
    assert (after.counts.lost, after.counts.too_old) == (None, 10)
    with pytest.raises(InvalidRetention):
        verdict_of(moto_stack, later - 1)
    for invalid in ("yesterday", "2026-11-23T14:00:00"):
        reported["LEDGER_FORGOTTEN_BEFORE"] = invalid
        with pytest.raises(InvalidRetention, match=invalid):
            verdict_of(moto_stack, later)
