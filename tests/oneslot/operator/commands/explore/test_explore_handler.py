"""`explore --handler`: its verdict as exit status, and scenario files that it refuses."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from oneslot.errors import HandlerNotExplorable, InvalidScenario
from oneslot.explorer.handlers.given import GIVEN
from oneslot.explorer.handlers.scenario_file import CHECKS
from oneslot.operator.commands.explore.explore import FROM_TEMPLATE, explore

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
    assert (result.return_value, shown["kind"], shown["holds"]) == (3, "not finished", False)
    assert "no level is complete" in shown["verdict"]


def test_scenario_may_have_one_event(tmp_path: Path) -> None:
    text = f'event = {{"Records": [{{"body": "{{}}"}}]}}\nlaw = lambda world: True\npath = {str(SUBJECTS)!r}\n'

    result = explored("raise_always", tmp_path, text, "--json")

    assert "fails when nothing goes wrong" in json.loads(result.stdout)["verdict"]


def test_scenario_is_refused_without_messages(tmp_path: Path) -> None:
    result = explored("put", tmp_path, "tables = {}")

    assert isinstance(result.exception, InvalidScenario)


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ("messages = []", "messages"),
        ('messages = [b"x"]', "messages"),
        ('messages = [{"body": "x", "attributes": {"ApproximateReceiveCount": "x"}}]', "messages"),
        ('event = {"Records": [{"body": "x"}]}', "an event"),
        ('del messages; event = {"Records": 5}', "event"),
        ("del messages; event = None", "event"),
        ("batch = 0", "batch"),
        ('batch = "x"', "batch"),
        ("batch = True", "batch"),
        ("faults = -1", "faults"),
        ("budget = float('nan')", "budget"),
        ("law = 5", "law"),
        ("law = []", "law"),
        ("ignore = 'orders.n'", "ignore"),
        ('fifo = "x"', "fifo"),
        ('env = {"TABLE": 5}', "env"),
        ('tables = {"T1": ()}', "tables"),
        ('tables = {"T1": ("a", "b", "c")}', "tables"),
        ("tables = 5", "tables"),
        ('rows = {"T1": [{"x": 1}]}', "row 1 of T1 in rows lacks the key id"),
        ('rows = {"T9": [{"id": "a"}]}', "rows has the table T9"),
        ('tables = {}; rows = {"T9": [{"id": "a"}]}', 'tables={"T9": "id"}'),
        ('rows = {"T1": [{"id": 1.5}]}', "row 1 of T1 in rows"),
        ('rows = {"T1": {"id": "a"}}', "rows"),
        ('objects = {"bucket": {"key": 5}}', "objects"),
        ('answers = {"athena.start_query_execution": 5}', "answers"),
        ('parameters = {"/app/table": 5}', "parameters"),
        ("secrets = {'key': {1, 2}}", "secrets"),
        ("path = 5", "path"),
        ("laws = [lambda world: False]", "Did you mean law?"),
        ("def laws(world): return False", "Did you mean law?"),
        ("nonsense = 1", "nonsense is unknown"),
        ("timeout_ms = 0", "Did you mean timeout?"),
    ],
)
def test_scenario_is_refused_by_the_field_when_a_name_or_a_value_is_not_valid(
    line: str, field: str, tmp_path: Path
) -> None:
    result = explored("put", tmp_path, f'messages = [{{"order": "o-1"}}]\ntables = {{"T1": "id"}}\n{line}\n')

    assert isinstance(result.exception, InvalidScenario)
    assert (result.exception.exit_code, field in str(result.exception)) == (2, True), str(result.exception)


def test_scenario_may_have_helpers_when_they_are_no_public_values(tmp_path: Path) -> None:
    helpers = """
import json
from decimal import Decimal
from pathlib import Path

ORDER = "o-1"
_count = 1
class Order: ...
def message(order): return {"order": order}
messages = [message(ORDER)] * _count
rows = {"orders": [{"id": "o-0", "amount": Decimal("1.5")}]}
"""
    result = explored("put", tmp_path, f'{helpers}tables = {{"orders": "id"}}\npath = Path({str(SUBJECTS)!r})\n')

    assert result.return_value == 0, result.exception


def test_each_name_of_explore_has_a_check_of_its_value() -> None:
    assert CHECKS.keys() == GIVEN | FROM_TEMPLATE


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
