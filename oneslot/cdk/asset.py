"""The Lambda function's code: a folder, `oneslot.runtime` and the folder's pinned packages; the same on every machine.

The asset holds the code that the tests ran. An installed package is copied if it has the pinned version, every file matches
its wheel's RECORD, and nothing in it is compiled. Otherwise pip fetches the wheel and checks its hash. boto3 is not among the
packages: the Lambda runtime brings it. An asset of `oneslot up` runs on this machine, so it has this machine's binaries.
"""

from __future__ import annotations

import ast
import base64
import hashlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution
from pathlib import Path, PurePosixPath
from typing import Any

import jsii
from aws_cdk import Annotations, AssetHashType, BundlingOptions, DockerImage, ILocalBundling
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from oneslot.cdk.numbers import ContradictorySettings

LIBRARY = Path(__file__).resolve().parents[1]
REQUIREMENTS = "requirements.txt"

_LEFT_OUT_FOLDERS = frozenset({"__pycache__", "tests"})
_LEFT_OUT_FILES = frozenset({"requirements.in", REQUIREMENTS})


def lambda_code(entry: str | Path, handler: str, scope: Construct | None = None) -> lambda_.Code:
    """Return the folder `entry` as a Lambda asset. Its hash is that of its files, so CDK uploads an unchanged asset once.

    Args:
        entry: the import root. Its `requirements.txt`, if any, pins packages with hashes; boto3 is Lambda's.
        handler: the function in it, as Lambda writes it: `app.handler` is `handler` in `app.py`.
        scope: the construct that warns of an import that the asset lacks.

    Raises:
        ContradictorySettings: the folder, the handler's module in it, or the handler in that does not exist.
        VendoringProblem: a package of its `requirements.txt` is neither installed nor available.
    """
    source = Path(entry).resolve()
    module, _, function = handler.rpartition(".")
    module = module.replace(".", "/")
    if not source.is_dir():
        raise ContradictorySettings(f"entry {source} is not a folder; name the folder that holds the handler's module")
    if not module:
        raise ContradictorySettings(f"handler {handler!r} names no module; write it as `module.function`")
    files = [path for path in (source / f"{module}.py", source / module / "__init__.py") if path.is_file()]
    if not files:
        raise ContradictorySettings(
            f"handler {handler!r} needs the file {module}.py in {source}, which does not exist; correct handler or entry"
        )
    # A module can also bind a name in a way that only running it shows.
    anything = r"import \*|\b(?:__getattr__|globals|setattr|exec)\b"
    if not re.search(rf"\b{re.escape(function)}\b|{anything}", files[0].read_text(encoding="utf-8-sig")):
        raise ContradictorySettings(
            f"handler {handler!r} needs the name {function} in {files[0]}; correct handler or file"
        )
    asset = asset_files(source)
    if scope:
        for name, file in missing_imports(source_files(source), asset).items():
            Annotations.of(scope).add_warning_v2(
                f"oneslot:missing-import-{name}",
                f"{source / file} imports {name}, which the function's asset does not have. "
                f"Pin its package, with hashes, in {source / REQUIREMENTS}.",
            )
    return code_of(asset, source)


def code_of(files: Mapping[PurePosixPath, bytes], source: Path) -> lambda_.Code:
    """Return these files as a Lambda asset, named after the folder `source`."""
    return lambda_.Code.from_asset(
        str(source),
        asset_hash=asset_hash(files),
        asset_hash_type=AssetHashType.CUSTOM,
        bundling=BundlingOptions(
            # CDK wants an image even where it is never used: the local bundling below does not fall back to Docker.
            image=DockerImage.from_registry("not-used"),
            local=WriteFiles(files),
        ),
    )


def asset_files(source: Path) -> dict[PurePosixPath, bytes]:
    """Return every file of the asset by its path, sorted. A file of the source wins over a package's."""
    requirements = source / REQUIREMENTS
    packages = vendored_files(requirements) if requirements.exists() else {}
    return dict(sorted({**packages, **runtime_files(), **source_files(source)}.items()))


def runtime_files() -> dict[PurePosixPath, bytes]:
    """Return `oneslot.runtime` by its path in the asset, with `oneslot/__init__.py` and without the tools beside it."""
    files = {
        PurePosixPath("oneslot/runtime") / path: content for path, content in source_files(LIBRARY / "runtime").items()
    }
    return {PurePosixPath("oneslot/__init__.py"): (LIBRARY / "__init__.py").read_bytes(), **files}


