"""`oneslot` and `python -m oneslot`. Loading everything takes a second or more, and may be interrupted as well."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import NoReturn

INTERRUPTED = 130
"""The exit status of whoever was interrupted, as shells have it."""


def main() -> None:
    """Run the command line of this process and exit."""
    _fill_what_is_closed()
    try:
        from oneslot.cli import main as command_line
    except KeyboardInterrupt:
        _end("Interrupted.", INTERRUPTED)
    except ModuleNotFoundError as error:
        # `pip install .` brings the library and this command, and not what the command needs.
        if (error.name or "oneslot").partition(".")[0] == "oneslot":
            raise
        _end(
            f"The command needs {error.name}, which is not installed here. In the repository: make, then "
            "source .venv/bin/activate.",
            1,
        )
    command_line()


def _fill_what_is_closed() -> None:
    """Give a stream that is closed (None to Python) to nobody; else the next file or socket would get its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - to the end of the process


def _end(told: str, status: int) -> NoReturn:
    sys.stderr.write(f"Error: {told}\n")
    if "--json" in sys.argv:
        sys.stdout.write(json.dumps({"error": told}, indent=2) + "\n")
    sys.exit(status)


if __name__ == "__main__":
    main()
