"""What AWS Glue starts: the audit's job in the Spark session that Glue has prepared.

The job itself (`pipeline/job.py`) makes a session for one machine when it is run by hand, and ends with an exit status; Glue
brings a session of its own and takes any exit for a failure. Everything else is the same code.
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

from pipeline.errors import AuditRefused
from pipeline.job import audit, parse_arguments
from pipeline.session import options


def main(arguments: list[str]) -> None:
    """Audit, and print what was found: a bad verdict is a result, and only an audit that cannot be made raises."""
    settings, session_settings = parse_arguments(arguments)
    spark = SparkSession.builder.appName("oneslot-audit").getOrCreate()
    for name, value in options(session_settings).items():
        if name.startswith("spark.sql."):  # the rest describes one machine, or is Glue's to say
            spark.conf.set(name, value)
    try:
        print(audit(spark, settings).sentence)  # noqa: T201 - this is the job's log
    except AuditRefused as refusal:
        raise RuntimeError(str(refusal)) from None


if __name__ == "__main__":
    main(sys.argv[1:])
