"""The deployed function's code, fetched from the AWS it is deployed in and unpacked: what was deployed is what runs."""

from __future__ import annotations

import hashlib
import io
import shutil
import urllib.request
import zipfile
from pathlib import Path

# Loopback only: a proxy of the person's environment must not be asked for 127.0.0.1.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def install(code_url: str, folder: Path, *, timeout_seconds: float = 30) -> Path:
    """Fetch the zip and unpack it below `folder`, under the name of its digest; return the unpacked folder.

    The same code is unpacked once. Raises `OSError` if it cannot be fetched, `zipfile.BadZipFile` if it is none.
    """
    with _OPENER.open(code_url, timeout=timeout_seconds) as answer:
        content: bytes = answer.read()
    target = folder / hashlib.sha256(content).hexdigest()[:16]
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        if not _is_whole(archive, target):
            shutil.rmtree(target, ignore_errors=True)
            # Unpacked beside and moved: a start that was cut off leaves no half of a function behind.
            partial = target.with_suffix(".partial")
            archive.extractall(partial)
            partial.rename(target)
    return target


def _is_whole(archive: zipfile.ZipFile, folder: Path) -> bool:
    """Whether every file is still there: whoever tidies up old files may have taken some of them."""
    places = ((folder / each.filename, each.file_size) for each in archive.infolist())
    return all(place.exists() and (place.is_dir() or place.stat().st_size == size) for place, size in places)
