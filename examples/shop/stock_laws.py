"""What holds in every history of the shop, beside the ledger's own laws."""

from collections import Counter
from collections.abc import Iterator

from oneslot.laws.evidence import Evidence


def stock_is_what_the_orders_left(evidence: Evidence) -> Iterator[tuple[str, str]]:
    """An article's stock is the first one without a piece for each order."""
    ordered = Counter(order["article"] for order in evidence.rows("orders").values())
    for article, row in evidence.rows("stock").items():
        if row["left"] != row["first"] - ordered[article]:
            yield article, f"has {row['left']} of {row['first']} left after {ordered[article]} orders"
