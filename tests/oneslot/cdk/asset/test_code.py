"""The asset of a handler's folder: the folder, the runtime, and nothing that it did not ask for."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest

from oneslot.cdk.asset import asset_files, asset_hash, lambda_code
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
    entry = tmp_path / "consumer"
    entry.mkdir()
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
