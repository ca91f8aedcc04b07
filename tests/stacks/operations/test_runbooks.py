"""Runbooks: a section for each alarm, and every command of the operators' pages exists with its options."""

import itertools
import json
import re
import shlex
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import click
import pytest
from awscli.clidriver import create_clidriver  # type: ignore[import-untyped]

from oneslot.operator.cli import main as oneslot
from oneslot.operator.target import Outputs
from oneslot.runtime.handlers import OUTCOME_UNKNOWN
from stacks.context import OVERRIDABLE, settings_from_context
from stacks.settings import STAGES
from tests.kits.stacks import Stage

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "docs" / "do"
RUNBOOKS, DEPLOY = FOLDER / "runbooks.md", FOLDER / "deploy.md"
PAGES = [RUNBOOKS, *sorted(FOLDER.glob("deploy*.md"))]
CONSUMER = (ROOT / "lambda_src", ROOT / "oneslot" / "runtime")
NO_ALARMS = {"set-the-names-first", "look-first", "show-what-drifted"}
"""The sections of the runbooks that several alarms share."""
# Of the AWS CLI itself, beside each operation's own.
GLOBAL_OPTIONS = {"query", "output", "region", "profile", "endpoint-url", "no-cli-pager", "max-items", "starting-token"}
# Words in backticks on the pages about dead letters that are not reasons of the consumer.
NO_REASONS = {"receives_exhausted", "max_receive_count", "message_id"}
SHELL = {"echo", "sed", "export", "eval", "make", "git", "source", "cdk", "aws", "oneslot", "date", "python"}


