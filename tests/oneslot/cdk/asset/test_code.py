"""The asset of a handler's folder: the folder, the runtime, and nothing that it did not ask for."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from oneslot.cdk.asset.code import asset_files
from tests.oneslot.cdk.kit import handler_folder


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
