"""The Lambda function's code: the `lambda_src` tree, `oneslot.runtime` and the pinned packages, the same on every machine."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import jsii
from aws_cdk import AssetHashType, BundlingOptions, DockerImage, ILocalBundling
from aws_cdk import aws_lambda as lambda_

from stacks.shared.vendoring import vendored_files

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "lambda_src"
LIBRARY = ROOT / "oneslot"

_LEFT_OUT_FOLDERS = frozenset({"__pycache__", "tests"})
_LEFT_OUT_FILES = frozenset({"requirements.in", "requirements.txt"})


def lambda_code(source: Path = SOURCE) -> lambda_.Code:
    """`source` as a Lambda asset. Raises `VendoringProblem` if its `requirements.txt` cannot be satisfied.

    The hash is that of the files that go in, so an unchanged asset is neither bundled nor uploaded again.
    """
    return code_of(asset_files(source), source)


def code_of(files: Mapping[PurePosixPath, bytes], source: Path) -> lambda_.Code:
    """These files as a Lambda asset; `source` is the folder that CDK names it after."""
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


def asset_files(source: Path = SOURCE) -> dict[PurePosixPath, bytes]:
    """Every file of the asset by its path in it, sorted. The source's own files win over a package's."""
    files = {**vendored_files(source / "requirements.txt"), **runtime_files(), **source_files(source)}
    return dict(sorted(files.items()))


def runtime_files() -> dict[PurePosixPath, bytes]:
    """Return `oneslot.runtime` as the asset holds it: the package's own `__init__.py`, and nothing of the tools beside it."""
    files = {
        PurePosixPath("oneslot/runtime") / path: content for path, content in source_files(LIBRARY / "runtime").items()
    }
    return {PurePosixPath("oneslot/__init__.py"): (LIBRARY / "__init__.py").read_bytes(), **files}


def asset_hash(files: Mapping[PurePosixPath, bytes]) -> str:
    """SHA-256, in hex, over all paths and contents."""
    digest = hashlib.sha256()
    for path, content in files.items():
        digest.update(f"{path}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def source_files(source: Path) -> dict[PurePosixPath, bytes]:
    """The files of a source folder, without what Python and tools leave behind."""
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
    """Bundling by writing files. CDK calls it, with an empty folder, only when its output folder lacks the asset."""

    def __init__(self, files: Mapping[PurePosixPath, bytes]) -> None:
        self._files = files

    def try_bundle(self, output_dir: str, *_: Any, **__: Any) -> bool:
        """Write the files; always True, so that CDK never looks for Docker."""
        for path, content in self._files.items():
            target = Path(output_dir, path)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
            target.chmod(0o644)  # Lambda reads the code as another user, whatever the umask was here
        return True
