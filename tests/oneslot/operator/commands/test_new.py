"""`oneslot new`: a project that is right as it is written, and a sentence for a name or folder that is not."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from oneslot.declaration.reading import read_declaration
from oneslot.operator.cli import main
from tests.kits.moto_stack import document, invoke


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a new consumer of gift cards."""
    monkeypatch.chdir(tmp_path)
    assert invoke("new", "gift_cards").exit_code == 0
    return tmp_path / "gift_cards"


def run(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_new_puts_the_name_into_every_file(project: Path) -> None:
    texts = {path.name: path.read_text(encoding="utf-8") for path in project.rglob("*") if path.is_file()}
    assert [name for name, text in texts.items() if re.search("orders", text, re.IGNORECASE)] == []
    assert "class GiftCardsStack(Stack)" in texts["stack.py"]
    assert '"ONESLOT_TABLE_GIFT_CARDS": "gift_cards"' in texts["test_consumer.py"]
    tables = read_declaration(project / "oneslot.toml").schema.tables
    assert {name: table.output for name, table in tables.items()} == {
        "gift_cards": "GiftCardsTableName",
        "stock": "StockTableName",
    }


def test_new_names_the_next_three_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "orders").mkdir()
    shown = invoke("new", "orders").stdout
    assert shown.endswith("Next:\n\ncd orders && pip install -r requirements.txt\npytest\noneslot up\n")
    made = document(invoke("new", "payments", "--json"))
    assert sorted(made["files"]) == sorted(
        str(path.relative_to(tmp_path / "orders")) for path in (tmp_path / "orders").rglob("*") if path.is_file()
    )


@pytest.mark.parametrize("arguments", [["--help"], []])
def test_help_has_no_section_of_own_verbs_when_the_project_has_none(
    project: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.chdir(project)
    shown = invoke(*arguments)
    assert "Unexpected" not in shown.output
    assert "Verbs of" not in shown.output
    headings = re.findall(r"^([A-Z][a-z ]+):$", shown.output, re.MULTILINE)
    assert headings == ["Options", "Start", "Send and consume", "Watch and judge", "Repair", "Explore"]


def test_help_names_only_verbs_that_the_project_has(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)
    shown = "".join(invoke(*path, "--help").stdout for path in [(), *((verb,) for verb in main.commands)])
    named = set(re.findall(r"(?:^ *|`)oneslot ([a-z]+)", shown, re.MULTILINE))
    assert {"check", "worker"} <= named <= {*main.commands}


@pytest.mark.slow
def test_new_project_passes_its_tests_and_linters(project: Path) -> None:
    tested = run("pytest", "-q", "-p", "no:cacheprovider", folder=project)
    assert tested.returncode == 0, tested.stdout
    assert re.search(r"^6 passed in", tested.stdout, re.MULTILINE), tested.stdout
    for check in (["ruff", "check", "--no-cache", "."], ["ruff", "format", "--no-cache", "--check", "."]):
        done = run(*check, folder=project)
        assert done.returncode == 0, done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            "boto3.client('sns').publish(TopicArn='arn:aws:sns:eu-west-2:000000000000:t', Message='x')",
            "may happen twice: sns",
        ),
        ("message.body['colour']", "it reports the message as failed, after KeyError: 'colour'"),
    ],
)
def test_new_project_fails_its_test_when_its_decision_does(project: Path, change: str, said: str) -> None:
    decision = project / "consumer" / "decision.py"
    decision.write_text(
        f"import boto3\n{decision.read_text().replace('    article, ', f'    {change}' + chr(10) + '    article, ', 1)}"
    )

    tested = run("pytest", "-q", "-p", "no:cacheprovider", "-k", "under_every_fault", folder=project)

    assert tested.returncode == 1, tested.stdout
    assert said in tested.stdout
