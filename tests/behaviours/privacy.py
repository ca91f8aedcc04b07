"""Looks for patients' NHS numbers in everything that a run wrote."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from pyarrow import parquet


def written(folder: Path) -> Iterator[tuple[str, str]]:
    """Every file below a folder, as its path and its text: unpacked, and rows of Parquet as JSON."""
    for path in sorted(folder.rglob("*")):
        if not path.is_file():
            continue
        if path.suffix == ".parquet":
            text = json.dumps(parquet.read_table(path).to_pylist(), default=str)
        else:
            content = path.read_bytes()
            text = (gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content).decode("utf-8", "replace")
        yield path.relative_to(folder).as_posix(), text


_OF_THE_RANGE = re.compile(r"(?<![0-9.])999[0-9]{7}(?![0-9])")
_RANDOM = re.compile(r"[0-9A-Fa-f]{12,}")


def of_the_range(text: str) -> list[str]:
    """What stands in a text and looks like a number of the range for tests, from which all synthetic patients' are.

    Left out are decimal fractions, and hexadecimal ids and digests: among thousands one holds such digits by chance.
    """
    return _OF_THE_RANGE.findall(_RANDOM.sub("#", text))


def spelled(numbers: Iterable[str]) -> re.Pattern[str]:
    """A pattern that finds any of these numbers, plain or grouped 3-3-4 with anything that people put between."""
    between = r"[ ._:\\/-]{0,3}"
    grouped = (between.join((number[:3], number[3:6], number[6:])) for number in numbers)
    return re.compile(f"(?<![0-9])(?:{'|'.join(grouped)})(?![0-9])")


def telling(folder: Path, numbers: Iterable[str]) -> list[str]:
    """The files below a folder in which one of the numbers stands."""
    pattern = spelled(numbers)
    return [name for name, text in written(folder) if pattern.search(text)]
