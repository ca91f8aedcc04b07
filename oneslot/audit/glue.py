"""The script that AWS Glue starts: the audit's job in the Spark session that Glue prepares.

`job.py` opens a session of its own on one machine and ends with an exit status. Glue brings a session, and takes every exit
status for a failure. The job also knows no AWS service, so the dead-letter queue is listed here, as `oneslot export` does.

    --dead-letter-queue URL    list this queue in the history's folder; no message is removed
    --content-based true       the consumer identifies messages without an id by their content
"""

import argparse
import json
import re
import sys
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError
from pyspark.sql import SparkSession

from oneslot.audit.errors import AuditRefused
from oneslot.audit.job import audit, find_consumer
from oneslot.audit.settings import parse_arguments
from oneslot.audit.spark.session import options, set_options
from oneslot.declaration.reading import choosing, declared
from oneslot.errors import BadInput
from oneslot.runtime.sqs.dead_letters import peek, waiting_behind
from oneslot.wording import counted


def main(arguments: list[str]) -> None:
    """Audit and print the conclusion. An unsound history is a result; only an audit that is impossible raises RuntimeError."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--dead-letter-queue")
    parser.add_argument("--content-based", choices=["true", "false"], default="false")
    of_aws, _ = parser.parse_known_args(arguments)
    settings, session_settings = parse_arguments(arguments)
    # The other options describe one machine, or belong to Glue.
    chosen = options(session_settings)
    builder = SparkSession.builder.appName("oneslot-audit")
    for name in chosen:
        if name.startswith("spark.python."):  # cannot change after the session's start
            builder = builder.config(name, chosen[name])
    spark = builder.getOrCreate()
    set_options(spark, chosen)
    try:
        with choosing(find_consumer(settings)):
            if of_aws.dead_letter_queue:
                region = region_of(of_aws.dead_letter_queue)
                print(  # noqa: T201 - the job's log
                    list_dead_letters(
                        boto3.client("sqs", region_name=region),
                        boto3.client("s3", region_name=region),
                        of_aws.dead_letter_queue,
                        settings.history,
                        content_based=of_aws.content_based == "true",
                    )
                )
            print(audit(spark, settings, print).sentence)  # noqa: T201 - the job's log
    except (AuditRefused, BadInput) as refusal:
        raise RuntimeError(str(refusal)) from None


def region_of(queue_url: str) -> str | None:
    """Return the Region that a queue's URL names. Glue does not promise one in the job's environment."""
    named = re.match(r"https://sqs\.([a-z0-9-]+)\.", queue_url)
    return named[1] if named else None


def list_dead_letters(sqs: Any, s3: Any, queue_url: str, history: str, *, content_based: bool) -> str:
    """Write the content of the queue to `<history>/dead-letters/`, an S3 URL. Return a sentence for the job's log.

    Without a complete list the audit still runs: it knows dead letters from the delivery log, and says so. Then a list from an
    earlier run of the same night is deleted, because the audit would read it as the present content. Raises RuntimeError if
    that fails.
    """
    bucket, _, folder = history.partition("://")[2].partition("/")
    place = {"Bucket": bucket, "Key": f"{folder}/dead-letters/dead-letters.jsonl"}
    try:
        consumer = declared()
        letters = peek(
            sqs,
            queue_url,
            withheld=consumer.is_private,
            content_based=lambda: content_based,
            identity=consumer.tool("identity"),
        )
        behind = waiting_behind(sqs, queue_url, len(letters))
        if not behind:
            lines = "".join(json.dumps(letter.line) + "\n" for letter in letters)
            s3.put_object(**place, Body=lines.encode())
            return f"{counted(len(letters), 'dead letter', 'dead letters')} listed."
        problem = f"about {behind} more are hidden by another reader, or wait behind others on a FIFO queue"
    except (BotoCoreError, ClientError) as error:
        problem = _short(error)
    try:
        if bucket:  # else the history is a folder on this machine, without such a list
            s3.delete_object(**place)
    except (BotoCoreError, ClientError) as error:
        raise RuntimeError(
            f"The dead letters are not listed ({problem}), and {history}/dead-letters may hold an outdated list: "
            f"{_short(error)}. Delete that folder and start this night's audit again."
        ) from None
    return f"The dead letters are not listed: {problem}."


def _short(error: BotoCoreError | ClientError) -> str:
    """Return an AWS error as a few words."""
    if isinstance(error, ClientError):
        return f"{error.operation_name} says {error.response['Error']['Code']}"
    return type(error).__name__


if __name__ == "__main__":
    main(sys.argv[1:])
