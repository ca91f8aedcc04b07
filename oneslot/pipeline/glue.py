"""What AWS Glue starts: the audit's job in the Spark session that Glue has prepared.

The job itself (`job.py`) makes a session for one machine when it is run by hand, and ends with an exit status; Glue
brings a session of its own and takes any exit for a failure. And it knows nothing of AWS, so what the dead-letter queue holds
is listed here, as `oneslot export` does it for a stack on one machine. Everything else is the same code.

    --dead-letter-queue URL    list it in the history's folder; nothing is taken out of it
    --content-based true       the consumer identifies messages without an id by their content
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError
from pyspark.sql import SparkSession

from oneslot.pipeline.errors import AuditRefused
from oneslot.pipeline.job import audit, parse_arguments
from oneslot.pipeline.session import options
from oneslot.runtime.sqs.dead_letters import peek, waiting_behind


def main(arguments: list[str]) -> None:
    """Audit, and print what was found: a bad verdict is a result, and only an audit that cannot be made raises."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--dead-letter-queue")
    parser.add_argument("--content-based", choices=["true", "false"], default="false")
    of_aws, _ = parser.parse_known_args(arguments)
    settings, session_settings = parse_arguments(arguments)
    if of_aws.dead_letter_queue:
        print(  # noqa: T201 - this is the job's log
            list_dead_letters(
                boto3.client("sqs"),
                boto3.client("s3"),
                of_aws.dead_letter_queue,
                settings.history,
                content_based=of_aws.content_based == "true",
            )
        )
    # Of the options these two kinds: the rest describes one machine, or is Glue's to say.
    chosen = options(session_settings)
    builder = SparkSession.builder.appName("oneslot-audit")
    for name in chosen:
        if name.startswith("spark.python."):  # fixed from the session's start on
            builder = builder.config(name, chosen[name])
    spark = builder.getOrCreate()
    for name in chosen:
        if name.startswith("spark.sql."):
            spark.conf.set(name, chosen[name])
    try:
        print(audit(spark, settings).sentence)  # noqa: T201 - as above
    except AuditRefused as refusal:
        raise RuntimeError(str(refusal)) from None


def list_dead_letters(sqs: Any, s3: Any, queue_url: str, history: str, *, content_based: bool) -> str:
    """Write what the queue holds to `<history>/dead-letters/`, an S3 URL; returns a sentence that says what became of it.

    A list that cannot be made, or not whole, is no reason not to audit: without one the audit knows dead letters from the
    delivery log, and says so. The list of an earlier run of the same night is then removed, and if that fails it raises
    RuntimeError: who would audit it would take it for what is there now.
    """
    bucket, _, folder = history.partition("://")[2].partition("/")
    place = {"Bucket": bucket, "Key": f"{folder}/dead-letters/dead-letters.jsonl"}
    try:
        letters = peek(sqs, queue_url, lambda: content_based)
        behind = waiting_behind(sqs, queue_url, len(letters))
        if not behind:
            lines = "".join(json.dumps(letter.line) + "\n" for letter in letters)
            s3.put_object(**place, Body=lines.encode())
            return f"{len(letters)} dead letter(s) listed."
        problem = f"about {behind} of them are hidden by another reader, or wait behind others on a FIFO queue"
    except (BotoCoreError, ClientError) as error:
        problem = _said(error)
    try:
        if bucket:  # else the history is a folder on this machine, where this has never put a list
            s3.delete_object(**place)
    except (BotoCoreError, ClientError) as error:
        raise RuntimeError(
            f"The dead letters are not listed ({problem}), and whether {history}/dead-letters has a list of an earlier run "
            f"is not known: {_said(error)}. Put that right, and start this night's audit again."
        ) from None
    return f"The dead letters are not listed: {problem}."


def _said(error: BotoCoreError | ClientError) -> str:
    if isinstance(error, ClientError):
        return f"{error.operation_name} says {error.response['Error']['Code']}"
    return type(error).__name__


if __name__ == "__main__":
    main(sys.argv[1:])
