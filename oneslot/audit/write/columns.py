"""Spark columns for ids that are shown: one that holds what the consumer declares as private is withheld."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from oneslot.declaration.reading import declared

WITHHELD = "withheld-"


def holds_private(written: Column) -> Column:
    """Return true where a text contains a valid number of the declared pattern: `Declaration.is_private` as a column."""
    private = declared().private
    if private is None:
        return F.lit(False)
    pattern = declared().load(private.pattern, "private.pattern").pattern
    digits = F.transform(
        F.regexp_extract_all(written, F.lit(pattern), F.lit(0)),
        lambda found: F.regexp_replace(found, "[^0-9]", ""),
    )
    return F.exists(digits, _has_check_digit)


def _has_check_digit(ten_digits: Column) -> Column:
    digits = [F.substring(ten_digits, place, 1).cast("int") for place in range(1, 11)]
    total = sum((digit * weight for digit, weight in zip(digits, range(10, 1, -1), strict=False)), F.lit(0))
    return F.pmod(F.lit(11) - total % 11, F.lit(11)) == digits[9]


def shown_id(key: Column, shown: Column) -> Column:
    """Return an id for display. One that holds what the consumer declares as private is replaced by its hash."""
    return F.when(holds_private(shown), F.concat(F.lit(WITHHELD), F.lower(F.hex(F.xxhash64(key))))).otherwise(shown)
