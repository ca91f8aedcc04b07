"""CSV files of other people: rows with their line numbers, and sentences for what is not CSV at all."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from oneslot.errors import BadInput

# Longer than any field of the files that are read here; a binary file soon exceeds it.
csv.field_size_limit(65_536)


def rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield `(line number, fields)` for each row that is not empty. One row is held at a time.

    Names of practices may be in any encoding, and are only shown: bytes that are not UTF-8 become question marks.
    Raises `BadInput` for a file that cannot be opened or is no text.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig", errors="replace") as file:
            reader = csv.reader(file)
            for fields in reader:
                if any("\x00" in field for field in fields):
                    raise BadInput(_no_text(path))
                if fields:
                    yield reader.line_num, fields
    except csv.Error as error:
        raise BadInput(_no_text(path)) from error
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}.") from error


def _no_text(path: Path) -> str:
    return f"{path} is not a CSV text file. If it is a zip file, unpack it and give the .csv inside."
