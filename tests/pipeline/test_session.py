"""Java is found where it is, and where there is none a person is told what to do."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from pipeline import session
from pipeline.errors import AuditRefused


def fake_java(folder: Path, version: str) -> Path:
    """A `java` that only tells its version."""
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-01-01' >&2\n")
    java.chmod(0o755)
    return java


def test_java_home_comes_first_then_path_then_the_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Java that Spark cannot run on is passed over."""
    home = fake_java(tmp_path / "home", "21.0.2")
    on_path = fake_java(tmp_path / "path", "17.0.9")
    old = fake_java(tmp_path / "old", "1.8.0_392")
    path = str(on_path.parent)
    assert session.find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": path}) == home
    assert session.find_java({"JAVA_HOME": str(tmp_path / "old"), "PATH": path}) == on_path
    assert session.find_java({"JAVA_HOME": str(tmp_path / "none"), "PATH": path}) == on_path
    packaged = session.packaged_java()
    assert packaged is not None
    assert session.find_java({"PATH": str(old.parent)}) == packaged / "bin" / "java"
    monkeypatch.setattr(session, "packaged_java", lambda: None)
    with pytest.raises(AuditRefused, match="needs Java 17 or 21 for Spark and found none"):
        session.find_java({"PATH": str(old.parent)})


def test_the_launcher_drops_one_argument_and_keeps_the_rest(tmp_path: Path) -> None:
    """The wheel's Java does not start with a module that it lacks."""
    echo = tmp_path / "echo"
    echo.write_text('#!/bin/sh\nfor argument do echo "$argument"; done\n')
    echo.chmod(0o755)
    home = session.launcher_home(echo, tmp_path / "launcher")
    assert session.launcher_home(echo, tmp_path / "launcher") == home
    command = [str(home / "bin" / "java"), "-cp", "a b", "--add-modules=jdk.incubator.vector", "Main", "x*"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines() == [
        "-cp",
        "a b",
        "Main",
        "x*",
    ]


def test_the_wheels_java_runs(tmp_path: Path) -> None:
    """Through the launcher, with the argument that Spark gives it."""
    packaged = session.packaged_java()
    assert packaged is not None
    home = session.launcher_home(packaged / "bin" / "java", tmp_path / "launcher")
    command = [str(home / "bin" / "java"), "--add-modules=jdk.incubator.vector", "-version"]
    assert '"21.' in subprocess.run(command, capture_output=True, text=True, check=True).stderr
    assert shutil.which("java", path=str(home / "bin"))
