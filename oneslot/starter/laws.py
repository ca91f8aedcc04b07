"""What holds in every history, beside the ledger's own laws. oneslot.toml names these functions."""

from collections.abc import Iterator

from oneslot.laws.evidence import Evidence


def quantity_is_positive(evidence: Evidence) -> Iterator[tuple[str, str]]:
    """Each row has a quantity above zero."""
    for key, row in evidence.rows("orders").items():
        if row["quantity"] < 1:
            yield key, f"has the quantity {row['quantity']}"
