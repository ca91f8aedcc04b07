"""The audit's code as Glue takes it: one script, and a zip of the packages that it imports. Nothing is copied by hand."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from aws_cdk import AssetHashType, BundlingOptions, DockerImage
from aws_cdk import aws_s3_assets as s3_assets
from constructs import Construct

from stacks.constructs.lambda_asset import WriteFiles, asset_hash, source_files

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "stacks" / "scripts" / "audit_on_glue.py"
PACKAGES = {"pipeline": ROOT / "pipeline", "appointments": ROOT / "lambda_src" / "appointments"}
"""What goes into the zip, by the name under which it is imported. The invariants are in `appointments`."""


def package_files() -> dict[PurePosixPath, bytes]:
    """Every file of the zip by its path in it, sorted."""
    files = {
        PurePosixPath(name) / path: content
        for name, folder in PACKAGES.items()
        for path, content in source_files(folder).items()
    }
    return dict(sorted(files.items()))


def audit_script(scope: Construct) -> s3_assets.Asset:
    """What Glue runs."""
    return s3_assets.Asset(scope, "Script", path=str(SCRIPT))


def audit_packages(scope: Construct) -> s3_assets.Asset:
    """What `--extra-py-files` names: CDK zips the folder."""
    files = package_files()
    return s3_assets.Asset(
        scope,
        "Packages",
        path=str(PACKAGES["pipeline"]),
        asset_hash=asset_hash(files),
        asset_hash_type=AssetHashType.CUSTOM,
        bundling=BundlingOptions(image=DockerImage.from_registry("not-used"), local=WriteFiles(files)),
    )
