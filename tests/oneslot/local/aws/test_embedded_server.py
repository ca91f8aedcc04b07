"""The program of the embedded AWS's process."""

from __future__ import annotations

import pytest
from ministack.services import dynamodb

from oneslot.local.aws.embedded_server import parse_expressions_once


def test_expression_is_read_once_for_all_items(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    for name in ("_tokenize", "_condition_syntax_error"):
        original = getattr(dynamodb, name)

        def counted(text: str, *rest: str, original=original, name=name):  # type: ignore[no-untyped-def]
            read.append(name)
            return original(text, *rest)

        monkeypatch.setattr(dynamodb, name, counted)
    parse_expressions_once()

    kept = [
        item
        for item in ({"n": {"N": str(number)}} for number in range(5))
        if dynamodb._evaluate_condition("n > :least", item, {":least": {"N": "2"}}, {}, slot="FilterExpression")
    ]

    assert [item["n"]["N"] for item in kept] == ["3", "4"]
    assert sorted(read) == ["_condition_syntax_error", "_tokenize"]
