"""The Lambda asset: complete, reproducible, and free of this machine's files."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path, PurePosixPath

import pytest

from oneslot.cdk.asset import read_pins
from stacks.appointments.stack import SOURCE
from tests.kits.stacks import Stage, synthesise

# What Lambda's Python runtimes bring along: boto3 and what it needs.
RUNTIME_PACKAGES = ("boto3", "botocore", "s3transfer", "urllib3", "dateutil", "six")


@pytest.fixture
def stage(stages: dict[str, Stage]) -> Stage:
    """Development: both stages deploy the same code."""
    return stages["dev"]


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below the folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_asset_has_every_pin_with_its_licence_and_no_boto3(stage: Stage) -> None:
    top = {path.name.lower() for path in stage.asset.iterdir()}
    for pin in read_pins(SOURCE / "requirements.txt"):
        metadata = f"{pin.name.replace('-', '_')}-{pin.version}.dist-info"
        assert metadata in top
        assert list((stage.asset / metadata).rglob("LICENSE*"))
    assert top.isdisjoint({"boto3", "botocore"})


def test_asset_has_nothing_of_this_machine(stage: Stage) -> None:
    paths = [PurePosixPath(path) for path in contents(stage.asset)]
    assert paths
    for path in paths:
        assert path.suffix not in {".pyc", ".so", ".pyd"}, path
        assert not {"__pycache__", "tests", "bin"} & set(path.parts), path
        assert path.name not in {"RECORD", "INSTALLER", "REQUESTED", "direct_url.json", "requirements.txt"}, path
    assert {path.stat().st_mode & 0o777 for path in stage.asset.rglob("*") if path.is_file()} == {0o644}
    text = str(Path(sys.prefix)).encode()
    assert [path for path, content in contents(stage.asset).items() if text in content] == []


def test_handler_starts_from_the_asset_and_boto3_alone(stage: Stage, tmp_path: Path) -> None:
    """Without site-packages (-S) and the environment: the asset, and the packages of Lambda's runtime."""
    runtime = tmp_path / "runtime"
    runtime.mkdir()
    for name in RUNTIME_PACKAGES:
        specification = find_spec(name)
        assert specification is not None
        assert specification.origin is not None
        origin = Path(specification.origin)
        found = origin.parent if origin.name == "__init__.py" else origin
        (runtime / found.name).symlink_to(found)
    variables = stage.of_output("ConsumerFunctionName")["Environment"]["Variables"]
    environment = {name: value if isinstance(value, str) else value["Ref"] for name, value in variables.items()}
    program = (
        f"import sys; sys.path[:0] = [{str(stage.asset)!r}, {str(runtime)!r}]; sys.dont_write_bytecode = True\n"
        "import handler, aws_lambda_powertools\n"
        "print(handler.__file__, aws_lambda_powertools.__file__, callable(handler.lambda_handler))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program],
        env={**environment, "AWS_DEFAULT_REGION": "eu-west-2"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [
        str(stage.asset / "handler.py"),
        str(stage.asset / "aws_lambda_powertools" / "__init__.py"),
        "True",
    ]


def test_second_synthesis_leaves_the_asset_untouched(stage: Stage) -> None:
    first = {path: path.stat().st_mtime_ns for path in stage.asset.rglob("*")}
    template = stage.template_text
    assert first
    synthesise(stage.folder, stage="dev")
    assert {path: path.stat().st_mtime_ns for path in stage.asset.rglob("*")} == first
    assert stage.template_text == template
