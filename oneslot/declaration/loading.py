"""Import what the user names. A fault in the user's module is reported as the user's, by file and line."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from oneslot.errors import NotImportable, how_to_install, name_fault


def load_name(subject: str, module: str, name: str, remedy: str) -> Any:
    """Return `name` of `module`. Whatever the module raises becomes `NotImportable`, which begins with `subject`.

    `remedy` is a sentence for a module or a name that does not exist.
    """
    if not module or module.startswith("."):
        raise NotImportable(f"{subject}: it names no module. {remedy}")
    try:
        imported = import_module(module)
    except ImportError as error:
        missing = (error.name or "") if isinstance(error, ModuleNotFoundError) else ""
        if missing.partition(".")[0] not in ("", module.partition(".")[0]):
            remedy = how_to_install(error) or f"Install {missing}."
        raise NotImportable(f"{subject}: {error}. {remedy}") from error
    except (Exception, SystemExit) as error:
        raise NotImportable(
            f"{subject}: importing it raised {name_fault(error)}. Correct the module, or its environment: the command "
            "has none of the function's variables."
        ) from error
    if not hasattr(imported, name):
        raise NotImportable(f"{subject}: {getattr(imported, '__file__', None) or module} has no {name}. {remedy}")
    return getattr(imported, name)
