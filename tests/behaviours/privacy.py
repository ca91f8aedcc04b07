"""A search for patients' NHS numbers in the files of a run."""

import gzip
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from pyarrow import parquet


def written(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the path and text of every file below a folder: decompressed, and rows of Parquet as JSON."""
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
    """Return the numbers in a text that are of the range for tests, as those of all synthetic patients are.

    Decimal fractions, hexadecimal ids and digests are ignored: among thousands one has such digits by chance.
    """
    return _OF_THE_RANGE.findall(_RANDOM.sub("#", text))


def spelled(numbers: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern for any of these numbers, plain or grouped 3-3-4 with separators."""
    between = r"[ ._:\\/-]{0,3}"
    grouped = (between.join((number[:3], number[3:6], number[6:])) for number in numbers)
    return re.compile(f"(?<![0-9])(?:{'|'.join(grouped)})(?![0-9])")


def telling(folder: Path, numbers: Iterable[str]) -> list[str]:
    """Return the files below a folder that contain one of the numbers."""
    pattern = spelled(numbers)
    return [name for name, text in written(folder) if pattern.search(text)]
