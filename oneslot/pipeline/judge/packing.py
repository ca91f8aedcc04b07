"""Short codes as numbers: no text in the shuffle, and none among the aggregates."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

PACKED_CHARACTERS = 8


def packed(code: Column) -> Column:
    """A code of up to eight ASCII characters as a number, which sorts, sums and shuffles without touching text.

    An ODS code of a practice has six. Of a longer one the first seven are kept, and a tilde for the rest; what is not ASCII
    would need more room, and becomes a question mark.
    """
    plain = F.when(F.octet_length(code) > F.length(code), F.regexp_replace(code, r"[^\x00-\x7F]", "?"))
    code = F.coalesce(plain, code)
    short = F.when(
        F.length(code) > PACKED_CHARACTERS, F.concat(F.substring(code, 1, PACKED_CHARACTERS - 1), F.lit("~"))
    )
    return F.conv(F.hex(F.coalesce(short, code)), 16, 10).try_cast("bigint")


def unpacked(number: Column) -> Column:
    """The code that `packed` made the number of; empty for 0 and null."""
    return F.when(number > 0, F.decode(F.unhex(F.conv(number.cast("string"), 10, 16)), "utf-8")).otherwise("")
