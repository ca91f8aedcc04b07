"""The verbs: results, JSON, sentences rather than tracebacks, and no patient's number in any output."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from oneslot.errors import PageNotFound, WrongConsumer
from oneslot.explorer.handlers import laws as explorer_laws
from oneslot.explorer.handlers.scenario_file import CHECKS
from oneslot.operator import target
from oneslot.operator.cli import main
from oneslot.operator.commands.docs import section_of
from oneslot.operator.commands.worker.relay import relay
from oneslot.operator.commands.worker.worker import worker
from stacks.context import OVERRIDABLE
from tests.kits.consumer import booking, record
from tests.kits.moto_stack import MotoStack, document, invoke

LOOK_UP = Path(__file__).parents[4] / "docs" / "look-up"
WITHOUT_STACK = {"docs", "new", "up", "down", "run", "explore", "scan", "worker"}


def test_interrupt_ends_with_130(moto_stack: MotoStack, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("oneslot.operator.commands.check.gather", interrupt)
    result = invoke("check")
    assert (result.exit_code, result.stderr.strip()) == (130, "Error: Interrupted. [interrupted]")


def test_help_lists_every_verb_below_the_heading_of_its_group() -> None:
    result = invoke("--help")
    assert result.exit_code == 0
    sections = re.findall(
        r"^([A-Z][a-z ]+):\n((?:  .*\n)+)", result.stdout.partition("Options:")[2] + "\n", re.MULTILINE
    )
    listed = {heading: re.findall(r"^  ([a-z]+)  +\S", text, re.MULTILINE) for heading, text in sections}
    assert listed["Start"] == ["new", "up", "env", "down", "docs"]
    assert listed["Repair"] == ["dlq", "ledger", "pause", "resume", "rights"]
    assert {"seed", "run"} <= set(listed["Verbs of appointments"])
    verbs = [verb for names in listed.values() for verb in names]
    assert sorted(verbs) == sorted({*main.commands, *listed["Verbs of appointments"]})


def test_every_verb_takes_json_and_stack() -> None:
    for path, verb in every_verb(main):
        described = invoke(*path, "--help")
        assert described.exit_code == 0
        options = {option for parameter in verb.params for option in parameter.opts}
        assert "--json" in options or verb in (relay, worker) or path == ("docs",), (
            path
        )  # two log JSON, one prints a page
        assert "--stack" in options or path[0] in WITHOUT_STACK, path


def every_verb(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield every verb, including those of groups, with the words that call it."""
    for name, verb in group.commands.items():
        if isinstance(verb, click.Group):
            yield from every_verb(verb, (*path, name))
        else:
            yield (*path, name), verb


# Verbs on a stack


def test_watch_tells_the_end_once(moto_stack: MotoStack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oneslot.operator.commands.watch.LOCAL_INTERVAL", 0)
    told = invoke("watch", "--until-drained")
    assert (told.exit_code, len(told.stderr.splitlines())) == (0, 1)
    assert document(invoke("watch", "--until-drained", "--json"))["drained"] is True


def test_up_prints_next_commands_when_a_stack_runs(moto_stack: MotoStack) -> None:
    result = invoke("up")
    assert result.exit_code == 0
    commands = document(invoke("up", "--json"))["commands"]
    body = json.loads(re.findall(r"--message-body '(.*)'", commands["send"])[0])
    moto_stack.bench.deliver(record(body))
    assert moto_stack.bench.outcomes[-1] in ("booked", "waitlist", "quarantined")
    assert body["nhs_number"].startswith("999")
    assert body["message_id"] in commands["inspect"]


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
    assert document(invoke("status", "--stack", "Oneslot-prod", "--json"), 1)["code"] == WrongConsumer.code


@pytest.mark.parametrize("page", sorted(LOOK_UP.glob("*.md")), ids=lambda page: page.stem)
def test_example_of_a_look_up_page_is_what_the_code_does(
    page: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """JSON is an answer without a stack, and names behind a module's are its own. Code and TOML blocks have tests of theirs."""
    text = page.read_text(encoding="utf-8")
    monkeypatch.setenv("ONESLOT_HOME", str(tmp_path))
    for block in re.findall(r"^```json\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        assert json.loads(block) == json.loads(invoke("check", "--json").stdout)
    for verb in re.findall(r"`oneslot ([a-z -]+?)(?: [A-Z-].*?)?`", text):
        assert invoke(*verb.split(), "--help").exit_code == 0, verb
    for setting in re.findall(r"-c (\w+)=", text):
        assert setting in (*OVERRIDABLE, "name")
    laws = text.partition("\n## Laws\n")[2].partition("\n## ")[0]
    known = {*vars(explorer_laws), *CHECKS}
    assert {*re.findall(r"^- `(\w+)", laws, re.MULTILINE)} <= known


def test_version_ends_with_0() -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0


@pytest.mark.parametrize(
    ("shell", "expected"),
    [
        ("bash", "plain,ledger\n"),
        ("zsh", "plain\nledger\nShow a row of the ledger; unlock or forget it.\n"),
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


# `oneslot docs`


def test_docs_prints_a_section_and_lists_the_pages() -> None:
    section = CliRunner().invoke(main, ["docs", "runbooks#stalled"]).output
    assert section.lower().startswith("## stalled\n")
    assert section.count("\n## ") == 0
    assert "runbooks\n" in CliRunner().invoke(main, ["docs"]).output


@pytest.mark.parametrize(("page", "said"), [("nothing", "The pages: "), ("runbooks#nothing", "Its sections: ")])
def test_docs_names_what_there_is_when_the_page_is_unknown(page: str, said: str) -> None:
    with pytest.raises(PageNotFound, match=said):
        section_of(page)
