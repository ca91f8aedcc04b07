"""A consumer that comes from Powertools: its rows, both versions side by side, and the page that shows it."""

import json
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "from_powertools"
PAGE = FOLDER.parents[1] / "docs" / "do" / "come-from-powertools.md"
NOW = 1_795_176_000  # the explorer's clock, in seconds
ORDER = {"message_id": "order-1", "customer": "ada", "pence": 2500}
ENVIRONMENT = {
    "AWS_LAMBDA_FUNCTION_NAME": "orders",
    "IDEMPOTENCY_TABLE": "idempotency",
    "ONESLOT_TABLE_ACCOUNTS": "accounts",
    "ONESLOT_TABLE_CHARGES": "charges",
    "ONESLOT_TABLE_IDEMPOTENCY": "idempotency",
    "ONESLOT_LEDGER_TABLE": "ledger",
    "ONESLOT_LEDGER_RETENTION_SECONDS": "forever",
    "ONESLOT_QUEUE_URL": "https://queue",
    "ONESLOT_DEAD_LETTER_QUEUE_URL": "https://dead-letters",
}
ROW = "orders.before.charge#729040816f7330c4cb31f54a56f59a7b"


def live(**attributes: Any) -> dict[str, Any]:
    """Return a row of the old version for the order."""
    return {"id": ROW, "expiration": NOW + 3600, **attributes}


def explored(explore: Any, folder: Path, handler: str, rows: list[dict[str, Any]], **options: Any) -> Any:
    """Explore a handler of this folder, with these rows in Powertools' table."""
    return explore(
        handler,
        path=folder,
        messages=[ORDER],
        tables={"accounts": "customer", "charges": "id", "idempotency": "id", "ledger": "message_id"},
        rows={"idempotency": rows},
        ignore=["ledger.consumption_count"],
        env=ENVIRONMENT,
        **options,
    )


@pytest.mark.parametrize(
    "rows", ["completed", *(pytest.param(rows, marks=pytest.mark.slow) for rows in ("none", "in progress"))]
)
def test_order_is_charged_once_beside_rows_of_the_old_version(explore: Any, rows: str) -> None:
    given = {
        "none": [],
        "completed": [live(status="COMPLETED", data=json.dumps({"charged": 2500}))],
        "in progress": [live(status="INPROGRESS", in_progress_expiration=(NOW + 20) * 1000)],
    }
    result = explored(explore, FOLDER, "orders.handler", given[rows])
    assert result.holds, str(result)


BOTH = """
import random
import before, orders

def handler(event, context):
    return (before if random.random() < 0.5 else orders).handler(event, context)
"""


def account_is_charged_once(world: Any) -> bool:
    """The account is charged once."""
    return [row["pence"] for row in world["accounts"]] == [2500]


@pytest.mark.slow
def test_versions_answer_each_others_messages_while_both_run(explore: Any, tmp_path: Path) -> None:
    for file in (*FOLDER.glob("*.py"), tmp_path / "both.py"):
        (tmp_path / file.name).write_text(file.read_text() if file.exists() else BOTH)
    result = explored(explore, tmp_path, "both.handler", [], faults=0, law=account_is_charged_once)
    assert result.holds, str(result)
    assert not any("before.py" in place or "both.py" in place for place in result.unrun), result.unrun


def test_page_shows_the_consumer_as_it_was_explored() -> None:
    page = PAGE.read_text(encoding="utf-8")
    code = (FOLDER / "orders.py").read_text(encoding="utf-8")
    assert code[code.index("def take") : code.index("handler =")].strip() in page
