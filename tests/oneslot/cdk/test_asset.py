"""What the function's asset has: its own files, the runtime, and the pinned packages, from where they come."""

from __future__ import annotations

import base64
import hashlib
import re
import zipfile
from pathlib import Path, PurePosixPath

import packaging.tags
import pytest

from oneslot.cdk import asset
from oneslot.cdk.asset import (
    LOCAL_VARIABLE,
    Pin,
    VendoringProblem,
    asset_files,
    asset_hash,
    lambda_code,
    read_pins,
    vendored_files,
)
from oneslot.cdk.numbers import ContradictorySettings
from oneslot.local.aws.cloud_assembly import read_stack
from tests.oneslot.cdk.kit import define, handler_folder


def test_asset_is_the_folder_and_the_runtime_without_requirements(tmp_path: Path) -> None:
    files = asset_files(handler_folder(tmp_path))
    assert {path.parts[0] for path in files} == {"app.py", "oneslot"}
    assert {path.parts[1] for path in files if len(path.parts) > 1} == {"__init__.py", "runtime"}
    assert PurePosixPath("oneslot/runtime/lambda_consumer.py") in files


def test_file_of_the_folder_wins_over_the_librarys(tmp_path: Path) -> None:
    entry = handler_folder(tmp_path)
    (entry / "oneslot").mkdir()
    (entry / "oneslot" / "__init__.py").write_bytes(b"# theirs")
    assert asset_files(entry)[PurePosixPath("oneslot/__init__.py")] == b"# theirs"


def test_asset_hash_changes_with_paths_and_contents_alone(tmp_path: Path) -> None:
    entry = handler_folder(tmp_path)
    hashes = [asset_hash(asset_files(entry))]
    for litter in ("__pycache__/app.cpython-311.pyc.4711", "old.pyc", ".DS_Store", ".mypy_cache/x.json", "tests/t.py"):
        (entry / litter).parent.mkdir(exist_ok=True)
        (entry / litter).write_bytes(b"litter")
    assert asset_hash(asset_files(entry)) == hashes[0]
    (entry / "app.py").write_text("handler = 1\n", encoding="utf-8")
    hashes.append(asset_hash(asset_files(entry)))
    (entry / "app.py").rename(entry / "other.py")
    hashes.append(asset_hash(asset_files(entry)))
    pairs = ({"a": b"bc"}, {"ab": b"c"}, {"a": b"", "b": b"x"}, {"a": b"x", "b": b""})
    hashes += [asset_hash({PurePosixPath(path): content for path, content in pair.items()}) for pair in pairs]
    assert len(set(hashes)) == len(hashes)


@pytest.mark.parametrize(
    ("text", "may_have"),
    [
        ("from consumer import handle", True),
        ("async def handle(event, context): ...", True),
        ("from consumer import *", True),
        ("globals()['hand' + 'le'] = work", True),
        ("def __getattr__(name): ...", True),
        ("", False),
        ("def handler(event, context): ...", False),
    ],
)
def test_handler_is_refused_unless_its_module_may_have_it(tmp_path: Path, text: str, may_have: bool) -> None:
    (tmp_path / "app.py").write_text(text, encoding="utf-8")
    if may_have:
        lambda_code(tmp_path, "app.handle")
        return
    with pytest.raises(ContradictorySettings, match=r"needs the name handle in .*app\.py; correct handler or file"):
        lambda_code(tmp_path, "app.handle")


IMPORTS = """
import json, boto3, botocore.config, oneslot.runtime, missing.one
import helper
from typing import TYPE_CHECKING
from . import sibling
from missing.two import name
if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient
try:
    import ujson
except ImportError:
    import fallback
def handler(event, context):
    import late
"""


