"""Handlers of `CALLS` calls whose answers show what the other delivery wrote."""

from __future__ import annotations

import os
from typing import Any

import boto3

CALLS = int(os.environ.get("CALLS", "2"))
table = boto3.resource("dynamodb").Table("counters")


def increased(key: str) -> int:
    answer = table.update_item(
        Key={"id": key},
        UpdateExpression="ADD n :one",
        ExpressionAttributeValues={":one": 1},
        ReturnValues="UPDATED_NEW",
    )
    return int(str(answer["Attributes"]["n"]))


def one_item(event: Any, context: Any) -> int:
    last = 0
    for _ in range(CALLS):
        last = increased("n")
    return last


def in_turn(event: Any, context: Any) -> int:
    last = 0
    for number in range(CALLS):
        last = increased("n") if number % 2 == 0 else len(table.get_item(Key={"id": "n"}))
    return last


def many_items(event: Any, context: Any) -> int:
    last = 0
    for number in range(CALLS):
        last = increased(f"n-{number}")
    return last


def summed(event: Any, context: Any) -> int:
    total = 0
    for _ in range(CALLS):
        total += increased("n")
    return total


def listed(event: Any, context: Any) -> list[int]:
    kept: list[int] = []
    for _ in range(CALLS):
        kept.append(increased("n"))
    return kept
