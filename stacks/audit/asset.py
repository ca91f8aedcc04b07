"""The audit's code as Glue takes it: one script, and a zip of the packages that it imports. Nothing is copied by hand."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path, PurePosixPath

from aws_cdk import AssetHashType, BundlingOptions, DockerImage
from aws_cdk import aws_s3_assets as s3_assets
from constructs import Construct

from stacks.shared.lambda_asset import WriteFiles, asset_hash, source_files
from stacks.shared.vendoring import VendoringProblem, read_pins

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "oneslot" / "pipeline" / "glue.py"
PACKAGES = {"oneslot": ROOT / "oneslot", "appointments": ROOT / "lambda_src" / "appointments"}
"""What goes into the zip, by the name under which it is imported: whole packages, so that no list of modules can be wrong."""

REPORT_PACKAGES = ("jinja2", "markupsafe", "plotly")
"""What the report needs and Glue does not promise to bring: the installed ones, which are the pinned ones."""

# Of Plotly only its JavaScript and the few modules that hand it over: the whole has 1,500 files and 39 MB.
_LEFT_OUT = re.compile(
    r"plotly/(validators|graph_objs|graph_objects|labextension|express|figure_factory|matplotlylib|data|api)/"
    r"|plotly/package_data/(datasets|templates|widgetbundle)"
)


def package_files() -> dict[PurePosixPath, bytes]:
    """Every file of the zip by its path in it, sorted. Raises `VendoringProblem` if an installed package is not as pinned."""
    files = {
        PurePosixPath(name) / path: content
        for name, folder in PACKAGES.items()
        for path, content in source_files(folder).items()
    }
    pins = {pin.name: pin.version for pin in read_pins(ROOT / "requirements.txt")}
    for name in REPORT_PACKAGES:
        files |= _installed(name, pins[name])
    return dict(sorted(files.items()))


def _installed(name: str, version: str) -> dict[PurePosixPath, bytes]:
    """Python, JavaScript and licences of an installed package: what is compiled is this machine's, and is done without."""
    try:
        package = distribution(name)
    except PackageNotFoundError:
        raise VendoringProblem(
            f"the audit's report needs {name}=={version}; install it: pip install -r requirements.txt"
        ) from None
    if package.version != version:
        raise VendoringProblem(
            f"{name} {package.version} is installed and {version} is pinned; pip install -r requirements.txt"
        )
    return {
        PurePosixPath(file): Path(str(file.locate())).read_bytes()
        for file in package.files or ()
        if ".." not in file.parts
        and (file.suffix in {".py", ".js"} or "licenses" in file.parts)
        and not _LEFT_OUT.match(str(file))
    }


def audit_script(scope: Construct) -> s3_assets.Asset:
    """What Glue runs."""
    return s3_assets.Asset(scope, "Script", path=str(SCRIPT))


def audit_packages(scope: Construct) -> s3_assets.Asset:
    """What `--extra-py-files` names: CDK zips the folder."""
    files = package_files()
    return s3_assets.Asset(
        scope,
        "Packages",
        path=str(PACKAGES["oneslot"]),
        asset_hash=asset_hash(files),
        asset_hash_type=AssetHashType.CUSTOM,
        bundling=BundlingOptions(image=DockerImage.from_registry("not-used"), local=WriteFiles(files)),
    )
