"""A Spark session, on this machine or under `spark-submit`."""

from __future__ import annotations

import atexit
import os
from collections.abc import Container, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oneslot.audit.spark.java import prepare_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOG_CONFIGURATION = Path(__file__).with_name("log4j2.properties")
# The first compiler's machine code is ready sooner and runs slower: better for a small input (lab/docs/audit-speed.md).
# That compiler alone gets 48 MB for its code, and full collections when they are used. Classes fill the metaspace as early.
FOR_LITTLE = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=256m -XX:MetaspaceSize=256m"
# Few objects live long, and Java lets the heap grow to its limit rather than collect the others: a small limit for the young
# ones, and 1.5 GB in all (lab/docs/audit-speed.md).
FOR_MUCH = "-XX:+UseParallelGC -XX:MaxNewSize=400m -XX:MetaspaceSize=256m"
LITTLE_BYTES = 20_000_000
# Without these, the same input could give another verdict or other bytes. `spark-submit` does not change them.
DECIDING = {
    "spark.sql.session.timeZone": "UTC",
    # An overflow is an error, never a wrong count.
    "spark.sql.ansi.enabled": "true",
    # A data file holds one row a line. A partial row of a broken line would look like a row with missing values.
    "spark.sql.json.enablePartialResults": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    # A Parquet footer lists a column's encodings in an order that differs from one Java process to the next. Equal rows are
    # equal bytes only with one encoding for each column: this version, without dictionaries. Files are smaller, too.
    "spark.hadoop.parquet.writer.version": "PARQUET_2_0",
    "spark.hadoop.parquet.enable.dictionary": "false",
}


@dataclass(frozen=True)
class SessionSettings:
    """The size of a session on this machine.

    Attributes:
        master: Spark's master.
        memory: Java's memory, in Spark's notation ("3g").
        partitions: the number of shuffle partitions; None for one where the input is little, and 8 elsewhere.
        scratch: folder for temporary files; None for Spark's default.
        reads_bytes: size of the input in bytes, None if unknown.
    """

    master: str = "local[*]"
    memory: str = "1536m"
    partitions: int | None = None
    scratch: str | None = None
    reads_bytes: int | None = None

    @property
    def little(self) -> bool:
        """Return whether the input is known to be little."""
        return self.reads_bytes is not None and self.reads_bytes < LITTLE_BYTES


def size_on_disk(*paths: str) -> int | None:
    """Return the size in bytes of files and of the files in folders; None if one is not on this machine."""
    found = [Path(path) for path in paths]
    if not all(path.exists() for path in found):
        return None
    files = (file for path in found for file in ([path] if path.is_file() else path.rglob("*")))
    return sum(file.stat().st_size for file in files if file.is_file())


def options(settings: SessionSettings) -> dict[str, str]:
    """Return Spark's configuration for audits on this machine and under `spark-submit`."""
    chosen = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": settings.memory,
        # A log configuration of our own, because Spark prints warnings before a level can be set.
        "spark.driver.extraJavaOptions": (
            f"{FOR_LITTLE if settings.little else FOR_MUCH} -Dlog4j2.configurationFile={LOG_CONFIGURATION.as_uri()}"
        ),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.authenticate": "true",  # other users of this machine reach loopback; Spark makes the secret of a local master
        "spark.sql.shuffle.partitions": str(settings.partitions or (1 if settings.little else 8)),
        # A sorted table has files of 64 MB rather than one for each core.
        "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
        # Many single files are listed by this many tasks, in place of one for each file.
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "32",
        # Java does not compile a method of more than 8,000 bytes of code. A longer one must be split.
        "spark.sql.codegen.hugeMethodLimit": "8000",
        # For its error messages PySpark looks up the Python line behind each column, with three calls to Java each: a quarter
        # of the time of a small audit. Our errors are sentences without line numbers.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.hadoop.parquet.compression.codec.zstd.level": "1",
        "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
        # Each task moves its own file into place, where the driver would move all of them in the end. In S3 that is a copy. A
        # repeated task writes the same name, and an unfinished audit has no description, so no reader sees half a commit.
        "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "2",
        **DECIDING,
    }
    if settings.little:  # re-planning takes a job for each stage
        chosen["spark.sql.adaptive.enabled"] = "false"
    return chosen | ({"spark.local.dir": settings.scratch} if settings.scratch else {})


def open_session(settings: SessionSettings | None = None) -> SparkSession:
    """Open a session on this machine or, under `spark-submit`, where that runs it, with its master, memory and folders.

    Raises AuditRefused if a session on this machine finds no Java.
    """
    wanted = settings or SessionSettings()
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if not submitted:
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
