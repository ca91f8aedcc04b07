"""The audit's code for Glue: one script, and a zip of the packages that it imports.

python -m stacks.audit.asset audit.zip       write the zip, for `spark-submit --py-files`
"""

import sys
import zipfile
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path, PurePosixPath

from aws_cdk import AssetHashType, BundlingOptions, DockerImage
from aws_cdk import aws_s3_assets as s3_assets
from constructs import Construct

from oneslot.cdk.asset import VendoringProblem, WriteFiles, asset_hash, read_pins, source_files

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "oneslot" / "audit" / "glue.py"
PACKAGES = {
    "oneslot": ROOT / "oneslot",
    "appointments": ROOT / "lambda_src" / "appointments",
    "demo": ROOT / "demo",
}
"""The zip's packages by import name. They are whole, because a list of modules could be wrong."""

DECLARATION = ROOT / "oneslot.toml"
"""The consumer's declaration. It lies inside the package, because the job reads it from the zip."""

REPORT_PACKAGES = ("jinja2", "markupsafe")
"""The report's packages, which Glue does not promise: the installed files, of the pinned versions."""


def package_files() -> dict[PurePosixPath, bytes]:
    """Return every file of the zip by its path, sorted. Raises `VendoringProblem` if a package is not the pinned one."""
    files = {
        PurePosixPath(name) / path: content
        for name, folder in PACKAGES.items()
        for path, content in source_files(folder).items()
    }
    files[PurePosixPath("oneslot") / DECLARATION.name] = DECLARATION.read_bytes()
    pins = {pin.name: pin.version for pin in read_pins(ROOT / "requirements.txt")}
    for name in REPORT_PACKAGES:
        files |= _installed(name, pins[name])
    return dict(sorted(files.items()))


def _installed(name: str, version: str) -> dict[PurePosixPath, bytes]:
    """Return Python and licences of an installed package, without what is compiled for this machine."""
    try:
        package = distribution(name)
    except PackageNotFoundError:
        raise VendoringProblem(
            f"the audit's report needs {name}=={version}; install it with pip install -r requirements.txt"
        ) from None
    if package.version != version:
        raise VendoringProblem(
            f"the audit's report needs {name}=={version}, and {package.version} is installed; "
            "install it with pip install -r requirements.txt"
        )
    return {
        PurePosixPath(file): Path(str(file.locate())).read_bytes()
        for file in package.files or ()
        if ".." not in file.parts and (file.suffix == ".py" or "licenses" in file.parts)
    }


MODULES = ("numpy", "pandas", "pyarrow")
"""The packages with compiled code, which Glue installs when a run starts. Its own versions change with its releases."""


def audit_modules() -> str:
    """Return the modules as Glue installs them, of the versions that the tests have run."""
    pins = {pin.name: pin.version for pin in read_pins(ROOT / "requirements" / "run.txt")}
    return ",".join(f"{name}=={pins[name]}" for name in MODULES)


def audit_script(scope: Construct) -> s3_assets.Asset:
    """Return the script that Glue runs."""
    return s3_assets.Asset(scope, "Script", path=str(SCRIPT))


def audit_packages(scope: Construct) -> s3_assets.Asset:
    """Return the folder, zipped by CDK, that `--extra-py-files` names."""
    files = package_files()
    return s3_assets.Asset(
        scope,
        "Packages",
        path=str(PACKAGES["oneslot"]),
        asset_hash=asset_hash(files),
        asset_hash_type=AssetHashType.CUSTOM,
        bundling=BundlingOptions(image=DockerImage.from_registry("not-used"), local=WriteFiles(files)),
    )


def write_zip(path: Path) -> None:
    """Write the zip of the packages."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as zipped:
        for name, content in package_files().items():
            zipped.writestr(str(name), content)


if __name__ == "__main__":
    write_zip(Path(sys.argv[1]))
