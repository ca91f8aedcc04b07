"""The settings of a stage and the environment variables, each with who reads it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import Field, fields
from pathlib import Path

from lab.figures.tables import table
from oneslot.cdk.numbers import FOREVER, LIMITS, LOG_RETENTION_DAYS, Numbers, Thresholds
from oneslot.runtime.sqs.deferral import Deferral
from stacks import limits
from stacks.context import KINDS, OVERRIDABLE, default_of
from stacks.settings import QUEUE_KINDS, Settings

REPOSITORY = Path(__file__).resolve().parents[3]
RANGES = {**LIMITS, **limits.NUMBERS}

MEANINGS = {
    "lambda_timeout_seconds": "the function's timeout, and the longest lease of a claim",
    "lambda_memory_mb": "the function's memory, which sets its share of CPU",
    "batch_size": "messages in one invocation, at most",
    "batching_window_seconds": "how long Lambda waits for a full batch",
    "max_concurrency": "invocations at once, at most",
    "provisioned_pollers": "pollers that always run, 10 invocations each; 0 is Lambda's own scaling",
    "visibility_multiplier": "times the timeout, for which a received message stays hidden",
    "max_receive_count": "receives before a message moves to the dead-letter queue",
    "longest_lease_seconds": "the longest deferral of a busy message; raise it to the `--limit` of workers",
    "longest_retry_delay_seconds": "the longest delay after a failure; 0 waits for the visibility timeout",
    "queue_retention_seconds": "how long the queue keeps a message",
    "dead_letter_retention_seconds": "how long the dead-letter queue does, from the first send",
    "max_message_bytes": "the largest message, attributes included",
    "dead_letter_max_message_bytes": "the same, with the reason of a quarantine",
    "ledger_retention_seconds": "how long the ledger knows a message",
    "ledger_margin_seconds": "the time after both retentions in which a copy may return",
    "table_warm_writes": "writes a second that a table takes at once; 0 is a new table's 4,000",
    "table_maximum_writes": "writes a second above which DynamoDB throttles; 0 is the account's quota",
    "log_retention_days": "how long the delivery log is kept",
    "alarm_oldest_message_seconds": "age of the oldest message",
    "alarm_stalled_minutes": "fewest minutes of a standstill before [its alarm](construct.md#alarms)",
    "alarm_function_errors": "errors of the function in five minutes",
    "alarm_function_throttles": "throttled invocations in five minutes",
    "alarm_failed_deliveries": "failed deliveries in five minutes",
    "alarm_quarantined_deliveries": "quarantined deliveries in five minutes",
    "alarm_table_throttles": "throttled requests of a table in five minutes",
    "alarm_transaction_conflicts": "conflicting transactions in five minutes",
    "snap_start": "start from a snapshot of the imported function; snapshots are billed",
    "gradual_deployment": "a new version gets a tenth of the batches for five minutes first",
    "batch_concurrency": "records of a batch that run at once",
    "candidate_slots": "the earliest free slots among which a request chooses",
    "group_commit": "commit a batch's first deliveries in one transaction",
    "content_based_deduplication": "identify a message without an id by the SHA-256 of its body",
    "queue": "the kind of queue: `fifo` keeps the order within a message group",
    "ledger_forgotten_before": "when the retention was raised, as `2026-11-23T14:00:00Z`",
    "customer_managed_keys": "encrypt with a key of this stage's own",
    "alarm_topic_arn": "the SNS topic of alarms and audit; empty for none",
    "monthly_budget_dollars": "the amount of a month's bill at which to notify; 0 for none",
    "budget_mail": "the mailbox of the budget; empty for the topic",
    "backup": "back ledger and appointments up each night, into a vault of their own",
    "backup_days": "how long a backup is kept",
    "audit": "deploy the nightly audit",
    "audit_workers": "Glue's workers of the Spark job",
    "retain_data": "tables and keys outlive a deleted stack",
}

FUNCTION, CLI, APP = "function", "`oneslot`", "CDK app"

VARIABLES = {
    "ONESLOT_LEDGER_TABLE": (f"{FUNCTION}, `oneslot worker`", "the ledger's table"),
    "ONESLOT_LEDGER_RETENTION_SECONDS": (f"{FUNCTION}, worker, audit", "how long a row is kept, or `forever`"),
    "ONESLOT_QUEUE_URL": (f"{FUNCTION}, `oneslot worker`", "the queue"),
    "ONESLOT_DEAD_LETTER_QUEUE_URL": (f"{FUNCTION}, worker", "its dead-letter queue"),
    "ONESLOT_TABLE_NAME": (f"{FUNCTION}, worker", "a table of a decision, its name in capitals: `ONESLOT_TABLE_SLOTS`"),
    "ONESLOT_MAX_RECEIVE_COUNT": (f"{FUNCTION}, worker", "the setting of this name; else 10"),
    "ONESLOT_LONGEST_LEASE_SECONDS": (f"{FUNCTION}, worker", "the setting of this name; else 900"),
    "ONESLOT_LONGEST_RETRY_DELAY_SECONDS": (f"{FUNCTION}, worker", "the setting of this name; else 0"),
    "BATCH_CONCURRENCY": ("the appointments' function", "the setting of this name"),
    "CANDIDATE_SLOTS": ("the appointments' function", "the setting of this name"),
    "CONTENT_BASED_DEDUPLICATION": ("the appointments' function, `oneslot dlq`", "`true` or `false`"),
    "GROUP_COMMIT": ("the appointments' function", "`true` or `false`"),
    "LEDGER_FORGOTTEN_BEFORE": ("`oneslot check`, audit", "the setting of this name"),
    "POWERTOOLS_SERVICE_NAME": ("Powertools in the function", "the dimension `service`"),
    "POWERTOOLS_METRICS_NAMESPACE": ("Powertools in the function", "the metrics' namespace"),
    "POWERTOOLS_LOG_LEVEL": ("Powertools in the function", "the log level"),
    "ONESLOT_CONSUMER": (CLI, "the declaration, as `--consumer FILE`; else `oneslot.toml` here or above"),
    "ONESLOT_HOME": (CLI, "the state folder; else `.oneslot` beside the declaration"),
    "ONESLOT_DEBUG": (CLI, "any text: show an error's traceback in place of its sentence"),
    "JAVA_HOME": ("`oneslot audit`", "the Java of Spark; else the one from PyPI"),
    "JSII_NODE": (APP, "the Node.js of the CDK library; else the one from PyPI"),
    "JSII_RUNTIME_PACKAGE_CACHE_ROOT": (APP, "the folder of its cache; else beside the environment"),
    "JSII_RUNTIME_PACKAGE_CACHE": (APP, "whether it has one"),
}
"""A variable → who reads it, and its value."""

WRITTEN = {
    *("JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION", "ONESLOT_LOCAL_ASSET", "POWERTOOLS_TRACE_DISABLED"),
    "AWS_LAMBDA_FUNCTION_VERSION",
}
"""Variables that Lambda or our programs set for others, and no user does."""

_NAMED = re.compile(r'"((?:ONESLOT|POWERTOOLS|JSII)_[A-Z_]+|LEDGER_FORGOTTEN_BEFORE)"')
_CONFIGURED = re.compile(r'(?:number\(environment, |environment\.get\()"([A-Z]+_[A-Z_]+)"\)')


def variables_in_code() -> set[str]:
    """Return every variable of ours, or of a library, that product code names."""
    found = {f"ONESLOT_{field.name.upper()}" for field in fields(Deferral)}
    for folder in ("oneslot", "lambda_src", "stacks"):
        for source in (REPOSITORY / folder).rglob("*.py"):
            text = source.read_text(encoding="utf-8")
            found |= {*_NAMED.findall(text), *_CONFIGURED.findall(text)}
    return {"ONESLOT_TABLE_NAME" if name.startswith("ONESLOT_TABLE_") else name for name in found - WRITTEN}


def variables() -> str:
    """Return the table of environment variables. Raises `LookupError` if it lacks one, or has one that no code reads."""
    if wrong := variables_in_code() ^ VARIABLES.keys():
        raise LookupError(f"not both in the code and in VARIABLES: {', '.join(sorted(wrong))}")
    return table(["variable", "read by", "value"], ([f"`{name}`", *VARIABLES[name]] for name in VARIABLES))


def numbers() -> str:
    """Return the table of a consumer's numbers."""
    return _settings(fields(Numbers))


