"""The quick reader: a block of lines as typed columns, where no line is in doubt.

It is one-sided: it gives the rows that `oneslot.audit.read.lines` gives, or raises `Doubt`, and the block is read line by line.
"""

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.json import ParseOptions, ReadOptions, read_json

from oneslot.audit.read.source import NUMBER, NUMBER_OF, OTHERS, TEXT, Source
from oneslot.laws.form import LARGEST, RESERVED, Form, Kind, object_of
from oneslot.laws.traces import LEDGER

MOST_LEVELS = 400
"""More nested objects and lists in one line than this are in doubt: Python's parser counts its own calls with them."""
DELIVERY = "delivery"
_DAY = r"(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|02-(?:0[1-9]|1\d|2[0-8]))"
MOMENT = rf"^[12]\d{{3}}-{_DAY}T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\dZ$"
"""A time as the applications write it. Others are in doubt, and may be valid."""
_TEXT = r'"[^"\\\x00-\x1f]*"'
_MEMBER = rf"{_TEXT}: ?(?:{_TEXT}|0|-?[1-9]\d{{0,15}}|true|false|null)"
OBJECT = rf"^\{{(?:{_MEMBER}(?:, ?{_MEMBER})*)?\}}$"
"""An object as most results are. Python parses the others, which takes ten times as long."""
_NO_JSON = re.compile(rb"[:,\[]\s*-?(?:Inf|NaN)")
"""What Arrow's parser takes for a number, and JSON does not."""


class Doubt(ValueError):
    """The block has a line that this reader does not judge."""


def columns_of(source: Source, block: bytes) -> pa.Table:
    """Return the valid rows of a block. Raises ValueError where a line is in doubt."""
    lines = _require_whole_lines(block)
    if source.table is None and np.count_nonzero(np.frombuffer(block, np.uint8) == ord("{")) != lines:
        raise Doubt("an object inside a line of a log")
    unnamed = "error" if OTHERS in source.form.attributes else "ignore"
    table = read_json(
        pa.BufferReader(block),
        ReadOptions(use_threads=False, block_size=len(block)),
        ParseOptions(explicit_schema=_written(source), unexpected_field_behavior=unnamed),
    )
    if table.num_rows != lines:
        raise Doubt("lines that are not one object each")
    table = _relevant(source, block, table) if source.table is None else _attributes(source, table)
    _require_form(source.form, table)
    return table


def _require_whole_lines(block: bytes) -> int:
    """Return the number of lines. Each is a sequence of objects; the parser counts these."""
    if not block.isascii():
        block.decode()
    letters = np.frombuffer(block, np.uint8)
    ends = np.flatnonzero(letters == ord("\n"))
    begin = np.concatenate([[0], ends[:-1] + 1])
    if b"\0" in block or (letters[begin] != ord("{")).any() or (letters[ends - 1] != ord("}")).any():
        raise Doubt("lines that are not one object each")
    # The search of a few letters comes first, because it takes a tenth of the pattern's time.
    if (b"Inf" in block or b"NaN" in block) and _NO_JSON.search(block):
        raise Doubt("a number that JSON does not have")
    for at in np.flatnonzero(ends - begin > 2 * MOST_LEVELS):  # each level has its begin and its end
        line = block[begin[at] : ends[at]]
        if line.count(b"{") + line.count(b"[") > MOST_LEVELS:
            raise Doubt("very many levels")
    return len(ends)


def _written(source: Source) -> pa.Schema:
    """Return the schema of a line as it is written."""
    attributes = source.form.attributes
    if source.table is None:
        more = {"message": TEXT} if source.name == "deliveries" else {}
        types = {name: NUMBER if each.kind in LARGEST else TEXT for name, each in attributes.items()}
        return pa.schema([*{**more, **types}.items()])
    texts, numbers, any_type = pa.struct([("S", TEXT)]), pa.struct([("N", TEXT)]), pa.struct([("S", TEXT), ("N", TEXT)])
    kinds = {
        name: any_type if each.kind == Kind.ANY else numbers if each.kind in LARGEST else texts
        for name, each in attributes.items()
    }
    return pa.schema([("Item", pa.struct([*kinds.items()]))])


