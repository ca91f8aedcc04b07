"""What the command line tells to type next is for the stack that was asked about, and an interrupt says how to go on."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from oneslot.cli import find_stack
from oneslot.commands import audit as audit_commands
from oneslot.errors import OneslotError
from oneslot.explanations import explain
from oneslot.repair.journal import begin_journal
from oneslot.runtime.stores.dynamodb import DynamoDBLedger
from oneslot.runtime.stores.expressions import to_attributes
from oneslot.target import Target
from tests.kits.consumer import booking
from tests.kits.moto_stack import ENVIRONMENT, Functions, MotoStack, invoke
from tests.oneslot.evidence.test_deliveries import Logs

FAR = 4_000_000_000_000


@pytest.fixture
def on_aws(moto_stack: MotoStack, monkeypatch: pytest.MonkeyPatch) -> Target:
    """The same stack, as one on AWS that is called Oneslot-prod."""
    target = replace(moto_stack.target, local=None, stack_name="Oneslot-prod")
    target.__dict__.update(sqs=moto_stack.bench.sqs, dynamodb=moto_stack.bench.dynamodb)
    target.__dict__.update(functions=Functions(ENVIRONMENT), logs=Logs())
    monkeypatch.setattr("oneslot.target.local_target", lambda *_: target)
    monkeypatch.setattr("oneslot.target.aws_target", lambda _: target)
    monkeypatch.setattr("oneslot.evidence.operator_log._caller", lambda: "arn:aws:iam::123456789012:user/on-call")
    return target


def dead_letter(target: Target, **body: Any) -> None:
    target.sqs.send_message(
        QueueUrl=target.outputs.dead_letter_queue_url, MessageBody=json.dumps(booking("m-1") | body)
    )


@pytest.mark.parametrize(
    ("lease_until", "told"),
    [
        (FAR, "`oneslot ledger unlock m-1 --stack Oneslot-prod`"),
        (1, "`oneslot dlq show m-1 --stack Oneslot-prod`"),
    ],
)
def test_what_the_ledger_advises_names_the_stack(on_aws: Target, lease_until: int, told: str) -> None:
    client: Any = on_aws.dynamodb
    DynamoDBLedger(client, "ledger", retention_seconds=None).claim("m-1", "hash", lease_until)
    assert told in json.loads(invoke("ledger", "show", "m-1", "--json").stdout)["advice"]


def test_a_lease_that_is_in_the_way_of_forget_names_the_stack(on_aws: Target) -> None:
    client: Any = on_aws.dynamodb
    DynamoDBLedger(client, "ledger", retention_seconds=None).claim("m-1", "hash", FAR)
    assert "or end it: oneslot ledger unlock m-1 --stack Oneslot-prod." in invoke("ledger", "forget", "m-1").stderr


def test_a_row_that_is_not_there_names_the_stack(on_aws: Target) -> None:
    assert "See: oneslot inspect nobody --stack Oneslot-prod." in invoke("ledger", "show", "nobody").stderr


def test_what_a_redrive_leaves_alone_is_listed_for_the_same_stack(on_aws: Target) -> None:
    dead_letter(on_aws, type="dance")
    assert "See why: oneslot dlq list --stack Oneslot-prod." in invoke("dlq", "redrive").stdout


def test_a_journal_that_is_in_the_way_names_the_stack(on_aws: Target) -> None:
    begin_journal(on_aws, frozenset({"1"}), 100, {})
    with pytest.raises(OneslotError, match="oneslot dlq redrive --resume --yes --stack Oneslot-prod "):
        begin_journal(on_aws, frozenset({"1"}), 100, {})
    abandoned = invoke("dlq", "redrive", "--abandon", "--yes")
    assert "List the rest: oneslot dlq list --stack Oneslot-prod." in " ".join(abandoned.stdout.split())


def test_a_hint_for_the_local_stack_is_as_short_as_it_was(moto_stack: MotoStack) -> None:
    assert moto_stack.target.command("dlq list") == "oneslot dlq list"


@pytest.mark.parametrize("as_json", [False, True])
def test_an_interrupted_redrive_says_how_far_it_was_and_how_to_go_on(
    on_aws: Target, monkeypatch: pytest.MonkeyPatch, as_json: bool
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    dead_letter(on_aws)
    monkeypatch.setattr("oneslot.commands.dlq.moving.redrive", interrupted)
    result = invoke("dlq", "redrive", "--yes", *(["--json"] if as_json else []))
    told = (
        "Interrupted: 0 of 1 message moved; nothing is lost. Continue with "
        "`oneslot dlq redrive --resume --yes --stack Oneslot-prod`, or end it with --abandon."
    )
    assert (result.exit_code, told in result.stderr) == (130, True)
    if as_json:
        assert json.loads(result.stdout) == {"error": told}


ON_PROD = ("--stack", "Oneslot-prod")


@pytest.mark.parametrize("verb", [("status",), ("inspect", "by-hand"), ("ledger", "show", "by-hand")])
def test_a_row_written_by_hand_is_forgotten_in_the_same_stack(on_aws: Target, verb: tuple[str, ...]) -> None:
    on_aws.dynamodb.put_item(TableName="ledger", Item={"message_id": {"S": "by-hand"}})
    assert "oneslot ledger forget by-hand --stack Oneslot-prod" in invoke(*verb, *ON_PROD).stdout


def test_a_verdict_names_the_stack(on_aws: Target) -> None:
    def told() -> str:
        return str(json.loads(invoke("check", *ON_PROD, "--json").stdout)["verdict"])

    assert "Send some: `oneslot send --stack Oneslot-prod`." in told()
    on_aws.sqs.send_message(QueueUrl=on_aws.outputs.queue_url, MessageBody=json.dumps(booking("m-1")))
    assert "Wait with `oneslot watch --until-drained --stack Oneslot-prod`, then" in told()


def test_a_verdict_on_dead_letters_that_are_not_shown_names_the_stack(
    on_aws: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oneslot.evidence.gathering.count_hidden", lambda *_: 2)
    judged = json.loads(invoke("check", *ON_PROD, "--json").stdout)["verdict"]
    assert "(`oneslot dlq list --stack Oneslot-prod`)" in judged


def test_a_smoke_test_that_failed_says_what_to_look_at_in_the_same_stack(on_aws: Target) -> None:
    message = json.loads(invoke("smoke", "--timeout", "0.01", *ON_PROD, "--json").stdout)
    for command in (f"oneslot inspect {message['message_id']}", "oneslot dlq list"):
        assert f"`{command} --stack Oneslot-prod`" in message["failure"]


def test_a_dead_letter_whose_row_stops_the_consumer_names_the_stack(on_aws: Target) -> None:
    on_aws.dynamodb.put_item(TableName="ledger", Item={"message_id": {"S": "m-1"}})
    dead_letter(on_aws)
    (letter,) = json.loads(invoke("dlq", "list", *ON_PROD, "--json").stdout)["messages"]
    assert letter["because"].endswith("See: oneslot ledger show m-1 --stack Oneslot-prod")


def test_what_forgetting_brings_about_is_reported_by_a_check_of_the_same_stack(on_aws: Target) -> None:
    row = {"message_id": "m-1", "status": "COMPLETE", "consumption_count": 1, "updated": 1}
    said = {"claimed_by": "c", "payload_hash": "hash", "result": json.dumps({"outcome": "refused"})}
    on_aws.dynamodb.put_item(TableName="ledger", Item=to_attributes(row | said))
    assert "`oneslot check --stack Oneslot-prod` and the audit" in invoke("ledger", "forget", "m-1", *ON_PROD).stdout


@pytest.mark.parametrize("note", [None, "{", "over"])
def test_what_was_not_seeded_is_to_be_seeded_in_the_same_stack(on_aws: Target, note: str | None) -> None:
    if note is not None:
        days = {"target": on_aws.identity, "seed": 1, "days": ["2020-01-06"], "practices": []}
        on_aws.plan.write_text(json.dumps(days) if note == "over" else note)
    told = invoke("send", *ON_PROD)
    assert (told.exit_code != 0, "oneslot seed --stack Oneslot-prod" in told.stderr) == (True, True), told.output


def refusal(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "no"}}, "Scan")


@pytest.mark.parametrize(
    "refused",
    [
        (EndpointConnectionError(endpoint_url="https://sqs"), "`oneslot status{}`"),
        (refusal("ResourceNotFoundException"), "`oneslot env{}`"),
        (refusal("ResourceNotFoundException"), "`oneslot status{}` says which table"),
        (refusal("AWS.SimpleQueueService.NonExistentQueue"), "`oneslot env{}` names the queues"),
        (refusal("AWS.SimpleQueueService.NonExistentQueue"), "A queue of the stack and its messages are gone"),
        (refusal("QueueDoesNotExist"), "docs/runbooks/stalled.md says how"),
    ],
)
@pytest.mark.parametrize(
    ("given", "named"),
    [((), ""), (ON_PROD, " --stack Oneslot-prod"), (("--stack=Oneslot-prod",), " --stack Oneslot-prod")],
)
def test_what_goes_wrong_underneath_names_the_stack(
    on_aws: Target, monkeypatch: pytest.MonkeyPatch, refused: tuple[Exception, str], given: tuple[str, ...], named: str
) -> None:
    error, hint = refused

    def fail(*_: object) -> None:
        raise error

    for place in ("oneslot.commands.check.gather", "workload.smoke.Smoke.check", "workload.smoke.Smoke.clean_up"):
        monkeypatch.setattr(place, fail)
    assert hint.format(named) in invoke("check", *given).stderr
    assert hint.format(named) in invoke("smoke", *given).stdout


@pytest.mark.parametrize(("key", "hinted"), [("000000000000", True), ("an account's", False)])
def test_a_shell_with_the_local_stacks_credentials_is_told_of_where_aws_refuses_them(
    monkeypatch: pytest.MonkeyPatch, key: str, hinted: bool
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", key)
    told = explain(refusal("InvalidClientTokenId"), "Oneslot-prod")
    assert ("`oneslot env`" in told) is hinted


@pytest.mark.parametrize(
    ("arguments", "stack"),
    [
        ([], None),
        (["check"], None),
        (["check", "--stack"], None),
        (["check", "--stack", "a", "--stack=b"], "b"),
        (["check", "--stack=a", "--json", "--stack", "b"], "b"),
    ],
)
def test_the_stack_that_was_given_is_the_last_one(arguments: list[str], stack: str | None) -> None:
    assert find_stack(arguments) == stack


@pytest.mark.parametrize(("given", "named"), [((), ""), (ON_PROD, " --stack Oneslot-prod")])
def test_a_repair_list_is_redriven_in_the_stack_that_was_audited_also_from_a_folder_with_a_blank(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: tuple[str, ...], named: str
) -> None:
    document: dict[str, Any] = {"verdicts": {}, "violations": {}, "notes": []}
    answer = tmp_path / "an answer"

    def audited(*_: object) -> SimpleNamespace:
        (answer / "repair").mkdir(parents=True)
        (answer / "repair" / "redrive.jsonl").write_text("{}\n")
        (answer / "repair" / "look-at.jsonl").write_text("")
        return SimpleNamespace(sound=True, sentence="Sound.", document=document)

    monkeypatch.setattr(audit_commands, "audit_history", audited)
    told = invoke("audit", "--history", str(tmp_path), "--output", str(answer), *given).stdout
    assert f"oneslot dlq redrive --file '{answer / 'repair' / 'redrive.jsonl'}'{named}\n" in told
