"""Blocks: rows as Arrow streams, and the hash that says to which chunk a subject belongs."""

import json
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import ipc

from oneslot.audit.read.source import JSON_OF, NUMBER_OF, with_others
from oneslot.laws.form import ROW_PREFIX
from oneslot.laws.schema import Row
from oneslot.runtime.values import from_attribute

WIDE = 256
"""Bytes of a key above which it is hashed alone."""
WEIGHTS = np.uint64(0x9E3779B97F4A7C15) * (np.arange(1, WIDE // 8 + 1, dtype=np.uint64) * np.uint64(2) + np.uint64(1))
ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


def one(column: Any) -> pa.Array:
    """Return a column as one array."""
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def dicts(table: pa.Table) -> list[dict[str, Any]]:
    """Return rows as an audit keeps them: text and declared numbers as they are, other attributes as DynamoDB's JSON."""
    found: list[dict[str, Any]] = [{} for _ in range(len(table))]
    for column in table.column_names:
        if column == "key":
            continue
        name = column.removesuffix(NUMBER_OF).removesuffix(JSON_OF)
        for row, value in zip(found, table[column].to_pylist(), strict=True):
            if value is not None and column.endswith(JSON_OF):
                row[name] = json.loads(value)
            elif value is not None:
                row[name] = {"N": value} if column.endswith(NUMBER_OF) else value
    return found


def decoded(row: Row) -> Row:
    """Return a carried row with Python's values, as DynamoDB's clients return them."""
    if not any(isinstance(value, dict) for value in row.values()):
        return row
    return with_others(
        {name: from_attribute(value) if isinstance(value, dict) else value for name, value in row.items()}
    )


def key_column(table: pa.Table, parts: Sequence[str]) -> pa.Array:
    """Return the subject's key that these attributes make; null where one is missing."""
    texts = []
    for name in parts:
        text, number = one(table[name]), name + NUMBER_OF
        texts.append(pc.coalesce(text, one(table[number])) if number in table.column_names else text)
    if len(texts) == 1:
        return texts[0] if texts[0].type == pa.string() else pc.cast(texts[0], pa.string())
    return pc.binary_join_element_wise(ROW_PREFIX, pc.binary_join_element_wise(*texts, "/"), "")


def packed(table: pa.Table) -> bytes:
    """Return a table as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with ipc.new_stream(sink, table.schema, options=ipc.IpcWriteOptions(compression="lz4")) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue())


def unpacked(block: Any) -> pa.Table:
    """Return the table of an Arrow stream."""
    return ipc.open_stream(block).read_all()


def hashed(keys: pa.Array) -> Any:
    """Return a 64 bit hash of each text: its words with odd weights, mixed."""
    offsets = np.frombuffer(keys.buffers()[1], np.int32)[keys.offset : keys.offset + len(keys) + 1].astype(np.int64)
    data = np.frombuffer(keys.buffers()[2] or b"", np.uint8)
    lengths = np.diff(offsets)
    found = lengths.astype(np.uint64)
    padded = np.concatenate([data, np.zeros(8, np.uint8)])
    words = np.lib.stride_tricks.as_strided(padded, (len(data) + 1, 8), (1, 1))
    for at in range(0, min(int(lengths.max(initial=0)), WIDE), 8):
        word = np.ascontiguousarray(words[np.minimum(offsets[:-1] + at, len(data))]).view(np.uint64).ravel()
        bits = np.clip(lengths - at, 0, 8).astype(np.uint64) * np.uint64(8)
        mask = np.where(bits >= 64, ALL, (np.uint64(1) << np.minimum(bits, np.uint64(63))) - np.uint64(1))  # noqa: PLR2004
        mixed = (found ^ (word & mask)) * WEIGHTS[at // 8]
        # A shorter key is done: its hash is the same beside any other keys.
        found = np.where(bits > 0, mixed ^ (mixed >> np.uint64(29)), found)
    found *= np.uint64(0xBF58476D1CE4E5B9)
    found ^= found >> np.uint64(32)
    for wide in np.flatnonzero(lengths > WIDE):
        whole = data[offsets[wide] : offsets[wide + 1]].tobytes()
        found[wide] = int.from_bytes(blake2b(whole, digest_size=8).digest(), "little")
    return found