def test_construct_warns_of_each_import_that_the_asset_lacks(tmp_path: Path) -> None:
    (entry := tmp_path / "consumer").mkdir()
    (entry / "app.py").write_text(IMPORTS, encoding="utf-8")
    (entry / "helper.py").write_text("def help(): ...\n", encoding="utf-8")
    defined = define(tmp_path, entry=entry)
    defined.app.synth()
    warnings = read_stack(tmp_path / "assembly", "Shop").warnings
    assert sorted(text.partition(" imports ")[2].partition(", which")[0] for text in warnings) == [
        "fallback",
        "late",
        "missing",
    ]
    assert all(text.endswith(f"Pin its package, with hashes, in {entry}/requirements.txt.") for text in warnings)


CODE = b"ANSWER = 42\n"


def digest(content: bytes) -> str:
    """As in a RECORD."""
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def wheel_files(version: str, *, pure: bool = True) -> dict[str, bytes]:
    """The files of the wheel of a package `tiny`."""
    folder = f"tiny-{version}.dist-info"
    files = {
        "tiny/__init__.py": CODE,
        "tiny/data.json": b"{}",
        f"{folder}/METADATA": f"Metadata-Version: 2.1\nName: tiny\nVersion: {version}\n".encode(),
        f"{folder}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: {str(pure).lower()}\nTag: py3-none-any\n".encode(),
        f"{folder}/licenses/LICENSE": b"free",
    }
    record = "".join(f"{path},sha256={digest(content)},{len(content)}\n" for path, content in files.items())
    return {**files, f"{folder}/RECORD": f"{record}{folder}/RECORD,,\n".encode()}


def expected(version: str) -> dict[PurePosixPath, bytes]:
    """Return the files of `tiny` that belong into the asset."""
    left_out = ("WHEEL", "RECORD")
    return {PurePosixPath(path): text for path, text in wheel_files(version).items() if not path.endswith(left_out)}


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A site-packages folder."""
    (folder := tmp_path / "site").mkdir()
    return folder


def install(site: Path, version: str, *, pure: bool = True) -> None:
    """Install `tiny` as an installer does: with compiled files, a script and its own notes in the RECORD."""
    files = wheel_files(version, pure=pure)
    folder = f"tiny-{version}.dist-info"
    files["tiny/__pycache__/__init__.cpython-311.pyc"] = b"compiled"
    files["../bin/tiny"] = b"#!/bin/sh"
    files[f"{folder}/INSTALLER"] = b"uv"
    added = "".join(f"{path},,\n" for path in ("tiny/__pycache__/__init__.cpython-311.pyc", "../bin/tiny"))
    files[f"{folder}/RECORD"] += f"{added}{folder}/INSTALLER,,\n".encode()
    for path, content in files.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_bytes(content)


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels that is all that pip can reach."""
    (folder := tmp_path / "wheels").mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return folder


def publish(wheels: Path, version: str, tags: str = "py3-none-any") -> str:
    """Put the wheel there; its hash."""
    path = wheels / f"tiny-{version}-{tags}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in wheel_files(version).items():
            archive.writestr(name, content)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def requirements(tmp_path: Path, version: str, sha256: str = "0" * 64) -> Path:
    """A hashed requirements file as `uv pip compile` writes it."""
    (path := tmp_path / "requirements.txt").write_text(
        f"tiny=={version} \\\n    --hash=sha256:{sha256}\n    # via -r requirements.in\n", encoding="utf-8"
    )
    return path


