"""Errors whose text is shown to the user."""

from __future__ import annotations

import re
import sysconfig
import traceback
from importlib.metadata import PackageNotFoundError, requires
from importlib.util import find_spec
from pathlib import Path

PACKAGES = {"aws-cdk": "aws-cdk-lib", "py4j": "pyspark", "yaml": "pyyaml"}
"""The packages that are not named like their modules, or that bring the package of the module."""

_NOT_YOURS = (str(Path(__file__).parent), *(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")), "<")


class OneslotError(Exception):
    """`str(error)` says in whole sentences what is wrong and what to do. Exit status 1."""

    exit_code = 1


class BadInput(OneslotError):
    """An argument or a file that cannot be used. Exit status 2, as for any usage error."""

    exit_code = 2


def place_in_your_code(error: BaseException) -> str | None:
    """Return `file:line` of the innermost frame outside Oneslot, Python and installed packages; None without one."""
    frames = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    if isinstance(error, SyntaxError) and error.filename:
        frames.append((error.filename, error.lineno))
    yours = [f"{name}:{line}" for name, line in frames if not name.startswith(_NOT_YOURS)]
    return yours[-1] if yours else None


def name_fault(error: BaseException) -> str:
    """Return class and place of an error in the user's code, without its message, which may quote personal data."""
    place = place_in_your_code(error)
    return type(error).__name__ + (f" at {place}" if place else "")


def how_to_install(error: BaseException) -> str | None:
    """Return which extra brings the package that an import did not find; None if no extra brings it."""
    if not isinstance(error, ModuleNotFoundError) or error.name is None:
        return None
    package = _package_of(error.name)
    try:
        requirements = requires("oneslot") or ()
    except PackageNotFoundError:  # run from the source, and not installed
        return None
    for requirement in requirements:
        found = re.match(r"([\w-]+).*extra == ['\"](\w+)['\"]", requirement)
        if found and found[1] == package:
            return missing_package(package, found[2])
    return None


def require_module(module: str, extra: str) -> None:
    """Raise `BadInput` with the extra to install if a module is missing, before a verb works in vain."""
    if not find_spec(module):
        raise BadInput(missing_package(_package_of(module), extra))


def missing_package(package: str, extra: str) -> str:
    """Return the sentence for a package that is not installed, and the extra of Oneslot that brings it."""
    return f"{package} is missing; run: pip install 'oneslot[{extra}]'"


def _package_of(module: str) -> str:
    name = module.partition(".")[0].replace("_", "-")
    return PACKAGES.get(name, name)
