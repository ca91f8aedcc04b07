"""What the command line tells to type next is for the stack that was asked about, and an interrupt says how to go on."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from exactly_once.ledger import Ledger
from oneslot.errors import OneslotError
from oneslot.redrive_journal import begin_journal
from oneslot.target import Target
from tests.consumer_kit import booking
from tests.oneslot.conftest import MotoStack, invoke

FAR = 4_000_000_000_000


@pytest.fixture
def on_aws(moto_stack: MotoStack, monkeypatch: pytest.MonkeyPatch) -> Target:
    """The same stack, as one on AWS that is called Oneslot-prod."""
    target = replace(moto_stack.target, local=None, stack_name="Oneslot-prod")
    target.__dict__.update(sqs=moto_stack.bench.sqs, dynamodb=moto_stack.bench.dynamodb)
    for verb in ("dlq", "ledger"):
        monkeypatch.setattr(f"oneslot.commands.{verb}.open_target", lambda _: target)
    monkeypatch.setattr("oneslot.audit_trail._caller", lambda: "arn:aws:iam::123456789012:user/on-call")
    return target


def dead_letter(target: Target, **body: Any) -> None:
    target.sqs.send_message(
        QueueUrl=target.outputs.dead_letter_queue_url, MessageBody=json.dumps(booking("m-1") | body)
    )


@pytest.mark.parametrize(
    ("lease_until", "told"),
    [
        (FAR, "`oneslot ledger unlock m-1 --stack Oneslot-prod`"),
        (1, "`oneslot dlq redrive --stack Oneslot-prod`"),
    ],
)
def test_what_the_ledger_advises_names_the_stack(on_aws: Target, lease_until: int, told: str) -> None:
    client: Any = on_aws.dynamodb
    Ledger(client, "ledger", retention_seconds=None).claim("m-1", "hash", lease_until)
    assert told in json.loads(invoke("ledger", "show", "m-1", "--json").stdout)["advice"]


def test_a_lease_that_is_in_the_way_of_forget_names_the_stack(on_aws: Target) -> None:
    client: Any = on_aws.dynamodb
    Ledger(client, "ledger", retention_seconds=None).claim("m-1", "hash", FAR)
    assert "or end it: oneslot ledger unlock m-1 --stack Oneslot-prod." in invoke("ledger", "forget", "m-1").stderr


def test_a_row_that_is_not_there_names_the_stack(on_aws: Target) -> None:
    assert "See: oneslot inspect nobody --stack Oneslot-prod." in invoke("ledger", "show", "nobody").stderr


def test_what_a_redrive_leaves_alone_is_listed_for_the_same_stack(on_aws: Target) -> None:
    dead_letter(on_aws, type="dance")
    assert "see `oneslot dlq list --stack Oneslot-prod` for why" in invoke("dlq", "redrive").stdout


def test_a_journal_that_is_in_the_way_names_the_stack(on_aws: Target) -> None:
    begin_journal(on_aws, frozenset({"1"}), 100, {})
    with pytest.raises(OneslotError, match="oneslot dlq redrive --resume --yes --stack Oneslot-prod "):
        begin_journal(on_aws, frozenset({"1"}), 100, {})
    abandoned = invoke("dlq", "redrive", "--abandon", "--yes")
    assert "see what is left: oneslot dlq list --stack Oneslot-prod." in " ".join(abandoned.stdout.split())


def test_a_hint_for_the_local_stack_is_as_short_as_it_was(moto_stack: MotoStack) -> None:
    assert moto_stack.target.command("dlq list") == "oneslot dlq list"


@pytest.mark.parametrize("as_json", [False, True])
def test_an_interrupted_redrive_says_how_far_it_was_and_how_to_go_on(
    on_aws: Target, monkeypatch: pytest.MonkeyPatch, as_json: bool
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    dead_letter(on_aws)
    monkeypatch.setattr("oneslot.commands.dlq.move_in_batches", interrupted)
    result = invoke("dlq", "redrive", "--yes", *(["--json"] if as_json else []))
    told = (
        "Interrupted: 0 of 1 message(s) moved; nothing is lost. Go on: "
        "oneslot dlq redrive --resume --yes --stack Oneslot-prod; or give it up: --abandon."
    )
    assert (result.exit_code, told in result.stderr) == (130, True)
    if as_json:
        assert json.loads(result.stdout) == {"error": told}
