"""The counter under 32 consumers: the page's table is what the benchmark prints, and no piece is counted twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.benchmarks.counter import CONSUMERS, WAYS, measured, tables

PAGE = Path(__file__).resolve().parents[3] / "lab" / "docs" / "performance.md"


def test_page_has_the_table() -> None:
    assert tables(short=False) in PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("pieces", [CONSUMERS, 5, 0])
def test_decision_is_made_once_when_the_stock_is_counted_with_otherwise(pieces: int) -> None:
    client, left = measured(WAYS["`add` with `otherwise`"], pieces)
    assert (client.decisions, left) == (CONSUMERS, 0)
    assert client.calls == {"update_item": CONSUMERS, "transact_write_items": 2 * CONSUMERS - pieces}


def test_order_makes_three_calls_with_powertools() -> None:
    client, left = measured(WAYS["Powertools around `ADD`, which may count twice"], CONSUMERS)
    assert (client.calls.total(), left) == (3 * CONSUMERS, 0)
