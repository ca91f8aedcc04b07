"""Every command that a text recommends names the stack of the question."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError

from oneslot.operator.cli import STACK_OPTION, find_option
from oneslot.operator.commands import audit as audit_commands
from oneslot.operator.target import Target
from tests.kits.consumer import booking
from tests.kits.moto_stack import document, invoke

ROOT = Path(__file__).resolve().parents[4]


def dead_letter(target: Target, **body: Any) -> None:
    target.sqs.send_message(
        QueueUrl=target.outputs.dead_letter_queue_url, MessageBody=json.dumps(booking("m-1") | body)
    )


def test_redrive_says_how_to_continue_when_interrupted(on_aws: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    dead_letter(on_aws)
    monkeypatch.setattr("oneslot.operator.commands.dlq.move_letters", interrupted)
    result = invoke("dlq", "redrive", "--yes", "--json")
    told = (
        "Interrupted: 0 of 1 message moved; nothing is lost. Run the command again in five minutes: a message that was sent "
        "twice takes effect once."
    )
    assert document(result, 130) == {"error": told, "code": "interrupted"}


ON_PROD = ("--stack", "Oneslot-prod")


def test_smoke_names_the_stack_when_it_fails(on_aws: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("demo.commands.smoke.INTERVAL_SECONDS", 0)
    message = json.loads(invoke("smoke", "--timeout", "0.01", *ON_PROD, "--json").stdout)
    for command in (f"oneslot inspect {message['message_id']}", "oneslot dlq list"):
        assert f"`{command} --stack Oneslot-prod`" in message["failure"]


@pytest.mark.parametrize("note", [None, "{", "over"])
def test_send_names_the_stack_when_the_plan_is_unusable(on_aws: Target, note: str | None) -> None:
    if note is not None:
        days = {"target": on_aws.identity, "seed": 1, "days": ["2020-01-06"], "practices": []}
        on_aws.plan.write_text(json.dumps(days) if note == "over" else note)
    told = invoke("send", *ON_PROD)
    assert (told.exit_code != 0, "oneslot seed --stack Oneslot-prod" in told.stderr) == (True, True), told.output


@pytest.mark.parametrize(("given", "named"), [((), ""), (ON_PROD, " --stack Oneslot-prod")])
def test_smoke_names_the_stack_when_aws_does_not_answer(
    on_aws: Target, monkeypatch: pytest.MonkeyPatch, given: tuple[str, ...], named: str
) -> None:
    def fail(*_: object) -> None:
        raise EndpointConnectionError(endpoint_url="https://sqs")

    for place in ("check", "clean_up"):
        monkeypatch.setattr(f"demo.commands.smoke.Smoke.{place}", fail)
    assert f"`oneslot status{named}`" in invoke("smoke", *given).stdout


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
def test_find_option_returns_the_last_one(arguments: list[str], stack: str | None) -> None:
    assert find_option(arguments, STACK_OPTION) == stack


def test_verbs_are_those_of_the_consumer_that_an_option_names() -> None:
    other = str(ROOT / "examples" / "shop" / "oneslot.toml")
    assert "[BODY]" not in invoke("send", "--help").stdout
    assert "[BODY]" in invoke("send", "--consumer", other, "--help").stdout


@pytest.mark.parametrize(("given", "named"), [((), ""), (ON_PROD, " --stack Oneslot-prod")])
def test_audit_quotes_the_repair_list_and_names_the_stack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: tuple[str, ...], named: str
) -> None:
    document: dict[str, Any] = {"verdicts": {}, "violations": {}, "notes": []}
    answer = tmp_path / "an answer"

    def audited(*_: object, **_named: object) -> SimpleNamespace:
        (answer / "repair").mkdir(parents=True)
        (answer / "repair" / "redrive.jsonl").write_text("{}\n")
        (answer / "repair" / "look-at.jsonl").write_text("")
        return SimpleNamespace(sound=True, sentence="Sound.", document=document)

    monkeypatch.setattr(audit_commands, "refuse_without_exports", lambda _: None)
    monkeypatch.setattr(audit_commands, "audit_history", audited)
    told = invoke("audit", "--history", str(tmp_path), "--output", str(answer), *given).stdout
    assert f"oneslot dlq redrive --file '{answer / 'repair' / 'redrive.jsonl'}'{named}\n" in told
