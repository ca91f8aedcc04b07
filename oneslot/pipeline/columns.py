"""Spark columns that facts and tables are built from: attributes, keys, links, and codes packed into numbers."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the usual name in Spark programs

from oneslot.declaration.reading import declared
from oneslot.pipeline.vocabulary import FILE_PREFIX, ROW_PREFIX, UNIDENTIFIED_PREFIX

WITHHELD = "withheld-"
PACKED_CHARACTERS = 8


def zero() -> Column:
    """Return a bigint 0: no count, no link."""
    return F.expr("0L")


def text(name: str) -> Column:
    """Return a text attribute of the item."""
    return F.col(f"Item.{name}.S")


def number(name: str) -> Column:
    """Return a number attribute of the item; null if it is missing or not a whole number."""
    return F.expr(_number(name))


def _number(name: str) -> str:
    return f"try_cast(Item.{name}.N AS BIGINT)"


def bad_number(**largest: int) -> Column:
    """Return true where a named attribute is present but not a whole number from 0 to its maximum."""
    conditions = (
        f"(Item.{name}.N IS NOT NULL AND NOT coalesce({_number(name)} BETWEEN 0 AND {bound}, false))"
        for name, bound in largest.items()
    )
    return F.expr(" OR ".join(conditions))


def absent(*names: str) -> str:
    """Return SQL that is true where one of the columns is null."""
    return f"({' OR '.join(f'{name} IS NULL' for name in names)})"


def reserved(key: str) -> str:
    """Return SQL that is true where an id begins with a prefix reserved for other keys; false for null."""
    return f"coalesce(substring({key}, 1, 1) IN ('{ROW_PREFIX}', '{FILE_PREFIX}', '{UNIDENTIFIED_PREFIX}'), false)"


def identity_or(sqs_message_id: str) -> Column:
    """Return the message's own id, or a key made from the id that SQS gave a message without one."""
    return F.expr(f"coalesce(message_id, concat('{UNIDENTIFIED_PREFIX}', {sqs_message_id}))")


def no_identity(sqs_message_id: str) -> str:
    """Return SQL that is true where a line has neither the message's own id nor the id from SQS."""
    return f"(message_id IS NULL AND {sqs_message_id} IS NULL)"


def key_of_row(*parts: Column) -> Column:
    """Return the key of a row that is judged as itself. Its `#` keeps it apart from message ids."""
    return F.concat(*(each for part in parts for each in (F.lit(ROW_PREFIX), part)))


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


def coded(value: str, codes: Mapping[str, int | str]) -> str:
    """Return SQL for the number of a word; null for an unknown word. `value` and text codes are SQL themselves."""
    cases = (f"WHEN {quoted(word)} THEN {code if isinstance(code, str) else int(code)}" for word, code in codes.items())
    return f"CASE {value} {' '.join(cases)} END"


def worded(code: str, words: Mapping[int, str], otherwise: str) -> str:
    """Return SQL for the word of a number: the inverse of `coded`."""
    cases = (f"WHEN {int(number)} THEN {quoted(word)}" for number, word in words.items())
    return f"CASE {code} {' '.join(cases)} ELSE {quoted(otherwise)} END"


def quoted(word: str) -> str:
    """Return a text as a literal of SQL."""
    escaped = word.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def packed(code: Column) -> Column:
    """Return a code of up to eight ASCII characters as a number, so that it sorts, sums and shuffles without text.

    Of a longer code seven are kept, followed by a tilde. A character that is
    not ASCII becomes a question mark.
    """
    plain = F.when(F.octet_length(code) > F.length(code), F.regexp_replace(code, r"[^\x00-\x7F]", "?"))
    code = F.coalesce(plain, code)
    short = F.when(
        F.length(code) > PACKED_CHARACTERS, F.concat(F.substring(code, 1, PACKED_CHARACTERS - 1), F.lit("~"))
    )
    return F.conv(F.hex(F.coalesce(short, code)), 16, 10).try_cast("bigint")


def unpacked(number: Column) -> Column:
    """Return the code that `packed` turned into this number; empty for 0 and null."""
    return F.when(number > 0, F.decode(F.unhex(F.conv(number.cast("string"), 10, 16)), "utf-8")).otherwise("")
