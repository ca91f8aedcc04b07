"""Files on this machine or where Arrow reads and writes them, as in S3: their listing, text, and blocks of whole lines."""

import base64
import gzip
import hashlib
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pyarrow import fs

from oneslot.audit.errors import AuditRefused

BLOCK_BYTES = 48 << 20
PACKED_BYTES = 1 << 20
GZIP = b"\x1f\x8b"
CUT_SHORT = "A gzipped file ends in the middle: {path} was cut short. Copy or export it again."
DAMAGED = "A file that ends in .gz is not gzip, or is damaged: {path}. Copy or export it again."
TEXT_BEHIND = (
    "{path} was cut short, or has other content behind its gzip. Copy the file again, or remove what is behind."
)
TWICE = "{path} is gzipped twice. Unpack it once."
UNNAMED = "{path} is gzipped, but its name does not end in .gz. Rename it, or unpack it."
CHANGED = "{path} does not match the MD5 in its manifest: it was cut short or changed. Copy or export it again."


def place_of(path: str) -> tuple[fs.FileSystem, str]:
    """Return Arrow's file system of a path, and the path in it."""
    scheme, _, inside = path.partition(":/")
    if not inside or "/" in scheme:
        return fs.LocalFileSystem(), path
    if scheme == "file":
        return fs.LocalFileSystem(), f"/{inside.lstrip('/')}"
    try:
        return fs.FileSystem.from_uri(f"{'s3' if scheme in ('s3a', 's3n') else scheme}:/{inside}")  # type: ignore[no-any-return]
    except ValueError:
        raise AuditRefused(f"{path}: Arrow has no file system for {scheme}. Name a folder, or one in S3.") from None


def listing(folder: str) -> list[fs.FileInfo]:
    """Return the entries of a folder, sorted by name; none if it does not exist."""
    system, inside = place_of(folder)
    found = system.get_file_info(fs.FileSelector(inside, allow_not_found=True))
    return sorted(found, key=lambda entry: entry.base_name)


def _kind(path: str) -> fs.FileType:
    system, inside = place_of(path)
    return system.get_file_info(inside).type


def exists(path: str) -> bool:
    """Return whether a file or folder exists."""
    return bool(_kind(path) != fs.FileType.NotFound)


def files_below(folder: str) -> dict[str, int]:
    """Return the files below a folder with their sizes in bytes, sorted. Names that begin with `_` or `.` are left out.

    Raises AuditRefused if `folder` is a file.
    """
    if _kind(folder) == fs.FileType.File:
        raise AuditRefused(f"{folder} is a file and must be a folder. Create the folder and move the file into it.")
    found: dict[str, int] = {}
    for entry in listing(folder):
        if not entry.base_name.startswith(("_", ".")):
            path = f"{folder}/{entry.base_name}"
            found |= {path: entry.size} if entry.is_file else files_below(path)
    return dict(sorted(found.items()))


def read_text(path: str) -> str | None:
    """Return the text of a small file; None if it does not exist. Raises AuditRefused if it is a folder."""
    system, inside = place_of(path)
    kind = _kind(path)
    if kind == fs.FileType.NotFound:
        return None
    if kind == fs.FileType.Directory:
        raise AuditRefused(f"{path} is a folder and must be a file. Remove it, or copy the file again.")
    with system.open_input_stream(inside, compression=None) as file:
        return bytes(file.read()).decode("utf-8", errors="replace")


def write_text(path: str, text: str) -> None:
    """Write a text file in one step, so that readers see the old file or all of the new one."""
    write_file(path, lambda stream: stream.write(text.encode()))


def create_text(path: str, text: str) -> bool:
    """Write a new text file. Return False if there is one, and leave it."""
    system, inside = place_of(path)
    if isinstance(system, fs.LocalFileSystem):
        Path(inside).parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError), Path(inside).open("x") as new:
            new.write(text)
            return True
    elif not exists(path):
        write_text(path, text)
        return True
    return False


def remove(path: str) -> None:
    """Remove a file or folder if it exists."""
    system, inside = place_of(path)
    if (kind := _kind(path)) == fs.FileType.Directory:
        system.delete_dir(inside)
    elif kind == fs.FileType.File:
        system.delete_file(inside)


def pretty(document: Mapping[str, Any]) -> str:
    """Return a document as indented JSON. Equal documents give equal bytes."""
    return json.dumps(document, indent=2, sort_keys=True) + "\n"


def json_lines(rows: Iterable[Mapping[str, Any]], *, sort: bool = True) -> str:
    """Return rows as JSON lines."""
    return "".join(json.dumps(row, sort_keys=sort) + "\n" for row in rows)


Read = Callable[[int], bytes]
"""Reads as many bytes of a file, and fewer at its end."""


def blocks_of(path: str, md5: str | None = None) -> Iterator[bytes]:
    """Yield a file's lines in blocks, each whole and with its line break.

    Raises AuditRefused for a damaged gzip file, and at the end for one with another MD5 than `md5` (Base64).
    """
    system, inside = place_of(path)
    digest = hashlib.md5(usedforsecurity=False)
    with system.open_input_stream(inside, compression=None) as file:

        def read(size: int) -> bytes:
            data: bytes = file.read(size)
            if md5 is not None:
                digest.update(data)
            return data

        damage: AuditRefused | None = None
        try:
            yield from _whole_lines(read, path)
        except AuditRefused as refusal:
            damage = refusal
        if md5 is not None:
            while read(BLOCK_BYTES):
                pass
            if base64.b64encode(digest.digest()).decode() != md5:
                raise AuditRefused(CHANGED.format(path=path))  # rather than the damage, because it names the cause
        if damage:
            raise damage


def _whole_lines(read: Read, path: str) -> Iterator[bytes]:
    packed = path.endswith(".gz")
    pieces, size, start = list[bytes](), 0, b""
    for piece in _unpacked(read, path) if packed else iter(lambda: read(min(PACKED_BYTES, BLOCK_BYTES)), b""):
        start = start if len(start) >= len(GZIP) else start + piece[: len(GZIP)]
        if start.startswith(GZIP):
            raise AuditRefused((TWICE if packed else UNNAMED).format(path=path))
        pieces.append(piece)
        size += len(piece)
        if size >= BLOCK_BYTES and (end := piece.rfind(b"\n") + 1):
            yield b"".join([*pieces[:-1], piece[:end]])
            pieces, size = [piece[end:]], len(piece) - end
    if size:
        rest = b"".join(pieces)
        yield rest if rest.endswith(b"\n") else rest + b"\n"


def _unpacked(read: Read, path: str) -> Iterator[bytes]:
    """Yield the content of a gzip file, which may have several members, and zeros at its end."""
    file, behind = gzip.GzipFile(fileobj=SimpleNamespace(read=read)), False
    try:
        while content := file.read1(PACKED_BYTES):
            behind = True
            yield content
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        no_member = behind and "Not a gzipped file" in str(error)
        said = CUT_SHORT if isinstance(error, EOFError) else TEXT_BEHIND if no_member else DAMAGED
        raise AuditRefused(said.format(path=path)) from None
    if file.mtime is None:  # no member was read
        raise AuditRefused(CUT_SHORT.format(path=path))


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