def thresholds() -> str:
    """Return the table of the alarms' thresholds."""
    return _settings(fields(Thresholds))


def others() -> str:
    """Return the table of a stage's other settings."""
    known = {field.name for of in (Numbers, Thresholds) for field in fields(of)}
    return _settings(field for field in fields(Settings) if field.name not in known | {"stage"})


def _settings(rows: Iterable[Field[object]]) -> str:
    return table(
        ["setting", "default", "range", "meaning"],
        ([f"`{row.name}`", _default(row.name), _range(row.name), _meaning(row.name)] for row in rows),
    )


def _default(name: str) -> str:
    dev, prod = default_of("dev", name), default_of("prod", name)
    return f"`{dev or '(empty)'}`" if dev == prod else f"`{dev}`, prod `{prod}`"


def _range(name: str) -> str:
    if name in RANGES:
        limit, _ = RANGES[name]
        return f"{limit[0]:,} to {limit[-1]:,}"
    if name == "log_retention_days":
        return f"{LOG_RETENTION_DAYS[0]} to {LOG_RETENTION_DAYS[-1]:,}, as CloudWatch Logs offers"
    if name == "queue":
        return ", ".join(f"`{kind}`" for kind in QUEUE_KINDS)
    return {"bool": "`true`, `false`", "str": "text", "int | None": f"whole, or `{FOREVER}`"}.get(
        str(KINDS[name]), "whole"
    )


def _meaning(name: str) -> str:
    return MEANINGS[name] + ("" if name in OVERRIDABLE else " †")
