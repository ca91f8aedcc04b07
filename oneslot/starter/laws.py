"""What holds in every history, beside the ledger's own laws. oneslot.toml names these functions."""

from collections import Counter
from collections.abc import Iterator

from oneslot.laws.evidence import Evidence


def stock_counts_each_row_once(evidence: Evidence) -> Iterator[tuple[str, str]]:
    """The stock of an article is the sum of the pieces in its rows."""
    stock, pieces = evidence.rows("stock"), Counter[str]()
    for row in evidence.rows("orders").values():
        pieces[row["article"]] += row["pieces"]
    for article in {*stock, *pieces}:
        left = stock[article]["left"] if article in stock else 0
        if left != pieces[article]:
            yield article, f"has {left} left, and its rows say {pieces[article]}"