def asset_hash(files: Mapping[PurePosixPath, bytes]) -> str:
    """Return the SHA-256, in hex, over all paths and contents."""
    digest = hashlib.sha256()
    for path, content in files.items():
        digest.update(f"{path}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def source_files(source: Path) -> dict[PurePosixPath, bytes]:
    """Return the files of a source folder, without caches, tests and hidden files."""
    files = {}
    for path in source.rglob("*"):
        relative = PurePosixPath(path.relative_to(source).as_posix())
        hidden = any(part.startswith(".") for part in relative.parts)
        left_out = not _LEFT_OUT_FOLDERS.isdisjoint(relative.parts) or relative.name in _LEFT_OUT_FILES
        if path.is_file() and not hidden and not left_out and path.suffix != ".pyc":
            files[relative] = path.read_bytes()
    return files


@jsii.implements(ILocalBundling)
class WriteFiles:
    """Bundling by writing files. CDK calls it, with an empty folder, only if its output folder lacks the asset."""

    def __init__(self, files: Mapping[PurePosixPath, bytes]) -> None:
        self._files = files

    def try_bundle(self, output_dir: str, *_: Any, **__: Any) -> bool:
        """Write the files. Return True, so CDK never looks for Docker."""
        for path, content in self._files.items():
            target = Path(output_dir, path)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
            target.chmod(0o644)  # Lambda reads the code as another user, whatever the umask was here
        return True


OF_LAMBDA = frozenset(
    {"boto3", "botocore", "dateutil", "jmespath", "s3transfer", "six", "urllib3", "awslambdaric", "snapshot_restore_py"}
)
"""What Lambda's Python runtime brings beside the standard library: boto3 with its packages, and the runtime client."""
_CAUGHT = frozenset({"ImportError", "ModuleNotFoundError", "Exception"})


def missing_imports(sources: Mapping[PurePosixPath, bytes], asset: Iterable[PurePosixPath]) -> dict[str, PurePosixPath]:
    """Return each module that `sources` import and neither the asset nor Lambda has, with a file that imports it.

    An import whose failure is caught, or that only a type checker reads, counts as optional.
    """
    found = {path.parts[0].partition(".")[0] for path in asset}
    known = {*found, *OF_LAMBDA, *sys.stdlib_module_names, "__main__"}
    missing: dict[str, PurePosixPath] = {}
    for path, content in sources.items():
        try:
            names = list(_imported(ast.parse(content))) if path.suffix == ".py" else []
        except SyntaxError:  # of a newer Python, such as Lambda's
            continue
        missing |= {name: path for name in names if name not in known and name not in missing}
    return missing


def _imported(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Import():
            yield from (alias.name.partition(".")[0] for alias in node.names)
        case ast.ImportFrom(module=str(module), level=0):
            yield module.partition(".")[0]
        case ast.Try() if any(_names(handler.type) & _CAUGHT or handler.type is None for handler in node.handlers):
            for part in (*node.handlers, *node.orelse, *node.finalbody):
                yield from _imported(part)
        case ast.If() if "TYPE_CHECKING" in _names(node.test):
            for part in node.orelse:
                yield from _imported(part)
        case _:
            for part in ast.iter_child_nodes(node):
                yield from _imported(part)


def _names(node: ast.AST | None) -> set[str]:
    """Return the names in an expression, also those behind a dot."""
    parts = ast.walk(node) if node else ()
    return {str(getattr(part, "id", getattr(part, "attr", ""))) for part in parts}


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
    path = list(sys.path if search_path is None else search_path)
    package = next(iter(Distribution.discover(name=pin.name, path=path)), None)
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
        files = [path for path in sorted(Path(folder).rglob("*")) if path.is_file()]
        found = {PurePosixPath(path.relative_to(folder).as_posix()): path for path in files}
        return {relative: path.read_bytes() for relative, path in found.items() if _belongs(relative)}


def _belongs(path: PurePosixPath) -> bool:
    if path.is_absolute() or ".." in path.parts or path.parts[0] == "bin":  # scripts
        return False
    if path.parts[0].endswith(".dist-info"):
        return bool(_KEPT_METADATA.fullmatch(str(path)))
    return "__pycache__" not in path.parts and path.suffix != ".pyc"


def _digest(algorithm: str, content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.new(algorithm, content).digest()).rstrip(b"=").decode()
