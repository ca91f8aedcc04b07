"""What a verdict that holds does not speak of: lines that ran in no schedule, and calls that never met a fault."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from oneslot.explorer.handlers.exploration import explore

HANDLER = '''
import json

import boto3

table = boto3.resource("dynamodb").Table("orders")


def price(order):
    """In pence."""
    match order:
        case {"free": True}:
            return 0
        case {"id": _}:
            return 7


def refund(order):
    table.delete_item(Key={"id": order["id"]})


def handler(event, context):
    for record in event["Records"]:
        order = json.loads(record["body"])
        try:
            table.put_item(
                Item={"id": order["id"], "price": price(order)},
            )
        except Exception:
            class Mark: text = "failed"
            table.put_item(Item={"id": "failures", "text": Mark.text})
            raise
        finally:
            if order.get("refund"):
                print(
                    order,
                )

                refund(order)


def another(event, context):
    refund(event)
'''


def test_verdict_names_what_no_schedule_ran_and_no_fault_met(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(HANDLER)

    result = explore(
        "app.handler", messages=[{"id": "o-1"}], tables=["orders:id"], path=tmp_path, law=lambda world: True
    )

    assert result.unrun == ("app.py:13, 19, 35-39",)
    assert result.unmet == ("put_item at app.py:31",)
    assert "No schedule runs: app.py:13, 19, 35-39." in str(result)


def test_verdict_names_what_would_complete_the_next_level(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(HANDLER)
    options: dict[str, Any] = {"messages": [{"id": "o-1"}, {"id": "o-2"}], "copies": 3, "faults": 2, "budget": 0.001}

    result = explore("app.handler", tables=["orders:id"], path=tmp_path, **options)

    assert result.remedy == "To complete the next level, raise the budget, or give fewer messages, copies=2, faults=1."
    assert result.remedy in str(result)
