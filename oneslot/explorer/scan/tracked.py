"""The files that git tracks, for copies of them in a folder of a build: `.aws-sam/build` and `cdk.out` are ignored."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Tracked:
    """The tracked files of a repository, each by the hash that git gives its bytes."""

    files: Mapping[str, tuple[Path, ...]] = field(default_factory=dict)

    @classmethod
    def around(cls, folder: Path) -> Tracked:
        """Return the files of the repository that has this folder; none without git or a repository."""
        listing = ["git", "-C", str(folder), "ls-files", "-sz", "--full-name", ":/"]
        top = ["git", "-C", str(folder), "rev-parse", "--show-toplevel"]
        try:
            root, listed = (
                subprocess.run(one, capture_output=True, text=True, check=True).stdout for one in (top, listing)
            )
        except (OSError, subprocess.CalledProcessError, UnicodeDecodeError):
            return cls()
        files: dict[str, tuple[Path, ...]] = {}
        for entry in filter(None, listed.split("\0")):
            about, _, name = entry.partition("\t")
            file = Path(root.rstrip("\n")) / name
            files[about.split()[1]] = (*files.get(about.split()[1], ()), file)
        return cls(files)

    def file(self, file: Path) -> Path:
        """Return the tracked file of the same name and bytes; the file itself if it is tracked, or none is."""
        place = file.resolve()
        content = place.read_bytes() if place.is_file() else b""
        number = hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
        alike = [one for one in self.files.get(number, ()) if one.name == file.name]
        return alike[0] if alike and place not in alike else file

    def folder(self, folder: Path, module: Path) -> Path:
        """Return the folder below which a tracked module is, which is a path below `folder`."""
        found = self.file(folder / module)
        is_below = found != folder / module and found.parts[-len(module.parts) :] == module.parts
        return Path(*found.parts[: -len(module.parts)]) if is_below else folder
