"""Measurements. Each prints its figures, ours beside the peers', in one run."""

import sys
from types import TracebackType


def _interrupted(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """An interrupt while a benchmark is still loaded, before `benchmarks.ending` sees it, ends as one later does."""
    if not issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
        return
    sys.stderr.write("Interrupted.\n")
    sys.exit(130)


if sys.argv[:1] == ["-m"]:  # Python has that there while it looks for the module that is to be run, and only then
    sys.excepthook = _interrupted
