"""What the facts are made with: columns of an item's attributes, keys and links, and questions about them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name that every Spark program gives it

from appointments.nhs_number import WRITTEN
from oneslot.pipeline.vocabulary import FILE_PREFIX, SLOT_PREFIX, UNIDENTIFIED_PREFIX

WITHHELD = "withheld-"


def zero() -> Column:
    """No count, no link."""
    return F.expr("0L")


def text(name: str) -> Column:
    """A text attribute of the item."""
    return F.col(f"Item.{name}.S")


def number(name: str) -> Column:
    """A number attribute of the item; null if it is missing or no whole number."""
    return F.expr(_number(name))


def _number(name: str) -> str:
    return f"try_cast(Item.{name}.N AS BIGINT)"


def bad_number(**largest: int) -> Column:
    """Whether one of the attributes is there but is no whole number from 0 to its largest."""
    conditions = (
        f"(Item.{name}.N IS NOT NULL AND NOT coalesce({_number(name)} BETWEEN 0 AND {bound}, false))"
        for name, bound in largest.items()
    )
    return F.expr(" OR ".join(conditions))


def absent(*names: str) -> str:
    """Whether one of the columns is null, as SQL."""
    return f"({' OR '.join(f'{name} IS NULL' for name in names)})"


def reserved(key: str) -> str:
    """Whether an id begins like a key that is no request's, as SQL; null counts as no."""
    return f"coalesce(substring({key}, 1, 1) IN ('{SLOT_PREFIX}', '{FILE_PREFIX}', '{UNIDENTIFIED_PREFIX}'), false)"


def identity_or(sqs_message_id: str) -> Column:
    """The message's own id, or a key made of SQS's id for a message that carries none."""
    return F.expr(f"coalesce(message_id, concat('{UNIDENTIFIED_PREFIX}', {sqs_message_id}))")


def no_identity(sqs_message_id: str) -> str:
    """Whether a line has neither the message's own id nor SQS's, as SQL."""
    return f"(message_id IS NULL AND {sqs_message_id} IS NULL)"


def slot_key_of(practice: Column, slot_id: Column) -> Column:
    """A slot's key: unique beside message ids, which have no `#`."""
    return F.concat(F.lit(SLOT_PREFIX), practice, F.lit(SLOT_PREFIX), slot_id)


def place_link(practice: Column, slot_id: Column, start: Column, end: Column) -> Column:
    """The hash of where and when somebody is expected, or of the practice alone where one waits; 0 where there is none."""
    told, parts = F.xxhash64(practice, slot_id, start, end), (slot_id, start, end)
    # Spark passes over what is null: where something follows it, it is hashed which parts are, else an `end` without a
    # `start` would be a `start`. No program of ours leaves such a row; an audit is there for what nobody should have left.
    gap = (slot_id.isNull() & start.isNotNull()) | (start.isNull() & end.isNotNull())
    with_gap = F.xxhash64(practice, *parts, *(part.isNull() for part in parts))
    return F.when(practice.isNotNull(), F.when(gap, with_gap).otherwise(told)).otherwise(zero())


def holds_nhs_number(written: Column) -> Column:
    """Whether a valid NHS number stands in a text: `appointments.nhs_number.contains_one`, where the rows are."""
    digits = F.transform(
        F.regexp_extract_all(written, F.lit(WRITTEN.pattern), F.lit(0)),
        lambda found: F.regexp_replace(found, "[^0-9]", ""),
    )
    return F.exists(digits, _checked)


def _checked(ten_digits: Column) -> Column:
    digits = [F.substring(ten_digits, place, 1).cast("int") for place in range(1, 11)]
    total = sum((digit * weight for digit, weight in zip(digits, range(10, 1, -1), strict=False)), F.lit(0))
    return F.pmod(F.lit(11) - total % 11, F.lit(11)) == digits[9]


def shown_id(key: Column, shown: Column) -> Column:
    """An id as it may be shown: one that holds an NHS number is withheld, and told apart by its hash."""
    return F.when(holds_nhs_number(shown), F.concat(F.lit(WITHHELD), F.lower(F.hex(F.xxhash64(key))))).otherwise(shown)


def coded(value: str, codes: Mapping[str, IntEnum | str]) -> str:
    """A word as its number, as SQL; null for an unknown word. `value` and codes that are text are SQL, too."""
    cases = (f"WHEN '{word}' THEN {code if isinstance(code, str) else int(code)}" for word, code in codes.items())
    return f"CASE {value} {' '.join(cases)} END"
