"""The Lambda asset: complete, reproducible, and free of this machine's files."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path, PurePosixPath

import pytest

from oneslot.cdk.asset.code import asset_files, asset_hash
from oneslot.cdk.asset.vendoring import read_pins
from stacks.appointments.stack import SOURCE
from tests.kits.stacks import Stage, synthesise

# What Lambda's Python runtimes bring along: boto3 and what it needs.
RUNTIME_PACKAGES = ("boto3", "botocore", "s3transfer", "urllib3", "dateutil", "six")
COMPRESSED_LIMIT_BYTES = 50 * 1024 * 1024  # of a zip that is uploaded directly: Lambda's quota page


@pytest.fixture
def stage(stages: dict[str, Stage]) -> Stage:
    """Development: both stages deploy the same code."""
    return stages["dev"]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A small source tree with the real pins."""
    folder = tmp_path / "source"
    (folder / "package").mkdir(parents=True)
    (folder / "handler.py").write_text("def lambda_handler(event, context): ...\n", encoding="utf-8")
    (folder / "package" / "__init__.py").write_text("", encoding="utf-8")
    shutil.copy(SOURCE / "requirements.txt", folder)
    return folder


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
    text = str(Path(sys.prefix)).encode()
    assert [path for path, content in contents(stage.asset).items() if text in content] == []


def test_asset_has_every_source_file(stage: Stage) -> None:
    packed = contents(stage.asset)
    for path, content in asset_files(SOURCE).items():
        assert packed.pop(str(path)) == content
    assert packed == {}


def test_asset_files_are_readable_by_lambda(stage: Stage) -> None:
    assert {path.stat().st_mode & 0o777 for path in stage.asset.rglob("*") if path.is_file()} == {0o644}


def test_asset_is_small_enough_to_upload(stage: Stage, tmp_path: Path) -> None:
    archive = shutil.make_archive(str(tmp_path / "asset"), "zip", stage.asset)
    assert Path(archive).stat().st_size < COMPRESSED_LIMIT_BYTES / 10


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


def test_stages_deploy_the_same_code(stages: dict[str, Stage]) -> None:
    assert len({stage.asset.name for stage in stages.values()}) == 1


def test_second_synthesis_leaves_the_asset_untouched(stage: Stage) -> None:
    first = {path: path.stat().st_mtime_ns for path in stage.asset.rglob("*")}
    template = stage.template_text
    assert first
    synthesise(stage.folder, stage="dev")
    assert {path: path.stat().st_mtime_ns for path in stage.asset.rglob("*")} == first
    assert stage.template_text == template


def test_asset_hash_is_the_same_when_caches_appear(source: Path) -> None:
    before = asset_hash(asset_files(source))
    for litter in (
        "__pycache__/handler.cpython-311.pyc.4711",
        "package/old.pyc",
        ".DS_Store",
        ".mypy_cache/x.json",
        "tests/t.py",
    ):
        (source / litter).parent.mkdir(exist_ok=True)
        (source / litter).write_bytes(b"litter")
    assert asset_hash(asset_files(source)) == before


def test_asset_hash_changes_when_the_source_changes(source: Path) -> None:
    hashes = [asset_hash(asset_files(source))]
    (source / "handler.py").write_text("def lambda_handler(event, context): return {}\n", encoding="utf-8")
    hashes.append(asset_hash(asset_files(source)))
    (source / "handler.py").rename(source / "other.py")
    hashes.append(asset_hash(asset_files(source)))
    (source / "package" / "__init__.py").unlink()
    hashes.append(asset_hash(asset_files(source)))
    assert len(set(hashes)) == len(hashes)


def test_asset_hash_keeps_paths_and_contents_apart() -> None:
    assert asset_hash({PurePosixPath("a"): b"bc"}) != asset_hash({PurePosixPath("ab"): b"c"})
    assert asset_hash({PurePosixPath("a"): b"", PurePosixPath("b"): b"x"}) != asset_hash(
        {PurePosixPath("a"): b"x", PurePosixPath("b"): b""}
    )
