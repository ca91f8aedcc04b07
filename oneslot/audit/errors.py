"""The exception that a user sees, and the sentences for errors that Spark raises."""

import re

from oneslot import errors

DISK_FULL = "No space left on device"
DIED = {
    "OutOfMemoryError": "Java ran out of memory during the audit. Give it more with --memory.",
    "Python worker exited unexpectedly": "A Python worker of the audit ended, most often because this machine ran out of "
    "memory. Free some, or audit on a machine with more.",
    "Answer from Java side is empty": "Java ended during the audit, most often because this machine ran out of memory. "
    "Free some, or give Java less with --memory.",
}
"""Parts of messages that say that a process died, and the sentence for each: the history is not at fault."""


class AuditRefused(Exception):
    """The input cannot be audited. The text names the problem, its place and the remedy in at most two sentences."""


def refusal_of(error: Exception) -> Exception:
    """Return what to raise for an error of Spark: in a Python worker a law, or the audit itself, may have refused."""
    for sign, sentence in DIED.items():
        if sign in str(error):
            return errors.AuditDied(sentence)
    raised = re.search(rf"(?:{re.escape(errors.__name__)}|{re.escape(__name__)})\.(\w+): (.*)", str(error))
    kind = globals().get(raised[1], getattr(errors, raised[1], None)) if raised else None
    return kind(raised[2]) if raised and kind else AuditRefused(explain_spark_error(error))


def explain_spark_error(error: Exception) -> str:
    """Return the sentence for an error that Spark raised: its first line, never the Java trace."""
    from py4j.protocol import Py4JJavaError  # here, so that the command line starts without Spark

    # The first line of a Java error names the call. The cause is in Java's own message.
    text = str(error.java_exception) if isinstance(error, Py4JJavaError) else str(error)
    first = text.strip().splitlines()[0]
    if DISK_FULL in str(error):
        return f"The disk of --output or SPARK_LOCAL_DIRS is full. Name another folder. (Spark says: {first[:200]})"
    return f"Spark could not finish: {first[:400]}"
