"""The entry of `oneslot` and `python -m oneslot`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line and exit."""
    try:
        from oneslot.operator.cli import main as command_line
    except ModuleNotFoundError as error:
        # `pip install oneslot` brings the library, and not the packages that only the command line needs.
        from oneslot.errors import pip_install

        sys.exit(f"Error: The command line needs {error.name}, which is missing; run: {pip_install('cli')}")
    command_line()


if __name__ == "__main__":
    main()
