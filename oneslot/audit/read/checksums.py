"""Data files compared with the MD5 in their manifest, where the store's ETag did not settle it."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from oneslot.audit.errors import AuditRefused
from oneslot.audit.read.history import History
from oneslot.audit.spark.storage import Storage

READERS = 2


def start_checksums(storage: Storage, history: History) -> Future[None]:
    """Compare the files while the audit runs. The future raises AuditRefused for a file that differs."""
    return ThreadPoolExecutor(1, thread_name_prefix="checksums").submit(compare_checksums, storage, history)


def compare_checksums(storage: Storage, history: History) -> None:
    """Compare every file that has an MD5 left to compare. Raises AuditRefused."""
    md5 = _reader(storage, history.folder)
    files = [(f"{table}/{file.path}", file) for table, export in history.exports.items() for file in export.files]
    expected = [(path, file.md5) for path, file in files if file.md5 is not None]
    with ThreadPoolExecutor(READERS) as readers:
        for (path, wanted), actual in zip(expected, readers.map(md5, (path for path, _ in expected)), strict=True):
            if actual != wanted:
                raise AuditRefused(
                    f"{history.folder}/{path} does not match the MD5 in its manifest: it was cut short or changed. "
                    "Copy or export it again."
                )


def _reader(storage: Storage, folder: str) -> Callable[[str], str]:
    """Return the function from a file's path in the folder to its MD5 in Base64."""
    disk = storage.on_this_machine(folder)
    if disk is None:
        return lambda path: storage.md5(f"{folder}/{path}")

    def md5(path: str) -> str:  # without Java: its calls took 3 ms for each file
        with (disk / path).open("rb") as file:
            return base64.b64encode(
                hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).digest()
            ).decode()

    return md5
