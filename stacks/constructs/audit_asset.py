"""The audit's code as Glue takes it: one script, and a zip of the packages that it imports. Nothing is copied by hand."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path, PurePosixPath

from aws_cdk import AssetHashType, BundlingOptions, DockerImage
from aws_cdk import aws_s3_assets as s3_assets
from constructs import Construct

from stacks.constructs.lambda_asset import WriteFiles, asset_hash, source_files
from stacks.vendoring import VendoringProblem, read_pins

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "stacks" / "scripts" / "audit_on_glue.py"
PACKAGES = {"pipeline": ROOT / "pipeline", "appointments": ROOT / "lambda_src" / "appointments"}
"""What goes into the zip, by the name under which it is imported. The invariants are in `appointments`."""

MODULES = {
    ROOT: ("oneslot/__init__.py", "oneslot/dead_letters.py", "oneslot/queues.py"),
    ROOT / "lambda_src": tuple(
        f"exactly_once/{name}.py" for name in ("__init__", "effects", "identity", "ordering", "quarantine")
    ),
}
"""And single modules, by where they are: how dead letters are read, and what of the consumer that needs."""

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
    files |= {
        PurePosixPath(module): (root / module).read_bytes() for root, modules in MODULES.items() for module in modules
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
        path=str(PACKAGES["pipeline"]),
        asset_hash=asset_hash(files),
        asset_hash_type=AssetHashType.CUSTOM,
        bundling=BundlingOptions(image=DockerImage.from_registry("not-used"), local=WriteFiles(files)),
    )
