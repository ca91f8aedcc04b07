"""The settings of a stage and the environment variables, each with who reads it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import Field, fields
from pathlib import Path

from lab.figures.tables import listing, table
from oneslot.cdk.numbers import FOREVER, LOG_RETENTION_DAYS, Numbers, Thresholds
from oneslot.runtime.sqs.deferral import Deferral
from stacks.context import KINDS, OVERRIDABLE, default_of
from stacks.settings import QUEUE_KINDS, RANGES, THRESHOLDS, Settings

REPOSITORY = Path(__file__).resolve().parents[3]

MEANINGS = {
    "lambda_timeout_seconds": (
        "the function's timeout, and the longest lease of a claim",
        "decisions that call others",
    ),
    "lambda_memory_mb": (
        "the function's memory, which sets its share of CPU",
        "a function that computes, or starts slowly",
    ),
    "batch_size": ("messages in one invocation, at most", "many messages: fewer invocations"),
    "batching_window_seconds": ("how long Lambda waits for a full batch", "batches above 10"),
    "max_concurrency": ("invocations at once, at most", "more traffic, or less for a weak dependency"),
    "provisioned_pollers": (
        "pollers that always run, 10 invocations each",
        "a rush that begins at once",
    ),
    "visibility_multiplier": (
        "times the timeout, for which a received message stays hidden",
        "heavy throttling",
    ),
    "max_receive_count": ("receives before a message moves to the dead-letter queue", "failures that pass in minutes"),
    "longest_lease_seconds": (
        "the longest deferral of a busy message: the `--limit` of workers",
        "workers beside the function",
    ),
    "longest_retry_delay_seconds": (
        "the longest delay after a failure; 0: the visibility timeout",
        "failures that pass in seconds",
    ),
    "queue_retention_seconds": ("how long the queue keeps a message", "longer outages"),
    "dead_letter_retention_seconds": (
        "how long the dead-letter queue does, from the first send",
        "a queue that exists",
    ),
    "ledger_retention_seconds": ("how long the ledger knows a message", "producers that retry after weeks"),
    "table_warm_writes": (
        "writes a second that a table takes at once; 0 is 4,000",
        "the first rush on new tables",
    ),
    "table_maximum_writes": (
        "writes a second above which DynamoDB throttles; 0 is the account's quota",
        "a bound of the bill",
    ),
    "log_retention_days": ("how long the delivery log is kept", "a rule on logs, or a longer ledger"),
    "alarm_oldest_message_seconds": ("age of the oldest message", "another promise of speed"),
    "alarm_failed_deliveries": ("failed deliveries in five minutes", "more traffic"),
    "alarm_quarantined_deliveries": ("quarantined deliveries in five minutes", "more traffic"),
    "alarm_transaction_conflicts": ("conflicting transactions in five minutes", "more traffic"),
    "snap_start": (
        "start from a snapshot of the imported function; snapshots are billed",
        "a rush after a quiet night",
    ),
    "gradual_deployment": ("a new version gets a tenth of the batches for five minutes first", "production"),
    "candidate_slots": ("the earliest free slots among which a request chooses", "many requests for the same slots"),
    "group_commit": ("commit a batch's first deliveries in one transaction", "a rush: fewer transactions"),
    "content_based_deduplication": (
        "identify a message without an id by the SHA-256 of its body",
        "producers without ids",
    ),
    "queue": ("the kind of queue: `fifo` keeps the order within a message group", "requests that follow each other"),
    "ledger_forgotten_before": ("when the retention was raised, as `2026-11-23T14:00:00Z`", "who raised the retention"),
    "customer_managed_keys": ("encrypt with a key of this stage's own", "a rule on keys"),
    "alarm_topic_arn": ("the SNS topic of alarms and audit; empty for none", "who is on call"),
    "audit": ("deploy the nightly audit", "who must show the result"),
    "audit_workers": ("Glue's workers of the Spark job", "more than ten million requests"),
}
"""A setting → its meaning, and who sets it."""

VARIABLES = {
    "ONESLOT_LEDGER_TABLE": "the ledger's table",
    "ONESLOT_LEDGER_RETENTION_SECONDS": "how long a row is kept, or `forever`",
    "ONESLOT_QUEUE_URL": "the queue",
    "ONESLOT_DEAD_LETTER_QUEUE_URL": "its dead-letter queue",
    "ONESLOT_TABLE_NAME": "a table of a decision, its name in capitals: `ONESLOT_TABLE_SLOTS`",
    "ONESLOT_KEY_NAME": "that table's key: `id`, or `customer,order` with a sort key",
    "ONESLOT_MAX_RECEIVE_COUNT ONESLOT_LONGEST_LEASE_SECONDS ONESLOT_LONGEST_RETRY_DELAY_SECONDS": (
        "the settings of these names; else 10, 900 and 0"
    ),
    "CANDIDATE_SLOTS GROUP_COMMIT CONTENT_BASED_DEDUPLICATION LEDGER_FORGOTTEN_BEFORE": (
        "the settings of these names, for the appointments"
    ),
}
"""Variables of a function or a worker → their values."""

COMMAND_LINE = {
    "ONESLOT_CONSUMER": "the declaration, as `--consumer FILE`",
    "ONESLOT_HOME": "the state folder; else `.oneslot` beside the declaration",
    "ONESLOT_DEBUG": "any text: show an error's traceback in place of its sentence",
    "JAVA_HOME": "the Java of `oneslot audit`; else the one from PyPI",
}
"""Variables of the command line → their values."""

WRITTEN = {"ONESLOT_LOCAL_ASSET", "AWS_LAMBDA_FUNCTION_VERSION"}
"""Variables that Lambda or our programs set for others, and no user does."""

_NAMED = re.compile(r'"(ONESLOT_[A-Z_]+|LEDGER_FORGOTTEN_BEFORE)"')
_CONFIGURED = re.compile(r'(?:number\(environment, |environment\.get\()"([A-Z]+_[A-Z_]+)"\)')


def variables_in_code() -> set[str]:
    """Return every variable of ours that product code names."""
    found = {f"ONESLOT_{field.name.upper()}" for field in fields(Deferral)}
    for folder in ("oneslot", "lambda_src", "stacks"):
        for source in (REPOSITORY / folder).rglob("*.py"):
            text = source.read_text(encoding="utf-8")
            found |= {*_NAMED.findall(text), *_CONFIGURED.findall(text)}
    return {re.sub(r"^ONESLOT_(TABLE|KEY)_.*", r"ONESLOT_\1_NAME", name) for name in found - WRITTEN}


def variables() -> str:
    """Return the list of a function's environment variables. Raises `LookupError` if the code reads others."""
    if wrong := variables_in_code() ^ {name for names in (VARIABLES | COMMAND_LINE) for name in names.split()}:
        raise LookupError(f"not both in the code and in VARIABLES: {', '.join(sorted(wrong))}")
    return _listed(VARIABLES)


