"""The verbs: results, JSON, sentences rather than tracebacks, and no patient's number in any output."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from unittest.mock import Mock

import click
import pytest
from botocore.exceptions import (
    ClientError,
    EndpointConnectionError,
    NoCredentialsError,
    NoRegionError,
    TokenRetrievalError,
    UnauthorizedSSOTokenError,
)
from click.testing import CliRunner, Result

from oneslot import target
from oneslot.cli import main
from oneslot.commands.worker.worker import worker
from oneslot.errors import OneslotError
from oneslot.local.errors import AlreadyRunning
from tests.kits.consumer import NHS_NUMBER, booking, record
from tests.kits.moto_stack import PLAN, MotoStack, document, invoke

WITHOUT_STACK = {"new", "up", "down", "run", "explore", "worker"}

Invoke = Callable[..., Result]


# Arguments


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["fly"], "No such command 'fly'"),
        (["seed", "--days", "0"], "Invalid value for '--days': 0 is out of range. Choose a number from 1 to 260."),
        (["seed", "--from", "Monday"], "'Monday' is not a valid date. Write it as YYYY-MM-DD"),
        (["seed", "--slots", "few"], "'few' is not a whole number."),
        (["seed", "--practices", "nowhere.csv"], "File 'nowhere.csv' does not exist"),
        (["seed", "--practice-count", "5", "--slots", "3"], "3 slots are too few for 5 practices"),
        (["send", "--count", "0"], "Invalid value for '--count': 0 is out of range. Choose 1 or more."),
        (
            ["send", "--duplicates", "20"],
            "Invalid value for '--duplicates': 20 is out of range. Choose a number from 0 to 1.",
        ),
        (["send", "--rate", "0"], "0 is out of range. Choose more than 0."),
        (["send", "--rate", "nan"], "'nan' is not a number."),
        (["audit", "--memory", "lots"], "Write it as 512m or 3g."),
        (["audit", "--history", "nowhere"], "Directory 'nowhere' does not exist."),
        (["send", "--shape", "monday-8am"], "--shape monday-8am needs --rate"),
        (["send", "--shape", "friday"], "'friday' is not one of 'steady', 'monday-8am'"),
        (["send", "--cancellations", "0.9"], "leave too few bookings"),
        (["send", "--file", __file__, "--count", "5"], "--file sends the file as it is"),
        (["send", "--file", __file__], "line 1: the body must be one JSON object"),
        (["watch", "--interval", "0"], "Invalid value for '--interval'"),
        (["inspect"], "Missing argument 'MESSAGE_ID'"),
        (["inspect", "two words"], "MESSAGE_ID must be 1 to 128 letters"),
        (["inspect", NHS_NUMBER], "That is an NHS number"),
        (["inspect", "999-000-0018"], "That is an NHS number"),
        (["up", "--processes", "0"], "Invalid value for '--processes'"),
        (["run", "--requests", "none"], "Invalid value for '--requests'"),
        (["run", "--practices", __file__], "not 27. Give the Organisation Data Service's epraccur.csv"),
        (["run", "--demand", __file__], "the header row lacks the columns gp_code"),
        (["check", "--loud"], "No such option '--loud'"),
    ],
)
@pytest.mark.parametrize("as_json", [False, True])
def test_bad_argument_becomes_a_sentence(
    nothing_runs: Invoke, arguments: list[str], sentence: str, as_json: bool
) -> None:
    result = nothing_runs(*arguments, *(["--json"] if as_json and arguments[0] != "fly" else []))
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert "Traceback" not in result.output
    assert NHS_NUMBER not in result.output
    if as_json and arguments[0] != "fly":
        assert sentence in document(result, 2)["error"]


@pytest.mark.parametrize("verb", ["seed", "send", "watch", "status", "check", "inspect"])
@pytest.mark.parametrize("as_json", [False, True])
def test_verb_says_how_to_start_when_no_stack_runs(nothing_runs: Invoke, verb: str, as_json: bool) -> None:
    result = nothing_runs(verb, *(["m-1"] if verb == "inspect" else []), *(["--json"] if as_json else []))
    assert result.exit_code == 1
    assert "No local stack is running. Start one with `oneslot up`" in result.stderr
    if as_json:
        assert "oneslot up" in document(result, 1)["error"]


def test_status_asks_for_down_when_the_process_is_gone(moto_stack: MotoStack) -> None:
    state = json.loads((moto_stack.home / "state.json").read_text())
    (moto_stack.home / "state.json").write_text(json.dumps(state | {"supervisor_start": 1}))
    result = invoke("status")
    assert result.exit_code == 1
    assert "Clean up with `oneslot down`" in result.stderr


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (EndpointConnectionError(endpoint_url="http://127.0.0.1:4566/"), "Cannot reach http://127.0.0.1:4566/."),
        (NoCredentialsError(), "There are no AWS credentials."),
        (NoRegionError(), "There is no AWS region."),
        (
            ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "Scan"),
            "AWS refused Scan: AccessDenied: no",
        ),
        (
            ClientError({"Error": {"Code": "ResourceNotFoundException", "Message": "not found"}}, "Scan"),
            "AWS refused Scan: ResourceNotFoundException: not found. Part of the stack is missing",
        ),
        (
            ClientError({"Error": {"Code": "QueueDoesNotExist", "Message": "no queue."}}, "SendMessageBatch"),
            "QueueDoesNotExist: no queue. If it is in another region, set AWS_DEFAULT_REGION. A queue of the stack",
        ),
        (
            ClientError({"Error": {"Code": "KMS.AccessDeniedException", "Message": "no."}}, "SendMessageBatch"),
            "allow your role kms:GenerateDataKey and kms:Decrypt on it",
        ),
        (
            ClientError({"Error": {"Code": "ExpiredTokenException", "Message": "expired."}}, "Scan"),
            "expired. Sign in again (aws sso login)",
        ),
        (UnauthorizedSSOTokenError(), "have expired: The SSO session associated with this profile has expired"),
        (TokenRetrievalError(provider="sso", error_msg="Token has expired"), "Sign in again (aws sso login)"),
        (AlreadyRunning("A local stack runs."), "A local stack runs."),
        (OneslotError("As it is."), "As it is."),
        *(
            (ModuleNotFoundError(name, name=name), f"{package} is missing; run: pip install 'oneslot[{extra}]'")
            for name, package, extra in (
                ("greenlet", "greenlet", "explorer"),
                ("time_machine.x", "time-machine", "explorer"),
                ("yaml", "pyyaml", "explorer"),
                ("py4j.protocol", "pyspark", "audit"),
                ("jinja2", "jinja2", "audit"),
                ("aws_cdk", "aws-cdk-lib", "cdk"),
            )
        ),
        (ModuleNotFoundError("No module named 'own'", name="own"), "Unexpected ModuleNotFoundError: this is a fault"),
        (ZeroDivisionError(NHS_NUMBER), "Unexpected ZeroDivisionError: this is a fault in Oneslot"),
    ],
)
def test_error_becomes_a_sentence(
    moto_stack: MotoStack, monkeypatch: pytest.MonkeyPatch, error: Exception, sentence: str
) -> None:
    monkeypatch.setattr("oneslot.commands.check.gather", Mock(side_effect=error))
    result = invoke("check", "--json")
    assert result.exit_code == 1
    assert sentence in result.stderr
    assert sentence in json.loads(result.stdout)["error"]
    assert NHS_NUMBER not in result.output
    assert "Traceback" not in result.output
    assert type(invoke("check", ONESLOT_DEBUG="1").exception) is type(error), "for whoever mends it, all of it"


def test_interrupt_ends_with_130(moto_stack: MotoStack, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("oneslot.commands.check.gather", interrupt)
    result = invoke("check")
    assert (result.exit_code, result.stderr.strip()) == (130, "Error: Interrupted.")


def test_help_lists_every_verb_below_the_heading_of_its_group() -> None:
    result = invoke("--help")
    assert result.exit_code == 0
    sections = re.findall(
        r"^([A-Z][a-z ]+):\n((?:  .*\n)+)", result.stdout.partition("Options:")[2] + "\n", re.MULTILINE
    )
    listed = {heading: re.findall(r"^  ([a-z]+)  +\S", text, re.MULTILINE) for heading, text in sections}
    assert listed["Start"] == ["new", "up", "env", "down"]
    assert listed["Repair"] == ["dlq", "ledger", "pause", "resume"]
    assert {"seed", "run"} <= set(listed["Verbs of appointments"])
    verbs = [verb for names in listed.values() for verb in names]
    assert sorted(verbs) == sorted({*main.commands, *listed["Verbs of appointments"]})


def test_every_verb_takes_json_and_stack() -> None:
    for path, verb in every_verb(main):
        described = invoke(*path, "--help")
        assert described.exit_code == 0
        options = {option for parameter in verb.params for option in parameter.opts}
        assert "--json" in options or verb is worker, path  # the worker runs on, and its log is JSON
        assert "--stack" in options or path[0] in WITHOUT_STACK, path


def every_verb(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield every verb, including those of groups, with the words that call it."""
    for name, verb in group.commands.items():
        if isinstance(verb, click.Group):
            yield from every_verb(verb, (*path, name))
        else:
            yield (*path, name), verb


