"""The pinned packages of the Lambda asset, from a hashed requirements file to their files. No Docker, no CDK.

The asset holds the code that the tests ran. An installed package is copied if it has the pinned version, every file matches
its wheel's RECORD, and nothing in it is compiled. Otherwise pip fetches the wheel and checks its hash. boto3 is not among the
packages: the Lambda runtime brings it. An asset of `oneslot up` runs on this machine, so it has this machine's binaries.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path, PurePosixPath

PIP_TIMEOUT_SECONDS = 300
LOCAL_VARIABLE = "ONESLOT_LOCAL_ASSET"
"""The environment variable with which `oneslot up` asks for an asset that runs on this machine."""
# Lambda's Python 3.14 runs on Amazon Linux 2023, whose glibc is 2.34. pip takes only the tags that it is given, and some
# packages have wheels of newer tags alone: numpy has manylinux_2_28.
_GLIBC = range(17, 35)
_FOR_LAMBDA = (
    *("--implementation", "cp", "--python-version", "3.14", "--platform", "manylinux2014_aarch64"),
    *(f"--platform=manylinux_2_{minor}_aarch64" for minor in _GLIBC),
)

# A requirement of PEP 508 that names one version: spaces are allowed between its parts.
_PIN = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[[^\]]*\]\s*)?\(?\s*===?\s*([^\s;,)]+)\s*\)?\s*(?=;|--hash|$)")
_HASH = re.compile(r"\s--hash[=\s]")
_OPTION = re.compile(r"-(?!(r|c|e|-requirement|-constraint|-editable)\b)")
_REMEDY = "write it by `uv pip compile --generate-hashes requirements.in -o requirements.txt`"
# Of a wheel's metadata only the files that licences require; the rest differs between installers.
_KEPT_METADATA = re.compile(r"[^/]+\.dist-info/(METADATA|(licenses/.+|LICEN[CS]E[^/]*|NOTICE[^/]*|COPYING[^/]*))")


class VendoringProblem(ValueError):
    """A pinned package that cannot go into the asset. The message names the package and the remedy."""


@dataclass(frozen=True, slots=True)
class Pin:
    """One line of the requirements file."""

    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.name}=={self.version}"


def read_pins(requirements: Path) -> tuple[Pin, ...]:
    """Return the pins of a hashed requirements file, in its order.

    Raises `VendoringProblem` if it has none, a line that pins nothing, or a pin without a hash.
    """
    try:
        text = requirements.read_text(encoding="utf-8-sig")
    except OSError as problem:
        raise VendoringProblem(f"cannot read {requirements}: {problem.strerror}; correct its permissions") from None
    except UnicodeDecodeError:
        raise VendoringProblem(f"{requirements} is not UTF-8 text; save it as UTF-8") from None
    lines = [re.sub(r"(^|\s)#.*", "", line).strip() for line in text.replace("\\\n", " ").splitlines()]
    lines = [line for line in lines if line and not _OPTION.match(line)]
    pins, without = [], []
    for line in lines:
        found = _PIN.match(line)
        if not found:
            raise VendoringProblem(f"{requirements} pins no version in the line {line!r}; {_REMEDY}")
        pins.append(Pin(found[1], found[2]))
        if not _HASH.search(line):
            without.append(str(pins[-1]))
    if not pins:
        raise VendoringProblem(f"{requirements} pins no package; {_REMEDY}, or remove it")
    if without:
        raise VendoringProblem(f"{requirements} has no hash for {', '.join(without)}; {_REMEDY}")
    return tuple(pins)


def vendored_files(requirements: Path, search_path: Sequence[str] | None = None) -> dict[PurePosixPath, bytes]:
    """Return the files of all pinned packages, by their path below an import root.

    `search_path` has the installed packages (default: `sys.path`). Raises `VendoringProblem`.
    """
    pins = read_pins(requirements)
    installed = [_installed_files(pin, search_path) for pin in pins]
    if all(files is not None for files in installed):
        return {path: content for files in installed if files for path, content in files.items()}
    return _fetched_files(requirements)


def _installed_files(pin: Pin, search_path: Sequence[str] | None) -> dict[PurePosixPath, bytes] | None:
    """Return the files of the installed package; None if it is missing, of another version, or compiled for elsewhere."""
    package = _find(pin, search_path)
    if package is None or package.version != pin.version or package.files is None:
        return None
    if not _for_this_machine() and "Root-Is-Purelib: true" not in (package.read_text("WHEEL") or ""):
        return None
    files = {}
    for file in package.files:
        if not _belongs(PurePosixPath(file)):
            continue
        content = Path(str(file.locate())).read_bytes()
        if file.hash and _digest(file.hash.mode, content) != file.hash.value:
            raise VendoringProblem(
                f"{file} of the installed {pin} differs from its wheel; reinstall it: "
                f"pip install --force-reinstall --no-deps {pin}"
            )
        files[PurePosixPath(file)] = content
    return files


def _find(pin: Pin, search_path: Sequence[str] | None) -> Distribution | None:
    if search_path is not None:
        return next(iter(Distribution.discover(name=pin.name, path=list(search_path))), None)
    try:
        return distribution(pin.name)
    except PackageNotFoundError:
        return None


def _for_this_machine() -> bool:
    return bool(os.environ.get(LOCAL_VARIABLE))


def _fetched_files(requirements: Path) -> dict[PurePosixPath, bytes]:
    """Return the same files by pip, from wheels for where the asset will run."""
    platform, where = ((), "this machine") if _for_this_machine() else (_FOR_LAMBDA, "Lambda's Python 3.14 on ARM")
    with tempfile.TemporaryDirectory() as folder:
        command = [
            *(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"),
            *("--require-hashes", "--no-deps", "--only-binary=:all:", "--no-compile"),
            *platform,
            *("--requirement", str(requirements), "--target", folder),
        ]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=PIP_TIMEOUT_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            raise VendoringProblem(
                f"pip did not fetch {requirements} within {PIP_TIMEOUT_SECONDS} s; check the network, or install it first: "
                f"pip install --require-hashes -r {requirements}"
            ) from None
        if done.returncode:
            said = done.stderr.strip().splitlines() or ["no reason"]
            reason = next((line for line in reversed(said) if line.startswith("ERROR: ")), said[-1])
            raise VendoringProblem(
                f"pip cannot fetch {requirements} for {where} ({reason.removeprefix('ERROR: ')}); "
                "check the network, and that each package has a wheel for it"
            )
        return dict(_tree(Path(folder)))


def _tree(folder: Path) -> Iterator[tuple[PurePosixPath, bytes]]:
    for path in sorted(folder.rglob("*")):
        relative = PurePosixPath(path.relative_to(folder).as_posix())
        if path.is_file() and _belongs(relative):
            yield relative, path.read_bytes()


def _belongs(path: PurePosixPath) -> bool:
    if path.is_absolute() or ".." in path.parts or path.parts[0] == "bin":  # scripts
        return False
    if path.parts[0].endswith(".dist-info"):
        return bool(_KEPT_METADATA.fullmatch(str(path)))
    return "__pycache__" not in path.parts and path.suffix != ".pyc"


def _digest(algorithm: str, content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.new(algorithm, content).digest()).rstrip(b"=").decode()
