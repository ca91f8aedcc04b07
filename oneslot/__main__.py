"""`oneslot` and `python -m oneslot`. Loading everything takes a second or more, and may be interrupted as well."""

from __future__ import annotations

import json
import sys

INTERRUPTED = 130
"""The exit status of whoever was interrupted, as shells have it."""


def main() -> None:
    """Run the command line of this process and exit."""
    try:
        from oneslot.cli import main as command_line
    except KeyboardInterrupt:
        sys.stderr.write("Error: Interrupted.\n")
        if "--json" in sys.argv:
            sys.stdout.write(json.dumps({"error": "Interrupted."}, indent=2) + "\n")
        sys.exit(INTERRUPTED)
    command_line()


if __name__ == "__main__":
    main()
