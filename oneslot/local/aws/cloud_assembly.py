"""CDK's cloud assembly, as far as a deployment needs it: stacks, templates and file assets."""

import io
import json
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oneslot.errors import SynthesisFailed

_STACK = "aws:cloudformation:stack"
_ASSETS = "cdk:asset-manifest"
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time in a zip; a fixed one gives equal bytes for equal files


@dataclass(frozen=True)
class FileAsset:
    """A file or folder that the template refers to by bucket and key."""

    source: Path
    zipped: bool  # a folder, to be zipped
    bucket: str  # bucket and key may contain ${AWS::AccountId}, ${AWS::Region} and ${AWS::Partition}
    key: str

    def content(self) -> bytes:
        """Return the bytes to upload."""
        if not self.zipped:
            return self.source.read_bytes()
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for path in sorted(self.source.rglob("*")):
                if path.is_file():
                    entry = zipfile.ZipInfo(path.relative_to(self.source).as_posix(), _EPOCH)
                    entry.external_attr = (path.stat().st_mode & 0o777) << 16
                    archive.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)
        return content.getvalue()


@dataclass(frozen=True)
class SynthesisedStack:
    """One stack of the assembly."""

    name: str
    template: dict[str, Any]
    assets: tuple[FileAsset, ...]
    warnings: tuple[str, ...] = ()
    """What `cdk synth` would print."""


def read_stack(assembly: Path, name: str) -> SynthesisedStack:
    """Read one stack from a cloud assembly folder. Raises `SynthesisFailed` if the assembly does not have it."""
    artifacts = json.loads((assembly / "manifest.json").read_text())["artifacts"]
    stacks = {
        artifact["properties"].get("stackName", artifact_id): artifact
        for artifact_id, artifact in artifacts.items()
        if artifact["type"] == _STACK
    }
    if name not in stacks:
        raise SynthesisFailed(
            f"The CDK app has no stack named {name}; it has: {', '.join(sorted(stacks)) or 'none'}. "
            "Choose another stage, or check the stack's name in app.py."
        )
    template_file = stacks[name]["properties"]["templateFile"]
    manifests = [
        artifacts[dependency]["properties"]["file"]
        for dependency in stacks[name].get("dependencies", [])
        if artifacts[dependency]["type"] == _ASSETS
    ]
    return SynthesisedStack(
        name=name,
        template=json.loads((assembly / template_file).read_text()),
        assets=tuple(
            asset
            for manifest in manifests
            for asset in _read_assets(assembly, manifest)
            if asset.source != assembly / template_file
        ),
        warnings=tuple(_read_warnings(assembly, stacks[name])),
    )


def _read_warnings(assembly: Path, stack: dict[str, Any]) -> Iterator[str]:
    """Yield each warning without the id by which an app may acknowledge it. Newer CDK has them in a file of their own."""
    file = stack.get("additionalMetadataFile")
    metadata = json.loads((assembly / file).read_text()) if file else stack.get("metadata", {})
    for entries in metadata.values():
        for entry in entries:
            if entry["type"] == "aws:cdk:warning":
                yield str(entry["data"]).partition(" [ack: ")[0]


def _read_assets(assembly: Path, manifest: str) -> list[FileAsset]:
    document = json.loads((assembly / manifest).read_text())
    if document.get("dockerImages"):
        raise SynthesisFailed("The CDK app has Docker image assets, which the local run cannot build. Use file assets.")
    return [
        FileAsset(
            source=assembly / asset["source"]["path"],
            zipped=asset["source"]["packaging"] == "zip",
            bucket=destination["bucketName"],
            key=destination["objectKey"],
        )
        for asset in document.get("files", {}).values()
        for destination in asset["destinations"].values()
    ]
