"""The Lambda function's code: a folder, `oneslot.runtime` and the folder's pinned packages; the same on every machine."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import jsii
from aws_cdk import Annotations, AssetHashType, BundlingOptions, DockerImage, ILocalBundling
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from oneslot.cdk.asset.imports import missing_imports
from oneslot.cdk.asset.vendoring import vendored_files
from oneslot.cdk.numbers import ContradictorySettings

LIBRARY = Path(__file__).resolve().parents[2]
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
    if not _may_have(files[0], function):
        raise ContradictorySettings(
            f"handler {handler!r} needs the name {function} in {files[0]}; correct handler or file"
        )
    asset = asset_files(source)
    if scope:
        _warn_of_missing_imports(scope, source, asset)
    return code_of(asset, source)


def _warn_of_missing_imports(scope: Construct, source: Path, asset: Mapping[PurePosixPath, bytes]) -> None:
    for name, file in missing_imports(source_files(source), asset).items():
        Annotations.of(scope).add_warning_v2(
            f"oneslot:missing-import-{name}",
            f"{source / file} imports {name}, which the function's asset does not have. "
            f"Pin its package, with hashes, in {source / REQUIREMENTS}.",
        )


def _may_have(file: Path, name: str) -> bool:
    """Return whether the module's text has the name, or binds names in a way that only running it shows."""
    anything = r"import \*|\b(?:__getattr__|globals|setattr|exec)\b"
    return bool(re.search(rf"\b{re.escape(name)}\b|{anything}", file.read_text(encoding="utf-8-sig")))


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
