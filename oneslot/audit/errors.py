"""The exception that a user sees, and the sentences for errors that Spark raises."""

from __future__ import annotations

import re

from oneslot import errors

SIGNS = {
    "EOFException": "A gzipped file ends in the middle: it was cut short. Copy or export it again.",
    "ZipException": "A file that ends in .gz is not gzip, or is damaged. Copy or export it again.",
    "not a gzip file": "A file that ends in .gz is not gzip, or is damaged. Copy or export it again.",
    "incorrect data check": "A gzipped file is damaged. Copy or export it again.",
    "Relative path in absolute URI": "Spark cannot read a file whose name contains a colon. Rename it.",
    "ARITHMETIC_OVERFLOW": "One id has more rows in a source than the audit can add up. "
    "Find the id in the delivery log, and remove its copies from the history.",
    "No space left on device": "The disk is full. Name another folder with --scratch.",
    "OutOfMemoryError": "Spark ran out of memory. Give it more with --memory.",
}
"""Parts of Spark's messages, and the sentence for each."""


class AuditRefused(Exception):
    """The input cannot be audited. The text names the problem, its place and the remedy in at most two sentences."""


def refusal_of(error: Exception) -> Exception:
    """Return what to raise for an error of Spark: in a Python worker a law, or the audit itself, may have refused."""
    raised = re.search(rf"(?:{re.escape(errors.__name__)}|{re.escape(__name__)})\.(\w+): (.*)", str(error))
    kind = globals().get(raised[1], getattr(errors, raised[1], None)) if raised else None
    return kind(raised[2]) if raised and kind else AuditRefused(explain_spark_error(error))


def explain_spark_error(error: Exception) -> str:
    """Return the sentence for an error that Spark raised: its first line, never the Java trace."""
    from py4j.protocol import Py4JJavaError  # here, so that the command line starts without Spark

    # The first line of a Java error names the call. The cause is in Java's own message.
    text = str(error.java_exception) if isinstance(error, Py4JJavaError) else str(error)
    first = text.strip().splitlines()[0]
    for sign, sentence in SIGNS.items():
        if sign in str(error):
            return f"{sentence} (Spark says: {first[:200]})"
    return f"Spark could not finish: {first[:400]}"
