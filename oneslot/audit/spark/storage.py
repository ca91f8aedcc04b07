"""Files wherever Spark can reach them: on this machine, in HDFS, or in a bucket whose driver the service brings.

All access goes through Hadoop's file system interface, which every Spark has.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from oneslot.audit.errors import AuditRefused


def literal(path: str) -> str:
    """Escape a path for Spark, which would read some of its letters as a pattern."""
    return re.sub(r"([\\{}\[\]*?^])", r"\\\1", path)


_LISTED = re.compile(
    r"Status\{path=(?P<path>.*?); isDirectory=(?P<folder>true|false)(; length=(?P<size>\d+))?; .*?"
    r"(eTag='?\"?(?P<etag>[\w-]*).*?)?(?=, \w*Status\{path=|\]$)",
    re.DOTALL,
)


@dataclass(frozen=True)
class Listed:
    """One entry of a folder: its name, its size in bytes (0 for a folder), and its ETag where the store has one."""

    name: str
    folder: bool
    size: int
    etag: str | None


def parse_listing(text: str) -> list[Listed]:
    """Return the entries in the text of Java's list of `FileStatus`, sorted by name."""
    found = [
        Listed(
            entry["path"].rpartition("/")[2],
            entry["folder"] == "true",
            int(entry["size"] or 0),
            None if entry["etag"] in (None, "", "null") else entry["etag"],
        )
        for entry in _LISTED.finditer(text)
    ]
    return sorted(found, key=lambda listed: listed.name)


@dataclass(frozen=True)
class Storage:
    """Hadoop's file systems, as Python."""

    spark: SparkSession

    def exists(self, path: str) -> bool:
        """Return whether a file or folder exists."""
        system, location = self._at(path)
        return bool(system.exists(location))

    def listing(self, folder: str) -> list[Listed]:
        """Return the entries of a folder, sorted by name; none if it does not exist.

        The whole listing crosses from Java as one text. A call for each field of each file took most of a large audit's start.
        """
        system, location = self._at(folder)
        if not system.exists(location):
            return []
        statuses = self._java.org.apache.hadoop.util.functional.RemoteIterators.toList(
            system.listStatusIterator(location)
        )
        return parse_listing(str(statuses.toString()))

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder, sorted; empty if the folder does not exist."""
        return [listed.name for listed in self.listing(folder)]

    def files(self, folder: str) -> dict[str, int]:
        """Return the files below a folder with their sizes in bytes, sorted. Names that begin with `_` or `.` are left out.

        Raises AuditRefused if `folder` is a file.
        """
        system, location = self._at(folder)
        if system.exists(location) and system.getFileStatus(location).isFile():
            raise AuditRefused(f"{folder} is a file and must be a folder. Create the folder and move the file into it.")
        found: dict[str, int] = {}
        for listed in self.listing(folder):
            if not listed.name.startswith(("_", ".")):
                path = f"{folder}/{listed.name}"
                found |= self.files(path) if listed.folder else {path: listed.size}
        return dict(sorted(found.items()))

    def read_text(self, path: str) -> str | None:
        """Return the text of a small file; None if it does not exist. Raises AuditRefused if it is a folder."""
        system, location = self._at(path)
        if not system.exists(location):
            return None
        if system.getFileStatus(location).isDirectory():
            raise AuditRefused(f"{path} is a folder and must be a file. Remove it, or copy the file again.")
        stream = system.open(location)
        try:
            content = self._java.org.apache.commons.io.IOUtils.toByteArray(stream)
        finally:
            stream.close()
        return bytes(content).decode("utf-8", errors="replace")

    def read_start(self, path: str, size: int) -> bytes:
        """Return the first bytes of a file, at most `size`."""
        system, location = self._at(path)
        stream = system.open(location)
        try:
            return bytes(stream.readNBytes(size))
        finally:
            stream.close()

    def create_text(self, path: str, text: str) -> bool:
        """Write a new text file. Return False if there is one, and leave it."""
        if (file := self.on_this_machine(path)) is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            try:
                with file.open("x") as new:
                    new.write(text)
            except FileExistsError:
                return False
            return True
        if self.exists(path):
            return False
        self.write_text(path, text)
        return True

    def write_text(self, path: str, text: str) -> None:
        """Write a text file in one step."""
        self.write(path, text.encode())

    def write(self, path: str, content: bytes) -> None:
        """Write a file in one step, so that readers see the old file or all of the new one."""
        aside = f"{path}.incomplete"
        system, location = self._at(aside)
        stream = system.create(location, True)
        try:
            stream.write(bytearray(content))
        finally:
            stream.close()
        self.delete(path)
        self.rename(aside, path)

    def md5(self, path: str) -> str:
        """Return the MD5 of a file as Base64. Java computes it where the file is read."""
        system, location = self._at(path)
        stream = system.open(location, 1 << 20)
        try:
            digest = self._java.org.apache.commons.codec.digest.DigestUtils.md5(stream)
        finally:
            stream.close()
        return base64.b64encode(bytes(digest)).decode()

    def on_this_machine(self, folder: str) -> Path | None:
        """Return the folder if it is on a disk of this machine, else None."""
        system, location = self._at(folder)
        return Path(system.makeQualified(location).toUri().getPath()) if system.getScheme() == "file" else None

    def rename(self, source: str, target: str) -> None:
        """Move a file or folder, in one step where the file system can."""
        system, location = self._at(source)
        if not system.rename(location, self._path(target)):
            raise OSError(f"{source} could not be renamed to {target}")

    def delete(self, path: str) -> None:
        """Delete a file or folder if it exists."""
        system, location = self._at(path)
        system.delete(location, True)

    @property
    def _java(self) -> Any:
        return self.spark._jvm

    @cached_property
    def _path(self) -> Any:
        # Cached: looking up a Java class takes five calls.
        return self._java.org.apache.hadoop.fs.Path

    @cached_property
    def _configuration(self) -> Any:
        return self.spark._jsc.hadoopConfiguration()

    def _at(self, path: str) -> tuple[Any, Any]:
        location = self._path(path)
        system = location.getFileSystem(self._configuration)
        # Without .crc files: nothing reads them, and they would make equal data look different.
        system.setWriteChecksum(False)
        return system, location