# Verbs on a stack


def test_verbs_lead_from_send_to_a_sound_check(moto_stack: MotoStack) -> None:
    moto_stack.seed(PLAN)
    sent = document(invoke("send", "--count", "20", "--seed", "1", "--malformed", "0.1", "--json"))
    assert (sent["requests"], sent["messages_accepted"], sent["entries_sent_again"]) == (20, 24, 0)
    waiting = document(invoke("status", "--json"))
    assert waiting["queue"]["waiting"] == 24
    assert invoke("check").exit_code == 1
    moto_stack.consume()
    watched = invoke("watch", "--until-drained", "--interval", "0.1", "--json")
    assert (watched.exit_code, document(watched)["drained"]) == (0, True)
    told = invoke("watch", "--until-drained", "--interval", "0.1").stderr.splitlines()
    assert len(told) == 1, "an end that was told already is not told again"
    assert told[0].startswith("queue 0 waiting, 0 in flight; dead letters 2; ledger 18 complete")
    checked = invoke("check", "--json")
    assert checked.exit_code == 0
    assert document(checked)["holds"] is True
    assert json.loads((moto_stack.home / "check.json").read_text())["verdict"] == document(checked)["verdict"]
    status = document(invoke("status", "--json"))
    assert status["queue"] == {"waiting": 0, "in_flight": 0, "delayed": 0}
    assert (status["dead_letters"], status["ledger"]["complete"]) == (2, 18)
    assert sum(status["slots"].values()) == 23


