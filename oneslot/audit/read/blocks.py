"""Blocks: rows as Arrow streams, and the hash that says to which chunk a subject belongs."""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import ipc

from oneslot.audit.read.source import JSON_OF, NUMBER_OF

WIDE = 256
"""Bytes of a key above which it is hashed alone."""
WEIGHTS = np.uint64(0x9E3779B97F4A7C15) * (np.arange(1, WIDE // 8 + 1, dtype=np.uint64) * np.uint64(2) + np.uint64(1))
ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


def one(column: Any) -> pa.Array:
    """Return a column as one array."""
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def dicts(table: pa.Table) -> list[dict[str, Any]]:
    """Return rows as an audit keeps them: text and declared numbers as they are, other attributes as DynamoDB's JSON."""
    names = [name for name in table.column_names if name != "key"]
    found = []
    for values in zip(*(table[name].to_pylist() for name in names), strict=True) if names else ([()] * len(table)):
        row = {}
        for name, value in zip(names, values, strict=True):
            if value is None:
                continue
            if name.endswith(NUMBER_OF):
                row[name.removesuffix(NUMBER_OF)] = {"N": value}
            elif name.endswith(JSON_OF):
                row[name.removesuffix(JSON_OF)] = json.loads(value)
            else:
                row[name] = value
        found.append(row)
    return found


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
