"""The page on what handlers get wrong: each fix holds in the explorer, and its figures are those of the table."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from oneslot.explorer.handlers.exploration import explore

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = (REPOSITORY / "docs" / "understand" / "what-handlers-get-wrong.md").read_text(encoding="utf-8")
FIXES = dict(re.findall(r"^## ([^\n]+)\n(?:(?!^## ).)*?^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
RECORD = {"eventID": "s-1", "eventSource": "aws:dynamodb", "dynamodb": {"SequenceNumber": "1"}}
FINDING = {"id": "e-1", "detail-type": "Finding", "detail": {"severity": "HIGH"}}
GIVEN: dict[str, dict[str, Any]] = {
    "Done work fails when it is repeated": {"event": {"token": "t-1"}},
    "A partly refused batch is ignored": {"event": {}},
    "An exception ends in the log": {"event": FINDING, "tables": ["findings:id"]},
    "Each delivery makes a new identity": {"event": {"period": "2026-01", "customer": "c-1"}},
    "A counter is added to without a mark": {"event": {"Records": [RECORD]}, "tables": ["totals:id", "marks:id"]},
}
WORSE = {
    "Done work fails when it is repeated": ("states.exceptions.TaskTimedOut", "ZeroDivisionError"),
    "A partly refused batch is ignored": ('["FailedEntryCount"]:', " is None:"),
    "An exception ends in the log": (
        '    table.put_item(Item={"id": event["id"], "severity": event["detail"]["severity"]})',
        "    try:\n        table.put_item(Item={'id': event['id']})\n    except Exception as error:\n        print(error)",
    ),
    "Each delivery makes a new identity": ("{event['customer']}", "{context.aws_request_id}"),
    "A counter is added to without a mark": ('{"Put": put}, {"Update": count}', '{"Update": count}'),
}
"""What makes each fix the mistake again."""


def explored(folder: Path, code: str, title: str) -> str:
    (folder / "app.py").write_text(code)
    return explore("app.handler", path=folder, **GIVEN[title]).kind


@pytest.mark.parametrize("title", GIVEN)
def test_fix_holds_and_its_mistake_breaks(title: str, tmp_path: Path) -> None:
    right, wrong = WORSE[title]
    assert right in FIXES[title]

    assert explored(tmp_path, FIXES[title], title) == "holds"
    assert explored(tmp_path, FIXES[title].replace(right, wrong), title) == "breaks"


def test_page_has_the_figures_of_the_table() -> None:
    rows = json.loads((REPOSITORY / "lab" / "results" / "world.json").read_text())
    explored_rows = [row for row in rows if row["verdict"] in ("holds", "breaks", "not finished")]
    holding = [row for row in rows if row["verdict"] == "holds"]
    breaches = re.findall(r"^\| [a-z ]+ \| (\d+) \|$", PAGE, re.MULTILINE)
    said = [
        f"chose {len(rows)} Lambda handlers",
        f"explored {len(explored_rows)} of them",
        f"{len(holding)} hold, and {len(explored_rows) - len(holding)} break",
        f"{sum(1 for row in holding if row['outside'])} of those that hold",
        f"Five mistakes make {sum(map(int, breaches[:5]))} of the {sum(map(int, breaches))} breaches",
        f"{sum(1 for row in explored_rows if row['given'])} handlers needed an event",
        f"The {len(rows) - len(explored_rows)} that are not judged were refused",
    ]

    assert [one for one in said if one not in " ".join(PAGE.split())] == []
