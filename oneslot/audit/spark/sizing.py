"""The size of an audit, from the items of its exports: partitions, disk, and workers, hours and dollars on AWS Glue.

The figures per item were measured on up to a million requests, which have three items each; lab/docs/audit-speed.md.
"""

from __future__ import annotations

import math
import os
import shutil
from dataclasses import dataclass

from pyspark.sql import SparkSession

from oneslot.audit.errors import AuditRefused

PART_ITEMS = 1_500_000
CHUNK_ITEMS = 75_000  # which a Python worker holds at once, with what else names the same subjects
FEWEST_CHUNKS = 2
SHUFFLE_BYTES = 210  # an item, with the deliveries of its request: JSON under each subject that a row names, after LZ4
SPILLED_SHARE = 0.5  # of the shuffle, where a partition's sort does not fit into memory
CPU_SECONDS = 55e-6  # an item: the slope from 200,000 to a million requests
# A G.1X worker of AWS Glue: 1 DPU, 4 vCPU of which each does two thirds of a core's work, 44 GB of free disk.
WORKER_CORES = 4 / 1.5
WORKER_DISK_GB = 25  # of 44, because partitions differ in size and a failed task leaves its files
START_HOURS = 0.1
DOLLARS_PER_WORKER_HOUR = 0.44
GB = 1e9


@dataclass(frozen=True)
class Sizing:
    """The size of an audit of exports with `items` items."""

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
        """The disk that shuffle and spill take, over all workers."""
        return self.items * SHUFFLE_BYTES * (1 + SPILLED_SHARE) / GB

    @property
    def workers(self) -> int:
        """The least number of G.1X workers with room for it. One of them is the driver."""
        return 1 + max(1, math.ceil(self.disk_gb / WORKER_DISK_GB))

    @property
    def hours(self) -> float:
        """The time with that many workers."""
        return START_HOURS + self.items * CPU_SECONDS / 3600 / ((self.workers - 1) * WORKER_CORES)

    @property
    def dollars(self) -> float:
        """The price of that time in eu-west-2."""
        return self.hours * self.workers * DOLLARS_PER_WORKER_HOUR

    @property
    def sentence(self) -> str:
        """The plan for AWS Glue in one line of the job's log."""
        return (
            f"{self.items:,} items: {self.chunks:,} chunks, about {self.disk_gb:,.0f} GB on the executors' disks. That "
            f"takes {self.workers} G.1X workers or more; with {self.workers}, about {self.hours:.1f} hours and "
            f"${self.dollars:.2f}."
        )


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