def _relevant(source: Source, block: bytes, table: pa.Table) -> pa.Table:
    """Return the lines of a log that are about messages."""
    if source.name == "deliveries":
        found = table.filter(pc.equal(table["message"], DELIVERY))
        # The word elsewhere may be a delivery inside of another line.
        if block.count(b'"delivery"') != found.num_rows or block.count(b'delivery\\"'):
            raise Doubt("an envelope")
        return found.drop_columns(["message"])
    return table.filter(pc.is_valid(table["message_id"])) if source.name == "accepted" else table


def _attributes(source: Source, table: pa.Table) -> pa.Table:
    """Return the attributes of items as columns."""
    item = table["Item"].combine_chunks()
    if item.null_count:
        raise Doubt("a line without an item")
    columns: dict[str, Any] = {}
    for name, attribute in source.form.attributes.items():
        typed = item.field(name)
        if attribute.kind == Kind.ANY:
            text, number = typed.field("S"), typed.field("N")
            untyped = typed.is_valid() if name == OTHERS else pc.and_(text.is_null(), number.is_null())
            _refuse(pc.and_(typed.is_valid(), untyped), "an attribute of another type")
            columns[name] = text
            if number.null_count < len(number):
                _require(pc.or_(number.is_null(), pc.match_substring_regex(number, r"^-?\d{1,38}(?:\.\d{1,38})?$")))
                columns[name + NUMBER_OF] = pc.if_else(text.is_valid(), pa.scalar(None, TEXT), number)
            continue
        value = typed.field("N" if attribute.kind in LARGEST else "S")
        if value.null_count != typed.null_count:
            raise Doubt("an attribute of another type")
        if attribute.kind in LARGEST:
            _require(pc.or_(value.is_null(), pc.ascii_is_decimal(value)))
        columns[name] = pc.cast(value, NUMBER) if attribute.kind in LARGEST else value
    return pa.table(columns)


def _require_form(form: Form, table: pa.Table) -> None:
    """Raise `Doubt` unless every row is in form."""
    status = table["status"] if "status" in form.attributes else None
    for name, attribute in form.attributes.items():
        column = table[name]
        if attribute.needed is not False:
            missing = pc.is_null(column)
            if name + NUMBER_OF in table.column_names:
                missing = pc.and_(missing, pc.is_null(table[name + NUMBER_OF]))
            if attribute.needed is not True and status is not None:
                missing = pc.and_(missing, pc.is_in(status, pa.array(attribute.needed)))
            _refuse(missing)
        if most := LARGEST.get(attribute.kind):
            _refuse(pc.or_(pc.less(column, 0), pc.greater(column, most)))
        elif attribute.kind == Kind.ID:
            for prefix in RESERVED:
                _refuse(pc.starts_with(column, prefix))
        elif attribute.kind == Kind.OBJECT:
            others = column.filter(pc.invert(pc.match_substring_regex(column, OBJECT)))
            _refuse(pa.array([object_of(text) is None for text in others.to_pylist()], pa.bool_()))
        elif attribute.kind == Kind.MOMENT:
            _require(pc.or_(pc.is_null(column), pc.match_substring_regex(column, MOMENT)))
        if attribute.words is not None:
            _require(pc.or_(pc.is_null(column), pc.is_in(column, pa.array([*attribute.words], TEXT))))
    if form.one_of:
        _refuse(pc.and_(*(pc.is_null(table[name]) for name in form.one_of)))


def _refuse(mask: Any, why: str = "a row out of form") -> None:
    if pc.any(mask).as_py():
        raise Doubt(why)


def _require(mask: Any) -> None:
    _refuse(pc.invert(mask))


def about(source: Source, table: pa.Table, words: list[str]) -> Any:
    """Return the numbers of the ledger's rows whose answer may be about another request."""
    if source.name != LEDGER or not words:
        return np.empty(0, np.int64)
    # A word may be written otherwise, with a backslash.
    named = pc.match_substring_regex(table["result"], "|".join(map(re.escape, (*words, "\\"))))
    complete = pc.equal(table["status"], "COMPLETE")
    return np.flatnonzero(pc.fill_null(pc.and_(named, complete), False).to_numpy(zero_copy_only=False))
