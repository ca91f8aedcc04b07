"""`python -m verification.scenarios`: the same as `oneslot prove`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from oneslot.cli import run_command
from oneslot.commands.explore import prove


def run(arguments: Sequence[str]) -> int:
    """Run one command line; returns the exit status."""
    return run_command(
        lambda: prove.main(list(arguments), "python -m verification.scenarios", standalone_mode=False),
        as_json="--json" in arguments,
    )


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
