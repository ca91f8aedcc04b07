"""Medians, quartiles and Markdown tables of figures."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any


def median_ms(runs: Sequence[float]) -> float:
    """Return the median of seconds, in milliseconds."""
    return statistics.median(runs) * 1000


def quartiles_ms(runs: Sequence[float]) -> tuple[float, float]:
    """Return the first and third quartile of seconds, in milliseconds; of fewer than two runs, the median twice."""
    if len(runs) < 2:
        return median_ms(runs), median_ms(runs)
    first, _, third = statistics.quantiles(runs, method="inclusive")
    return first * 1000, third * 1000


def table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return a Markdown table of the cells' texts, which `cell_text` makes."""
    texts = [[cell_text(cell) for cell in row] for row in (header, *rows)]
    widths = [max(len(row[column]) for row in texts) for column in range(len(header))]
    lines = [" | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in texts]
    lines.insert(1, " | ".join("-" * width for width in widths))
    return "\n".join(f"| {line} |" for line in lines)


def cell_text(cell: Any) -> str:
    """Return a cell's text; a fraction has two decimals below 10, one below 100, else none."""
    if isinstance(cell, float):
        return f"{cell:,.0f}" if abs(cell) >= 100 else f"{cell:,.2f}" if abs(cell) < 10 else f"{cell:,.1f}"
    return f"{cell:,}" if isinstance(cell, int) else str(cell)