def command_lines() -> str:
    """Return the list of the command line's environment variables."""
    return _listed(COMMAND_LINE)


def _listed(variables: Mapping[str, str]) -> str:
    return listing((", ".join(f"`{name}`" for name in names.split()), value) for names, value in variables.items())


def numbers() -> str:
    """Return the table of a consumer's numbers."""
    return _settings(fields(Numbers))


def thresholds() -> str:
    """Return the table of the alarms' thresholds."""
    return table(
        ["argument", "default", "meaning", "for"],
        ([f"`{row.name}`", f"`{getattr(THRESHOLDS, row.name)}`", *MEANINGS[row.name]] for row in fields(Thresholds)),
    )


def others() -> str:
    """Return the table of a stage's other settings."""
    known = {field.name for field in fields(Numbers)}
    return _settings(field for field in fields(Settings) if field.name in OVERRIDABLE and field.name not in known)


def _settings(rows: Iterable[Field[object]]) -> str:
    return table(
        ["setting", "default", "meaning", "for"],
        ([f"`{row.name}`", _default(row.name) + _range(row.name), *MEANINGS[row.name]] for row in rows),
    )


def _default(name: str) -> str:
    dev, prod = default_of("dev", name), default_of("prod", name)
    return f"`{dev or '(empty)'}`" if dev == prod else f"`{dev}`, prod `{prod}`"


def _range(name: str) -> str:
    """Return the range of a number, or the values of a text, in brackets; nothing where the default says the kind."""
    if name in RANGES:
        limit, _ = RANGES[name]
        return f" ({limit[0]:,} to {limit[-1]:,})"
    if name == "log_retention_days":
        return f" ({LOG_RETENTION_DAYS[0]} to {LOG_RETENTION_DAYS[-1]:,})"
    if name == "queue":
        return f" ({', '.join(f'`{kind}`' for kind in QUEUE_KINDS)})"
    return f" (or `{FOREVER}`)" if str(KINDS[name]) == "int | None" else ""
