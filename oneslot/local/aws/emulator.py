"""The Python that runs the emulator: this one where it has the pinned ministack, else one in an environment of its own.

Ministack pins botocore to one version. Beside a project's packages it would choose the project's boto3.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from oneslot.errors import EmbeddedAwsFailed

PINNED = Path(__file__).with_name("emulator.txt")
"""What `make lock` resolved and hashed from pyproject.toml."""


def emulator_python(progress: Callable[[str], None] = lambda _: None) -> Path:
    """Return the Python to run the emulator with. On first use, install it for this user.

    Raises `EmbeddedAwsFailed` if that fails.
    """
    text = PINNED.read_text(encoding="utf-8")
    if f"ministack=={_installed_version()} " in text:
        return Path(sys.executable)
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    environment = cache_folder() / f"emulator-{digest}-{sys.implementation.cache_tag}"
    python = environment / "bin" / "python"
    if not python.exists():
        progress(f"Installing the embedded AWS, once, into {environment} (10 s)...")
        _install(environment)
    return python


def cache_folder() -> Path:
    """Return this user's folder for what can be made again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "oneslot"


def _installed_version() -> str | None:
    try:
        return version("ministack")
    except PackageNotFoundError:
        return None


def _install(environment: Path) -> None:
    environment.parent.mkdir(parents=True, exist_ok=True)
    # Made beside it and moved, so that an interrupted installation leaves nothing that looks complete.
    with tempfile.TemporaryDirectory(prefix="making-", dir=environment.parent) as folder:
        made = Path(folder, "environment")
        _run(sys.executable, "-m", "venv", made)
        _run(
            *(made / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"),
            *("--only-binary=:all:", "--require-hashes", "--requirement", PINNED),
        )
        shutil.rmtree(environment, ignore_errors=True)  # its Python is gone
        made.rename(environment)


def _run(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = [line for line in re.split(r"\n+", f"{done.stdout}\n{done.stderr}") if line.strip()] or ["no reason"]
        # pip's last error, or the first line of `venv`, such as that the system's package python3-venv is missing.
        reason = next((line for line in reversed(said) if line.startswith(("ERROR: ", "Error: "))), said[0])
        raise EmbeddedAwsFailed(
            f"The embedded AWS is installed on first use, and that failed: {reason.partition(': ')[2] or reason} "
            f"Connect to the network and repeat the command, or run: pip install --require-hashes -r {PINNED}"
        )
