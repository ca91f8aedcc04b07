"""The evidence of check, export and drop: of this stack only, and under the ids that its consumer finds."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from moto.moto_api._internal import mock_random

from oneslot.local.aws.connection import Connection
from oneslot.operator.commands.export import export_history
from oneslot.operator.evidence import gathering as evidence
from oneslot.operator.evidence.dead_letters import list_dead_letters
from oneslot.operator.evidence.deliveries import read_deliveries
from oneslot.operator.evidence.gathering import gather
from oneslot.operator.evidence.verdict import judge
from oneslot.operator.sending.archive import Archive
from oneslot.operator.sending.messages import Archived, RequestCopy
from oneslot.operator.target import Target
from oneslot.runtime.sqs.batches import text_attributes
from oneslot.runtime.sqs.dead_letters import DeadLetter
from oneslot.runtime.sqs.queue import QueueDepth, queue_depth
from oneslot.runtime.surroundings import Surroundings
from tests.kits.consumer import BEFORE, booking
from tests.kits.moto_stack import ENVIRONMENT, Functions, MotoStack, invoke

if TYPE_CHECKING:
    from mypy_boto3_sqs.client import SQSClient

IN_A_GROUP = 12
AT_ONCE = 10


def accept(target: Target, name: str | None, sqs_message_id: str, stack: str | None = None) -> None:
    """Note in the archive that the queue took a request."""
    archive = Archive(target.archive, stack, Surroundings(now_ms=lambda: BEFORE))
    archive.accepted([(RequestCopy("", Archived(name), 0), sqs_message_id)])


def exported(target: Target, folder: Path) -> tuple[dict[str, list[Any]], list[str]]:
    """The lines of an export by source, and its notes."""
    notes: list[str] = []
    export_history(target, folder, notes.append)
    lines = {path.parent.name: path.read_text().splitlines() for path in folder.glob("*/*.jsonl")}
    return {name: [json.loads(line) for line in found] for name, found in lines.items()}, notes


# A FIFO queue shows ten messages of a group


@pytest.fixture
def fifo(moto_stack: MotoStack) -> Callable[[Sequence[str]], Target]:
    """Makes a stack whose dead-letter queue is a FIFO one and holds these, all of one practice."""
    sqs = moto_stack.bench.sqs

    def make(names: Sequence[str]) -> Target:
        attributes = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
        url = sqs.create_queue(QueueName="dead-letters.fifo", Attributes=attributes)["QueueUrl"]
        for name in names:
            accept(moto_stack.target, name, f"sqs-{name}")
            sqs.send_message(QueueUrl=url, MessageBody=json.dumps(booking(name)), MessageGroupId="A81001")
        return replace(moto_stack.target, outputs=replace(moto_stack.target.outputs, dead_letter_queue_url=url))

    return make


def test_fifo_letters_that_are_not_shown_are_not_lost(fifo: Callable[[Sequence[str]], Target], tmp_path: Path) -> None:
    target = fifo([f"m-{number:02d}" for number in range(IN_A_GROUP)])
    assert len(list_dead_letters(target)) == AT_ONCE
    verdict = judge(gather(target, lambda: BEFORE), target.command)
    assert (verdict.kind, verdict.breaches, verdict.counts.lost) == ("unfinished", (), None)
    lines, notes = exported(target, tmp_path / "history")
    assert len(lines["dead-letters"]) == AT_ONCE
    assert ("waiting" in lines, len(notes)) == (False, 1)


def test_fifo_letters_that_are_all_shown_are_judged(fifo: Callable[[Sequence[str]], Target], tmp_path: Path) -> None:
    target = fifo([f"m-{number}" for number in range(AT_ONCE)])
    assert judge(gather(target, lambda: BEFORE), target.command).holds
    lines, notes = exported(target, tmp_path / "history")
    assert (lines["waiting"], notes) == ([], [])
    accept(target, "gone", "sqs-gone")
    assert judge(gather(target, lambda: BEFORE), target.command).counts.lost == 1


def test_letters_hidden_by_a_killed_reader_are_not_lost(moto_stack: MotoStack, monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed redrive hides its messages for five minutes, on a standard queue too."""
    monkeypatch.setattr("oneslot.runtime.sqs.dead_letters.SETTLING_SECONDS", 0)
    target, sqs = moto_stack.target, moto_stack.bench.sqs
    url = target.outputs.dead_letter_queue_url
    accept(target, "m-1", "sqs-m-1")
    sqs.send_message(QueueUrl=url, MessageBody=json.dumps(booking("m-1")))
    held = sqs.receive_message(QueueUrl=url)["Messages"]
    verdict = judge(gather(target, lambda: BEFORE), target.command)
    assert (verdict.kind, verdict.breaches, verdict.counts.lost) == ("unfinished", (), None)
    sqs.delete_message(QueueUrl=url, ReceiptHandle=held[0]["ReceiptHandle"])
    assert judge(gather(target, lambda: BEFORE), target.command).counts.lost == 1