def test_results_have_no_colour_when_output_is_no_terminal(moto_stack: MotoStack) -> None:
    moto_stack.seed(PLAN)
    results = [
        invoke("send", "--count", "10"),
        invoke("status"),
        invoke("watch", "--timeout", "0.1"),
        invoke("watch", "--until-drained", "--timeout", "0.1"),
    ]
    moto_stack.consume()
    moto_stack.bench.deliver(record(booking("m-1")))
    moto_stack.write_log()
    results += [invoke("check"), invoke("inspect", "m-1")]
    assert [result.exit_code for result in results] == [0, 0, 0, 1, 0, 0]
    for result in results:
        assert "\x1b" not in result.output
        assert re.search(r"\b999[0-9]{7}\b", result.output) is None, "no patient is shown"
    assert "10 requests in 12 messages accepted" in results[0].stdout
    assert "12 messages left" in results[3].stderr
    assert re.search(r"booked twice +│ +0 │", results[4].stdout)
    assert results[4].stdout.rstrip().endswith("invariants hold.")


def test_json_leaves_standard_error_empty(moto_stack: MotoStack) -> None:
    moto_stack.seed(PLAN)
    for arguments in (["send", "--count", "5"], ["status"], ["watch", "--timeout", "0.1"]):
        result = invoke(*arguments, "--json")
        assert document(result)
        assert result.stderr == ""


def test_up_prints_next_commands_when_a_stack_runs(moto_stack: MotoStack) -> None:
    result = invoke("up")
    assert result.exit_code == 0
    assert "The local stack runs already, as it was deployed." in result.stderr
    lines = [line for line in result.stdout.splitlines() if line.startswith("aws ")]
    assert len(lines) == 3
    assert all("--endpoint-url http://127.0.0.1:4566" in line for line in lines), "the CLI's sqs needs it said"
    commands = document(invoke("up", "--json"))["commands"]
    body = json.loads(re.findall(r"--message-body '(.*)'", commands["send"])[0])
    moto_stack.bench.deliver(record(body))
    assert moto_stack.bench.outcomes[-1] in ("booked", "waitlist", "quarantined")
    assert body["nhs_number"].startswith("999")
    assert body["message_id"] in commands["inspect"]


def test_down_succeeds_when_nothing_runs(nothing_runs: Invoke) -> None:
    assert document(nothing_runs("down", "--json")) == {"stopped": False}
    assert "No local stack was running." in nothing_runs("down").stdout


# A stack on AWS


def test_stack_on_aws_is_found_by_its_outputs(moto_stack: MotoStack, monkeypatch: pytest.MonkeyPatch) -> None:
    state = moto_stack.target.local
    assert state is not None
    outputs = [{"OutputKey": key, "OutputValue": value} for key, value in state.outputs.items()]
    described = {"StackName": "Oneslot-prod", "StackId": "arn:aws:cloudformation:1", "Outputs": outputs}
    monkeypatch.setattr(target, "_describe", lambda name: described)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-2")
    moto_stack.bench.deliver(record(booking("m-1")))
    status = document(invoke("status", "--stack", "Oneslot-prod", "--json"))
    assert status["stack_name"] == "Oneslot-prod"
    assert status["appointments"] == {"booked": 1}
    assert status["poller"] is None
    opened = target.open_target("Oneslot-prod")
    assert opened.home == moto_stack.home / "stacks" / "Oneslot-prod", "its archive is its own"
    monkeypatch.setattr(target, "_describe", lambda name: described | {"Outputs": outputs[:-1]})
    result = invoke("status", "--stack", "Oneslot-prod")
    assert result.exit_code == 1
    assert "has no output ConsumerLogGroupName, so its consumer is not appointments." in result.stderr


def test_version_ends_with_0() -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0


@pytest.mark.parametrize(
    ("shell", "expected"),
    [
        ("bash", "plain,ledger\n"),
        ("zsh", "plain\nledger\nShow a row of the ledger; unlock or forget it; enter a file.\n"),
    ],
)
def test_shell_completes_a_verb_by_the_line_of_the_help(
    shell: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = CliRunner().invoke(main, ["--help"], standalone_mode=False).output
    assert "_ONESLOT_COMPLETE=bash_source oneslot" in text
    for name, value in (("_ONESLOT_COMPLETE", f"{shell}_complete"), ("COMP_WORDS", "oneslot led"), ("COMP_CWORD", "1")):
        monkeypatch.setenv(name, value)

    answer = CliRunner().invoke(main, [], prog_name="oneslot")

    assert answer.output == expected