@pytest.mark.parametrize(
    ("text", "pins"),
    [
        (
            "--only-binary :all:\na==1.0 \\\n    --hash=sha256:00\n    # via b==2\n# c==3\n"
            "d-e.f[extra]==2.1; python_version > '3' --hash=sha256:00  # via g==4\n",
            (Pin("a", "1.0"), Pin("d-e.f", "2.1")),
        ),
        *(
            (f"{line} --hash=sha256:00", (Pin("tiny", "1.0"),))
            for line in (
                *("tiny == 1.0", "tiny [extra,other]==1.0", "tiny[extra] == 1.0 ; python_version > '3'"),
                *("tiny (== 1.0)", "tiny===1.0 \\\n ", "\ufefftiny==1.0"),
            )
        ),
    ],
)
def test_pins_are_read_in_order_and_in_every_form_that_pip_takes(
    tmp_path: Path, text: str, pins: tuple[Pin, ...]
) -> None:
    (path := tmp_path / "requirements.txt").write_text(text, encoding="utf-8")
    assert read_pins(path) == pins


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, r"cannot read .*requirements\.txt: No such file"),
        ("tiny==1.0 --hash=sha256:00".encode("utf-16"), "is not UTF-8 text; save it as UTF-8"),
        *((text, "pins no package; write it by `uv pip compile --generate-hashes") for text in (b"", b"# a\n--pre\n")),
        (
            b"tiny==1.0\nother==2 \\\n  --hash=sha256:00\nthird==3\n",
            r"has no hash for tiny==1\.0, third==3; .*--generate-hashes",
        ),
        *(
            (f"a==1.0 --hash=sha256:00\n{line}\n".encode(), f"pins no version in the line '{re.escape(line)}'")
            for line in ("tiny>=1.0", "-r other.txt", "-e .", "./tiny.whl", "tiny @ https://example.org/t.whl")
        ),
    ],
)
def test_pins_are_refused_when_they_are_none(tmp_path: Path, content: bytes | None, said: str) -> None:
    path = tmp_path / "requirements.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(VendoringProblem, match=said):
        vendored_files(path)


def test_vendoring_copies_the_wheels_files_when_it_is_installed(tmp_path: Path, site: Path) -> None:
    install(site, "1.0")
    assert vendored_files(requirements(tmp_path, "1.0"), [str(site)]) == expected("1.0")


def test_vendoring_refuses_a_changed_file(tmp_path: Path, site: Path) -> None:
    install(site, "1.0")
    (site / "tiny" / "__init__.py").write_bytes(CODE + b"ANSWER = 43\n")
    with pytest.raises(VendoringProblem, match=r"tiny/__init__\.py of the installed tiny==1\.0 .* --force-reinstall"):
        vendored_files(requirements(tmp_path, "1.0"), [str(site)])


def test_vendoring_fetches_the_wheel_when_it_is_compiled(
    tmp_path: Path, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(site, "1.0", pure=False)
    monkeypatch.setattr(asset, "_fetched_files", lambda _: {PurePosixPath("fetched"): b""})
    assert vendored_files(requirements(tmp_path, "1.0"), [str(site)]) == {PurePosixPath("fetched"): b""}


def test_vendoring_says_why_pip_fetched_nothing(tmp_path: Path, site: Path, wheels: Path) -> None:
    pinned = requirements(tmp_path, "3.0")
    said = r"for Lambda's Python 3.14 on ARM \(No matching distribution found for tiny==3.0.*\); check the network, and"
    with pytest.raises(VendoringProblem, match=said) as problem:
        vendored_files(pinned, [str(site)])
    assert "\n" not in str(problem.value)


@pytest.mark.parametrize("tag", ["manylinux2014_aarch64", "manylinux_2_34_aarch64"])
def test_vendoring_fetches_wheels_of_the_tags_that_lambda_runs(
    tmp_path: Path, site: Path, wheels: Path, tag: str
) -> None:
    sha256 = publish(wheels, "1.0", f"cp314-cp314-{tag}")
    assert vendored_files(requirements(tmp_path, "1.0", sha256), [str(site)]) == expected("1.0")


def test_vendoring_takes_this_machines_binaries_for_a_local_asset(
    tmp_path: Path, site: Path, wheels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(LOCAL_VARIABLE, "1")
    install(site, "1.0", pure=False)
    assert vendored_files(requirements(tmp_path, "1.0"), [str(site)]) == expected("1.0")

    here = next(tag for tag in packaging.tags.sys_tags() if "manylinux" in tag.platform)
    sha256 = publish(wheels, "2.0", str(here))
    assert vendored_files(requirements(tmp_path, "2.0", sha256), [str(site)]) == expected("2.0")