# Messages that are identified by their content


@pytest.fixture
def content_based(moto_stack: MotoStack, monkeypatch: pytest.MonkeyPatch) -> MotoStack:
    """The stack with `-c content_based_deduplication=true`."""
    functions = Functions({**ENVIRONMENT, "CONTENT_BASED_DEDUPLICATION": "true"})
    monkeypatch.setattr(Connection, "functions", lambda _: functions)
    moto_stack.bench.consumer = moto_stack.bench.another_consumer({"CONTENT_BASED_DEDUPLICATION": "true"})
    return moto_stack


def send_without_id(stack: MotoStack, **changes: Any) -> str:
    """Send a booking without an id, twice, as `oneslot send` would; returns the digest of its content."""
    body = json.dumps(booking(None, **changes))
    for _ in range(2):
        answer = stack.bench.sqs.send_message(QueueUrl=stack.target.outputs.queue_url, MessageBody=body)
        accept(stack.target, None, answer["MessageId"])
    return hashlib.sha256(body.encode()).hexdigest()


def test_request_identified_by_content_is_not_lost(content_based: MotoStack) -> None:
    digest = send_without_id(content_based)
    content_based.consume()
    assert content_based.bench.row(digest)["status"] == "COMPLETE"
    verdict = judge(gather(content_based.target, lambda: BEFORE), content_based.target.command)
    assert verdict.holds, verdict.sentence
    accept(content_based.target, None, "never delivered")
    assert judge(gather(content_based.target, lambda: BEFORE), content_based.target.command).counts.lost == 1


def test_dead_letter_is_handled_by_its_content_id(content_based: MotoStack, tmp_path: Path) -> None:
    digest = send_without_id(content_based, practice="ZZZ999")
    content_based.consume()
    lines, _ = exported(content_based.target, tmp_path / "before")
    assert {line["message_id"] for line in lines["dead-letters"]} == {digest}
    assert gather(content_based.target, lambda: BEFORE).evidence.quarantined == {digest}
    listed = json.loads(invoke("dlq", "list", "--json").stdout)
    assert [(each["message_id"], each["outlook"]) for each in listed["messages"]] == [(digest, "fails_again")] * 2
    dropped = json.loads(invoke("dlq", "drop", digest, "--accept-loss", "--yes", "--json").stdout)
    assert dropped["dropped"] == 2
    lines, _ = exported(content_based.target, tmp_path / "after")
    assert {line["message_id"] for line in lines["dropped"]} == {digest}
    evidence = gather(content_based.target, lambda: BEFORE).evidence
    assert evidence.dropped == {digest}, "its row is begun and not finished"
    assert judge(gather(content_based.target, lambda: BEFORE), content_based.target.command).holds


def test_content_is_no_id_when_the_setting_is_off(moto_stack: MotoStack, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Target] = []

    def counted(target: Target) -> bool:
        asked.append(target)
        return False

    monkeypatch.setattr("oneslot.operator.evidence.dead_letters.is_content_based", counted)
    url = moto_stack.target.outputs.dead_letter_queue_url
    for body in (json.dumps(booking("m-1")), json.dumps(booking("not fit")), "no JSON"):
        moto_stack.bench.sqs.send_message(QueueUrl=url, MessageBody=body)
    assert {letter.message_id for letter in list_dead_letters(moto_stack.target)} == {"m-1", None}
    assert asked == [], "no message lacks an id"
    for _ in range(2):
        moto_stack.bench.sqs.send_message(QueueUrl=url, MessageBody=json.dumps(booking(None)))
    found = [letter.message_id for letter in list_dead_letters(moto_stack.target)]
    assert sorted(found, key=str) == [None] * 4 + ["m-1"]
    assert len(asked) == 1, "once, however many messages have no id"
    listed = json.loads(invoke("dlq", "list", "--json").stdout)
    assert [each["message_id"] for each in listed["messages"]].count(None) == 4


