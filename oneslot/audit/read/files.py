"""Files as blocks of whole lines, on this machine or where Arrow reads them, as in S3."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyarrow import fs

from oneslot.audit.errors import AuditRefused

BLOCK_BYTES = 48 << 20
PACKED_BYTES = 1 << 20
GZIP = b"\x1f\x8b"
CUT_SHORT = "A gzipped file ends in the middle: {path} was cut short. Copy or export it again."
DAMAGED = "A file that ends in .gz is not gzip, or is damaged: {path}. Copy or export it again."
TEXT_BEHIND = "{path} has other content behind its gzip. Remove what is behind, or copy the file again."
TWICE = "{path} is gzipped twice. Unpack it once."
UNNAMED = "{path} is gzipped, but its name does not end in .gz. Rename it, or unpack it."


def place_of(path: str) -> tuple[fs.FileSystem, str]:
    """Return Arrow's file system of a path, and the path in it."""
    scheme, _, inside = path.partition(":/")
    if not inside or "/" in scheme:
        return fs.LocalFileSystem(), path
    if scheme == "file":
        return fs.LocalFileSystem(), f"/{inside.lstrip('/')}"
    return fs.FileSystem.from_uri(f"{'s3' if scheme in ('s3a', 's3n') else scheme}:/{inside}")  # type: ignore[no-any-return]


def blocks_of(path: str) -> Iterator[bytes]:
    """Yield a file's lines in blocks, each whole and with its line break. Raises AuditRefused for a damaged gzip file."""
    system, inside = place_of(path)
    packed = path.endswith(".gz")
    with system.open_input_stream(inside, compression=None) as file:
        rest, first = b"", True
        for piece in _unpacked(file, path) if packed else iter(lambda: file.read(BLOCK_BYTES), b""):
            if first and piece.startswith(GZIP):
                raise AuditRefused((TWICE if packed else UNNAMED).format(path=path))
            first = False
            end = piece.rfind(b"\n") + 1
            if end:
                yield rest + piece[:end] if rest else piece[:end]
                rest = piece[end:]
            else:
                rest += piece
        if rest:
            yield rest + b"\n"


def _unpacked(file: Any, path: str) -> Iterator[bytes]:
    """Yield the content of a gzip file, which may have several members, and zeros at its end."""
    data = file.read(PACKED_BYTES)
    member, found, size = zlib.decompressobj(wbits=31), list[bytes](), 0
    while data:
        try:
            found.append(member.decompress(data, BLOCK_BYTES))
        except zlib.error:
            raise AuditRefused(DAMAGED.format(path=path)) from None
        size += len(found[-1])
        if size >= BLOCK_BYTES:
            yield b"".join(found)
            found, size = [], 0
        data = member.unconsumed_tail or (b"" if member.eof else file.read(PACKED_BYTES))
        if member.eof:
            data = member.unused_data
            while not data.strip(b"\0") and (more := file.read(PACKED_BYTES)):
                data = more
            data = data.lstrip(b"\0")
            if data:
                data += file.read(PACKED_BYTES) if len(data) < len(GZIP) else b""
                if not GZIP.startswith(data[: len(GZIP)]):
                    raise AuditRefused(TEXT_BEHIND.format(path=path))
                member = zlib.decompressobj(wbits=31)
    if not member.eof:
        raise AuditRefused(CUT_SHORT.format(path=path))
    if size:
        yield b"".join(found)


def write_file(path: str, write: Any) -> None:
    """Write a file by a function that gets its stream. On this machine it has its name when it is complete, as in S3."""
    system, inside = place_of(path)
    if not isinstance(system, fs.LocalFileSystem):
        with system.open_output_stream(inside) as stream:
            write(stream)
        return
    aside = Path(f"{inside}.incomplete")
    aside.parent.mkdir(parents=True, exist_ok=True)
    with aside.open("wb") as stream:
        write(stream)
    aside.rename(inside)
