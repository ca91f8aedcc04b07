"""The exit status of `dlq redrive` and `dlq drop`: 0 only if every message that was asked for is or can be handled."""

from __future__ import annotations

import json

import pytest

from tests.kits.consumer import booking, record
from tests.kits.moto_stack import NOW, MotoStack, document, invoke

BODY = json.dumps(booking("m-1", **NOW))


@pytest.fixture
def letters(moto_stack: MotoStack) -> MotoStack:
    """Three dead letters: an answered request, an unanswered one, and one that fails again."""
    moto_stack.bench.deliver(record(booking("answered", **NOW)))
    moto_stack.put_dead_letter(booking("answered", **NOW))
    moto_stack.put_dead_letter(booking("unanswered", **NOW))
    moto_stack.put_dead_letter(booking("failing", **NOW, practice="ZZZ999"))
    return moto_stack


@pytest.mark.parametrize("yes", [[], ["--yes"]])
@pytest.mark.parametrize(
    ("chosen", "status"),
    [
        (["--all"], 0),
        (["answered"], 0),
        (["unanswered", "failing"], 1),
        (["answered", "unanswered"], 1),
        (["answered", "unanswered", "--accept-loss"], 0),
    ],
)
def test_drop_exits_with_1_when_it_spares_a_named_letter(
    letters: MotoStack, chosen: list[str], status: int, yes: list[str]
) -> None:
    document(invoke("dlq", "drop", *chosen, *yes, "--json"), exit_code=status)


@pytest.mark.parametrize("chosen", [["--all"], ["--reason", "receives_exhausted"], ["unanswered"]])
def test_drop_says_so_when_it_spares_everything(letters: MotoStack, chosen: list[str]) -> None:
    assert document(invoke("dlq", "drop", "answered", "--yes", "--json"))["dropped"] == 1
    told = invoke("dlq", "drop", *chosen, "--yes")
    assert (told.exit_code, "Nothing was dropped." in told.stdout) == (1, True)
    assert "Drop them with --accept-loss" in told.stdout
    assert document(invoke("dlq", "list", "--json"))["count"] == 2


@pytest.mark.parametrize("yes", [[], ["--yes"]])
@pytest.mark.parametrize(
    ("chosen", "status"),
    [
        ([], 0),
        (["unanswered"], 0),
        (["failing"], 1),
        (["unanswered", "failing"], 1),
        (["failing", "--even-failing"], 0),
    ],
)
def test_redrive_exits_with_1_when_it_leaves_a_named_letter(
    letters: MotoStack, chosen: list[str], status: int, yes: list[str]
) -> None:
    document(invoke("dlq", "redrive", *chosen, *yes, "--json"), exit_code=status)


def test_redrive_says_so_when_it_helps_nothing(letters: MotoStack) -> None:
    assert document(invoke("dlq", "redrive", "--yes", "--json"))["moved"] == 2
    for chosen, status in (([], 0), (["--reason", "receives_exhausted"], 1)):
        told = invoke("dlq", "redrive", *chosen, "--yes")
        assert (told.exit_code, "Nothing was sent." in told.stdout) == (status, True)
        assert "that would fail again. See why: oneslot dlq list." in told.stdout


def test_verbs_exit_with_0_when_the_queue_is_empty(moto_stack: MotoStack) -> None:
    for verb in (["redrive"], ["redrive", "--all"], ["drop", "--all"], ["drop", "--reason", "conflict"]):
        document(invoke("dlq", *verb, "--yes", "--json"))


def test_redrive_returns_binary_attributes_unchanged(moto_stack: MotoStack) -> None:
    """A redrive in batches keeps every byte of a Binary attribute."""
    sqs, outputs = moto_stack.bench.sqs, moto_stack.target.outputs
    every_byte = bytes(range(256))
    attributes = {
        "trace": {"DataType": "Binary", "BinaryValue": every_byte},
        "picture": {"DataType": "Binary.png", "BinaryValue": b"\x89PNG\x00"},
        "weight": {"DataType": "Number", "StringValue": "7.50"},
    }
    sqs.send_message(
        QueueUrl=outputs.dead_letter_queue_url,
        MessageBody=BODY,
        MessageAttributes=attributes,
    )
    assert document(invoke("dlq", "redrive", "--yes", "--json"))["moved"] == 1
    (message,) = sqs.receive_message(QueueUrl=outputs.queue_url, MessageAttributeNames=["All"])["Messages"]
    assert message["MessageAttributes"] == attributes
    assert message["Body"] == BODY


@pytest.fixture
def hidden(letters: MotoStack, monkeypatch: pytest.MonkeyPatch) -> MotoStack:
    """The same letters, all hidden by another reader: a second command, or a killed one."""
    monkeypatch.setattr("oneslot.runtime.sqs.dead_letters.SETTLING_SECONDS", 0)
    held = letters.bench.sqs.receive_message(
        QueueUrl=letters.target.outputs.dead_letter_queue_url, MaxNumberOfMessages=10
    )
    assert len(held["Messages"]) == 3
    return letters


def test_list_counts_messages_that_another_reader_hides(hidden: MotoStack) -> None:
    told = invoke("dlq", "list")
    assert "About 3 dead letters are not shown: another reader hides them" in told.stdout
    assert "is empty" not in told.stdout
    assert document(invoke("dlq", "list", "--json"))["waiting_behind"] == 3


@pytest.mark.parametrize(
    "verb", [("show", "unanswered"), ("redrive",), ("redrive", "unanswered"), ("drop", "unanswered"), ("drop", "--all")]
)
def test_verbs_name_hidden_messages_when_one_is_not_found(hidden: MotoStack, verb: tuple[str, ...]) -> None:
    assert "About 3 dead letters are not shown: another reader hides them" in invoke("dlq", *verb).output


def test_verbs_name_no_hidden_messages_when_all_are_seen(letters: MotoStack) -> None:
    for verb in (("list",), ("show", "nobody"), ("redrive",), ("drop", "--all")):
        assert "not shown" not in invoke("dlq", *verb).output


@pytest.mark.parametrize("verb", ["list", "redrive", "drop"])
def test_verbs_list_the_reasons_when_one_is_unknown(letters: MotoStack, verb: str) -> None:
    told = invoke("dlq", verb, "--reason", "receives_exausted")
    assert (
        told.exit_code,
        "No message has the reason receives_exausted; the reasons are receives_exhausted." in told.stdout,
    ) == (0, True)
    assert "No message has" not in invoke("dlq", verb, "--reason", "receives_exhausted").stdout
