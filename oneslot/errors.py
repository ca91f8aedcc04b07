"""Errors whose text is shown to the user."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, requires


class OneslotError(Exception):
    """`str(error)` says in whole sentences what is wrong and what to do. Exit status 1."""

    exit_code = 1


class BadInput(OneslotError):
    """An argument or a file that cannot be used. Exit status 2, as for any usage error."""

    exit_code = 2


def how_to_install(error: BaseException) -> str | None:
    """Return which extra brings the package that an import did not find; None if no extra brings it."""
    if not isinstance(error, ModuleNotFoundError) or error.name is None:
        return None
    package = error.name.partition(".")[0].replace("_", "-")
    try:
        requirements = requires("oneslot") or ()
    except PackageNotFoundError:  # run from the source, and not installed
        return None
    for requirement in requirements:
        found = re.match(r"([\w-]+).*extra == ['\"](\w+)['\"]", requirement)
        if found and found[1] == package:
            return f"{package} is missing; run: pip install 'oneslot[{found[2]}]'"
    return None
