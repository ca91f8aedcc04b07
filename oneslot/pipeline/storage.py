"""Files, wherever Spark can reach them: a folder on this machine, HDFS, or a bucket on a service that brings its own driver.

Everything goes through Hadoop's file system interface, which every Spark has; nothing here knows a service.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pyspark.sql import SparkSession

from oneslot.pipeline.errors import AuditRefused

HALF_COPIED = "._COPYING_"
"""Hadoop's ending of a file until it is there. Spark passes over such files and says nothing."""


def literal(path: str) -> str:
    """A path as Spark must be given it to read: as it stands, some of its letters would be a pattern."""
    return re.sub(r"([\\{}\[\]*?^])", r"\\\1", path)


def refuse_half_copied(path: str) -> None:
    """Raise AuditRefused for a file that is not there yet."""
    if path.endswith(HALF_COPIED):
        raise AuditRefused(
            f"{path.removesuffix(HALF_COPIED)} is still being copied, or its copy failed: what ends in {HALF_COPIED} "
            "is not read. Wait until it is there, or copy it again, and remove what is left."
        )


@dataclass(frozen=True)
class Storage:
    """Hadoop's file systems, as Python."""

    spark: SparkSession

    def exists(self, path: str) -> bool:
        """Whether there is a file or folder."""
        system, location = self._at(path)
        return bool(system.exists(location))

    def names(self, folder: str) -> list[str]:
        """The names in a folder, sorted; empty if there is no such folder."""
        system, location = self._at(folder)
        if not system.exists(location):
            return []
        return sorted(str(status.getPath().getName()) for status in system.listStatus(location))

    def files(self, folder: str) -> dict[str, int]:
        """The files in a folder and in the folders within it, sorted, and their bytes; not what begins with `_` or `.`.

        Raises AuditRefused if it is a file, and where one of them is not whole.
        """
        system, location = self._at(folder)
        if system.exists(location) and system.getFileStatus(location).isFile():
            raise AuditRefused(
                f"{folder} is a file, and should be a folder. Make that folder, and put the file into it."
            )
        found: dict[str, int] = {}
        for status in system.listStatus(location) if system.exists(location) else ():
            path = f"{folder}/{status.getPath().getName()}"
            if path.removeprefix(f"{folder}/").startswith(("_", ".")):
                continue
            refuse_half_copied(path)
            found |= self.files(path) if status.isDirectory() else {path: int(status.getLen())}
        return dict(sorted(found.items()))

    def whole_name(self, path: str) -> str:
        """A path by which it is known however it was named: with its file system, from its root, and not round about."""
        system, location = self._at(path)
        return str(system.makeQualified(location).toString())

    def read_text(self, path: str) -> str | None:
        """The text of a small file, or None if there is none. Raises AuditRefused if it is a folder."""
        system, location = self._at(path)
        if not system.exists(location):
            return None
        if system.getFileStatus(location).isDirectory():
            raise AuditRefused(f"{path} is a folder, and should be a file. Move it away, or copy that file again.")
        stream = system.open(location)
        try:
            content = self._java.org.apache.commons.io.IOUtils.toByteArray(stream)
        finally:
            stream.close()
        return bytes(content).decode("utf-8", errors="replace")

    def write_text(self, path: str, text: str) -> None:
        """Write a file in one step: readers see all of it, or the one before, or none."""
        aside = f"{path}.incomplete"
        system, location = self._at(aside)
        stream = system.create(location, True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        self.delete(path)
        self.rename(aside, path)

    def md5(self, path: str) -> str:
        """Base64 of the MD5 of a file, computed where the file is read and not in Python."""
        system, location = self._at(path)
        stream = system.open(location, 1 << 20)
        try:
            digest = self._java.org.apache.commons.codec.digest.DigestUtils.md5(stream)
        finally:
            stream.close()
        return base64.b64encode(bytes(digest)).decode()

    def rename(self, source: str, target: str) -> None:
        """Move a file or folder; in one step where the file system can."""
        system, location = self._at(source)
        if not system.rename(location, self._path(target)):
            raise OSError(f"{source} could not be renamed to {target}")

    def delete(self, path: str) -> None:
        """Delete a file or a whole folder, if it is there."""
        system, location = self._at(path)
        system.delete(location, True)

    def make_folder(self, path: str) -> None:
        """Make a folder and those above it."""
        system, location = self._at(path)
        system.mkdirs(location)

    @property
    def _java(self) -> Any:
        return self.spark._jvm

    # A name of Java's is five questions to it, and each looks through every library for a class that is not there.
    @cached_property
    def _path(self) -> Any:
        """Hadoop's class of paths."""
        return self._java.org.apache.hadoop.fs.Path

    @cached_property
    def _configuration(self) -> Any:
        return self.spark._jsc.hadoopConfiguration()

    def _at(self, path: str) -> tuple[Any, Any]:
        location = self._path(path)
        system = location.getFileSystem(self._configuration)
        # No .crc files beside ours: they would make equal data look different, and nothing reads them.
        system.setWriteChecksum(False)
        return system, location