def runbooks() -> dict[str, str]:
    """Return the text of each alarm's section, by its anchor."""
    parts = re.split(r"^## (.+)$", RUNBOOKS.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    sections = zip(parts[::2], parts[1::2], strict=True)
    named = {heading.lower().replace(" ", "-"): text for heading, text in sections}
    return {anchor: text for anchor, text in named.items() if anchor not in NO_ALARMS}


def commands(page: Path) -> list[list[str]]:
    """Return the commands of the page's `bash` blocks, also those inside $(...) or after xargs, and `cdk ...`, as words."""
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"^ *```bash\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE)
    pasted = [line for block in blocks for line in block.replace("\\\n", " ").splitlines() if line.strip()]
    lines = [part.strip() for line in pasted for part in line.split(" | xargs -n 1 ")]
    lines += re.findall(r"`(cdk [a-z]+ [^`]+)`", text)
    inner = [match for line in lines for match in re.findall(r"\$\(([^()]*(?:\([^()]*\)[^()]*)*)\)", line)]
    return [shlex.split(line, comments=True) for line in [*lines, *inner] if not line.startswith("#")]


ALL = [(page.name, words) for page in PAGES for words in commands(page) if words]


def test_alarms_and_runbooks_match(with_audit: Stage) -> None:
    named: set[str] = set()
    for part in ("-operations", "-audit"):
        text = Stage(with_audit.settings, with_audit.folder, part).template_text
        named.update(re.findall(r"oneslot docs runbooks#([a-z-]+)", text))
    # The appointments send nothing: the alarm of a relay is the construct's alone.
    assert named | {"relay-behind"} == runbooks().keys(), "each alarm needs its section in docs/do/runbooks.md"


def test_index_lists_every_runbook() -> None:
    index = RUNBOOKS.read_text(encoding="utf-8").partition("\n## ")[0]
    assert sorted(re.findall(r"\[([a-z-]+)\]\(#\1\)", index)) == sorted(runbooks())


@pytest.mark.parametrize("name", runbooks())
def test_runbook_says_what_it_means_what_to_look_at_what_to_do_and_when_it_is_over(name: str) -> None:
    meaning, looks, rest = runbooks()[name].split("```", 2)
    assert len(meaning.split()) > 12
    assert looks.startswith("bash\n")
    steps, over, end = rest.partition("\n**Over** when ")
    assert re.search(r"^(- |1\. )", steps, re.MULTILINE)
    assert over
    assert len(end.split()) > 3


@pytest.mark.parametrize(
    ("page", "words"), ALL, ids=lambda value: " ".join(value)[:60] if isinstance(value, list) else value
)
def test_commands_parse(page: str, words: list[str]) -> None:
    assert words[0] in SHELL, f"{page}: what is {words[0]}?"
    if words[0] == "aws":
        check_aws(words[1:])
    elif words[0] == "oneslot":
        check_oneslot(words[1:])
    elif words[0] == "cdk":
        check_cdk(words[1:])
    elif words[0] == "make":
        check_make(words[1:])


def variables_of_env() -> set[str]:
    """Return the variables that `eval "$(oneslot env --stack NAME)"` sets."""
    tables = re.findall(r"^\[tables\.(\w+)\]", (ROOT / "oneslot.toml").read_text(encoding="utf-8"), re.MULTILINE)
    found = {field.name: "given" for field in fields(Outputs) if field.name != "tables"}
    return set(Outputs(**found, tables=dict.fromkeys(tables, "given")).variables())


def test_variables_of_commands_are_set_before() -> None:
    index = RUNBOOKS.read_text(encoding="utf-8").partition("\n## Show what drifted")[0]
    everywhere = variables_of_env() | set(re.findall(r"^export ([A-Z_]+)=", index, re.MULTILINE))
    unset = {}
    for page in PAGES:
        blocks = "".join(
            re.findall(r"^ *```bash\n(.*?)^ *```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
        )
        there = everywhere | set(re.findall(r"\bexport ([A-Z_]+)=", blocks))
        unset[page.name] = set(re.findall(r"\$([A-Z_]+)", blocks)) - there
    assert {name: missing for name, missing in unset.items() if missing} == {}


def test_command_has_no_day_account_or_region_of_its_own() -> None:
    """Pasted at night, it would look at another day or account than the alarm's."""
    own = re.compile(r"\b20\d\d-\d\d-\d\d|\b\d{12}\b|\b[a-z]{2}-[a-z]+-\d\b")
    here = commands(RUNBOOKS)
    assert len(here) > 40
    assert [words for words in here if own.search(" ".join(words))] == []


def test_log_query_has_a_start_time() -> None:
    """CloudWatch answers from the oldest line on: the first twenty of ninety days would show another fault."""
    looks = [(page, words) for page, words in ALL if "filter-log-events" in words]
    assert len(looks) >= 7
    assert [look for look in looks if "--start-time" not in look[1]] == []


def test_deployment_of_a_runbook_keeps_the_given_settings() -> None:
    """The given settings come first, so the page's own change wins; in quotes, because zsh does not split a variable."""
    deployments = [words for words in commands(RUNBOOKS) if words[:2] == ["make", "deploy"]]
    assert len(deployments) >= 5
    assert {tuple(words[2:3]) for words in deployments} == {("STAGE=$STAGE",)}
    assert all(words[3].startswith("SETTINGS=$GIVEN -c ") for words in deployments)
    assert [words for _, words in ALL if words[0] == "cdk" and "$GIVEN" in words] == []


def test_no_block_both_stops_and_starts_the_consumer() -> None:
    """A block is pasted whole."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for block in re.findall(r"^ *```bash\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE):
            assert not ("--no-enabled" in block and " --enabled" in block), (page.name, block)


def test_runbook_lists_the_consumers_reasons() -> None:
    code = "".join(path.read_text(encoding="utf-8") for folder in CONSUMER for path in sorted(folder.rglob("*.py")))
    constants = dict(re.findall(r'^([A-Z_]+) = "([a-z_]+)"$', code, re.MULTILINE))
    raised = re.findall(r"""Unprocessable(?:\.__init__)?\(\s*(?:self, )?("[a-z_]+"|[A-Z_]{3,})""", code)
    given = {constants.get(reason, reason.strip('"')) for reason in raised} | {OUTCOME_UNKNOWN}
    named = re.findall(r"`([a-z_]+)`", runbooks()["dead-letters"])
    assert {name for name in named if name not in NO_REASONS} == given


ACTIONS = {
    ("dynamodb", "wait"): {"dynamodb:DescribeTable"},
    ("s3", "cp"): {"s3:GetObject", "s3:PutObject"},
    ("s3", "ls"): {"s3:ListBucket"},
    ("s3", "mv"): {"s3:GetObject", "s3:PutObject", "s3:DeleteObject"},
    ("s3", "rm"): {"s3:DeleteObject"},
    ("s3api", "get-bucket-encryption"): {"s3:GetEncryptionConfiguration"},
}
"""The IAM actions of a command that is not named like its operation."""
SERVICES = {"stepfunctions": "states", "service-quotas": "servicequotas"}
OF_A_RESTORE = {
    f"dynamodb:{name}" for name in ["BatchWriteItem", "DeleteItem", "GetItem", "PutItem", "Query", "Scan", "UpdateItem"]
}
"""What DynamoDB needs on the new table, beside the right to restore (developer guide, "Using IAM with backup")."""


def test_policy_of_the_runbooks_allows_their_commands_and_nothing_else() -> None:
    statements = json.loads((FOLDER / "rights" / "runbooks.json").read_text(encoding="utf-8"))["Statement"]
    needed = set[str]()
    for words in commands(RUNBOOKS):
        if words[0] == "aws":
            service, verb = words[1], words[2]
            operation = "".join(word.capitalize() for word in verb.split("-"))
            needed |= ACTIONS.get((service, verb), {f"{SERVICES.get(service, service)}:{operation}"})
    assert {action for each in statements for action in each["Action"]} == needed | OF_A_RESTORE


@cache
def aws_operations(service: str) -> dict[str, Any]:
    """Return the AWS CLI's operations of a service."""
    services = aws_services()
    assert service in services, service
    found: Any = services[service]
    table: dict[str, Any] = (
        found._get_command_table() if hasattr(found, "_get_command_table") else found.subcommand_table
    )
    return table


@cache
def aws_services() -> dict[str, Any]:
    """Return the AWS CLI's services."""
    table: dict[str, Any] = create_clidriver()._get_command_table()
    return table


def check_aws(words: list[str]) -> None:
    """Service, operation and options against the AWS CLI's own tables, without running anything."""
    table = aws_operations(words[0])
    assert words[1] in table, words[:2]
    if words[1] == "wait":
        table, words = table["wait"].subcommand_table, words[1:]
        assert words[1] in table, words[:2]
    arguments: dict[str, Any] = table[words[1]].arg_table
    options = {word[2:].partition("=")[0] for word in words[2:] if word.startswith("--")}
    known = {name for name in arguments if not getattr(arguments[name], "positional_arg", False)} | GLOBAL_OPTIONS
    assert options <= known, options - known
    required = {name for name, found in arguments.items() if found.required and name in known}
    given = options | {option.removeprefix("no-") for option in options}
    assert required <= given, required - given


def check_oneslot(words: list[str]) -> None:
    """Verb, options and arguments with click's own parser; no verb is run."""
    command: click.Command = oneslot
    context = click.Context(command, info_name="oneslot")
    while isinstance(command, click.Group):
        found = command.get_command(context, words[0])
        assert found is not None, words[0]
        command, words = found, words[1:]
    context = click.Context(command, info_name=command.name, parent=context)
    with pytest.MonkeyPatch.context() as patch:
        for parameter in command.params:
            if isinstance(parameter.type, click.Path):
                patch.setattr(parameter.type, "exists", False)  # the file is the reader's
        command.parse_args(context, words)


@cache
def cdk_options(verb: str) -> set[str]:
    """Return the options of a verb of the pinned `cdk`, by its own list. It ignores an unknown one."""
    listed = json.loads((ROOT / "node_modules/aws-cdk/lib/cli/cli-type-registry.json").read_text(encoding="utf-8"))
    options = {**listed["globalOptions"], **listed["commands"][verb].get("options", {})}
    aliases = [about.get("alias", []) for about in options.values()]
    return {*options, *(name for alias in aliases for name in ([alias] if isinstance(alias, str) else alias))}


def check_cdk(words: list[str]) -> None:
    """The verb, its options and our own context."""
    assert words[0] in {"deploy", "destroy", "bootstrap", "diff", "import", "synth"}, words[0]
    options = {word.lstrip("-").partition("=")[0] for word in words[1:] if word.startswith("-")}
    assert options <= cdk_options(words[0]), options - cdk_options(words[0])
    check_context(words)


def check_make(words: list[str]) -> None:
    """The target, and the settings that it passes to CDK."""
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert words[0] in targets, words[0]
    given = dict(word.partition("=")[::2] for word in words[1:])
    if settings := given.get("SETTINGS"):
        check_context(["-c", f"stage={given['STAGE']}", *settings.split()])


def check_context(words: list[str]) -> None:
    """The settings after each `-c`, for the stage that they name, or for all."""
    pairs = [word.partition("=") for before, word in itertools.pairwise(words) if before == "-c"]
    context = {name: value.replace("$RESTARTED", "2026-11-23T14:00:00Z") for name, _, value in pairs}
    assert set(context) <= {"stage", *OVERRIDABLE}
    for stage in STAGES if context.get("stage") == "$STAGE" else [context.get("stage", "dev")]:
        settings_from_context({**context, "stage": stage})