# Messages without an id of their own, which SQS gives another id at each redrive


@pytest.mark.parametrize(("last", "redrives"), [("dropped", 2), ("booked", 1)])
def test_message_without_an_id_is_one_request_when_it_is_redriven(
    moto_stack: MotoStack, request: pytest.FixtureRequest, last: str, redrives: int
) -> None:
    """It ends in the dead-letter queue again, until it is dropped, or the consumer's rule for ids is corrected."""
    target, sqs = moto_stack.target, moto_stack.bench.sqs
    mock_random.seed(0)  # the consumer believes no id with ten digits that could be an NHS number
    fan_outs = text_attributes({"SourceMessageId": "cccccccc-0000-4000-8000-cccccccccccc"})
    url = target.outputs.queue_url
    sent = sqs.send_message(QueueUrl=url, MessageBody=json.dumps(booking(None)), **fan_outs)["MessageId"]
    accept(target, None, sent)
    for _ in range(redrives):
        moto_stack.consume()
        (letter,) = list_dead_letters(target)
        assert letter.original_sqs_message_id == sent != letter.sqs_message_id
        assert judge(gather(target, lambda: BEFORE), target.command).holds
        if last == "booked":
            request.getfixturevalue("content_based")
        assert invoke("dlq", "redrive", "--all", "--yes").exit_code == 0
    moto_stack.consume()
    if last == "dropped":
        assert invoke("dlq", "drop", "--all", "--accept-loss", "--yes").exit_code == 0
    verdict = judge(gather(target, lambda: BEFORE), target.command)
    assert (verdict.kind, verdict.counts.verdicts) == ("holds", {last: 1})
    assert len({line.get("message_id") for line in read_deliveries(target)}) == 1, "as in the audit of an export"


# A stack that is gone, and its successor of the same name


def test_requests_to_a_deleted_stack_are_not_missed(moto_stack: MotoStack, tmp_path: Path) -> None:
    target = moto_stack.target
    accept(target, "old", "sqs-old", "the stack that is gone")
    alone = gather(target, lambda: BEFORE)
    assert (alone.accepted, alone.evidence.requests) == (None, None), "this stack has no archive yet"
    assert "accepted" not in exported(target, tmp_path / "alone")[0]
    accept(target, "new", "sqs-new", target.identity)
    accept(target, "unnamed", "sqs-unnamed")
    assert gather(target, lambda: BEFORE).evidence.requests == {"new", "unnamed"}
    lines, _ = exported(target, tmp_path / "both")
    assert [line["message_id"] for line in lines["accepted"]] == ["new", "unnamed"]
    assert all("stack" not in line for line in lines["accepted"]), "it names an account"
    assert invoke("inspect", "old").exit_code == 1


def test_send_archives_the_identity_of_its_stack(moto_stack: MotoStack, tmp_path: Path) -> None:
    path = tmp_path / "mine.ndjson"
    path.write_text(json.dumps(booking("m-1")) + "\n")
    assert invoke("send", "--file", str(path)).exit_code == 0
    (line,) = moto_stack.target.archive.read_text().splitlines()
    assert json.loads(line)["stack"] == moto_stack.target.identity


# A stack that is at work


def test_request_sent_during_the_reading_is_not_lost(moto_stack: MotoStack, monkeypatch: pytest.MonkeyPatch) -> None:
    target = moto_stack.target
    accept(target, "before", "sqs-before", target.identity)

    def looked(sqs: SQSClient, url: str) -> QueueDepth:
        depth = queue_depth(sqs, url)
        accept(target, "after", "sqs-after", target.identity)
        return depth

    monkeypatch.setattr(evidence, "queue_depth", looked)
    assert gather(target, lambda: BEFORE).evidence.requests == {"before"}


def test_request_redriven_during_the_reading_is_not_lost(
    moto_stack: MotoStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = moto_stack.target

    def redriven(of: Target) -> Sequence[DeadLetter]:
        target.sqs.send_message(QueueUrl=target.outputs.queue_url, MessageBody=json.dumps(booking("m-1")))
        return list_dead_letters(of)

    monkeypatch.setattr(evidence, "list_dead_letters", redriven)
    accept(target, "m-1", "sqs-1", target.identity)
    verdict = judge(gather(target, lambda: BEFORE), target.command)
    assert (verdict.kind, verdict.breaches) == ("unfinished", ())
