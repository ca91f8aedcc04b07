"""`explore --handler`: its verdict as exit status, and scenario files that it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from oneslot.errors import HandlerNotExplorable, InvalidScenario
from oneslot.operator.commands.explore.explore import explore

SUBJECTS = Path(__file__).parents[3] / "explorer" / "handlers"


def explored(handler: str, folder: Path, text: str, *options: str) -> Result:
    scenario = folder / "scenario.py"
    scenario.write_text(text)
    arguments = ["--handler", f"subjects:{handler}", "--scenario", str(scenario), *options]
    return CliRunner().invoke(explore, arguments, standalone_mode=False)


@pytest.mark.parametrize(("handler", "status"), [("put", 0), ("charge_then_mark", 1)])
def test_verdict_is_the_exit_status(handler: str, status: int, tmp_path: Path) -> None:
    text = f'messages = [{{"order": "o-1"}}]\ntables = {{"orders": "id"}}\npath = {str(SUBJECTS)!r}\n'

    result = explored(handler, tmp_path, text, "--json")

    shown = json.loads(result.stdout)
    assert (result.return_value, shown["holds"]) == (status, not status)
    assert ("orders total: amount 5" in shown["counterexample"]) == bool(status)
    assert "once more" not in shown["counterexample"]


def test_exit_status_is_three_when_the_budget_ends_first(tmp_path: Path) -> None:
    text = f'messages = [{{"order": "o-1"}}]\ntables = ["orders:id"]\nbudget = 0\npath = {str(SUBJECTS)!r}\n'

    result = explored("put_ten", tmp_path, text, "--json")

    shown = json.loads(result.stdout)
    assert (result.return_value, shown["kind"], shown["holds"], shown["complete"]) == (3, "not finished", False, False)
    assert "no level is complete" in shown["verdict"]


def test_scenario_may_have_one_event(tmp_path: Path) -> None:
    text = f'event = {{"Records": [{{"body": "{{}}"}}]}}\nlaw = lambda world: True\npath = {str(SUBJECTS)!r}\n'

    result = explored("raise_always", tmp_path, text, "--json")

    assert "fails when nothing goes wrong" in json.loads(result.stdout)["verdict"]


def test_scenario_is_refused_without_messages(tmp_path: Path) -> None:
    result = explored("put", tmp_path, "tables = {}")

    assert isinstance(result.exception, InvalidScenario)


def test_scenario_takes_the_rest_from_its_template(tmp_path: Path) -> None:
    template = tmp_path / "template.yaml"
    resources = {
        "Orders": {"Type": "AWS::Serverless::SimpleTable", "Properties": {"TableName": {"Ref": "Table"}}},
        "Consumer": {"Type": "AWS::Serverless::Function", "Properties": {"CodeUri": str(SUBJECTS)}},
    }
    template.write_text(json.dumps({"Parameters": {"Table": {"Type": "String"}}, "Resources": resources}))
    text = f'messages = [{{"order": "o-1"}}]\ntemplate = {str(template)!r}\nfunction = "Consumer"\n'

    result = explored("put", tmp_path, text + 'stack = {"Table": "orders"}\n', "--json")

    assert (result.return_value, json.loads(result.stdout)["holds"]) == (0, True)


def test_scenario_is_refused_when_its_template_is(tmp_path: Path) -> None:
    result = explored("put", tmp_path, 'messages = [1]\ntemplate = "none.yaml"\n')

    assert isinstance(result.exception, HandlerNotExplorable)
