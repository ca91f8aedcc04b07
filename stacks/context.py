"""CDK's context (`-c name=value`): read as changes of a stage's settings, and written as the options to repeat them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from oneslot.cdk.numbers import FOREVER, ContradictorySettings
from stacks.settings import STAGES, Settings

OVERRIDABLE = (
    "queue",
    "lambda_timeout_seconds",
    "lambda_memory_mb",
    "snap_start",
    "batch_concurrency",
    "candidate_slots",
    "content_based_deduplication",
    "group_commit",
    "batch_size",
    "batching_window_seconds",
    "max_concurrency",
    "visibility_multiplier",
    "max_receive_count",
    "queue_retention_seconds",
    "dead_letter_retention_seconds",
    "ledger_retention_seconds",
    "ledger_margin_seconds",
    "ledger_forgotten_before",
    "log_retention_days",
    "customer_managed_keys",
    "alarm_topic_arn",
    "audit",
    "audit_full_every_days",
    "audit_history_days",
    "audit_result_days",
    "audit_workers",
    "audit_timeout_hours",
    "audit_export_hours",
)
"""The settings that `cdk -c name=value` may change. The others belong to a stage: change them in `stacks/settings.py`."""

KINDS = {field.name: field.type for field in fields(Settings)}
"""A setting → its type, as `Settings` writes it."""


def settings_from_context(context: Mapping[str, Any]) -> Settings:
    """Return the settings of the stage that CDK's context names (default `dev`), with the context's overrides.

    Names with a colon or an at sign, or that begin with "cli-", are CDK's own and are ignored.

    Raises:
        ContradictorySettings: the stage or a name is unknown, or a value is invalid.
    """
    stage = str(context.get("stage", "dev"))
    if stage not in STAGES:
        raise ContradictorySettings(f"stage {stage!r} is unknown; use -c stage= with one of: {', '.join(STAGES)}")
    names = [name for name in context if name != "stage" and re.fullmatch(r"(?!cli-)[A-Za-z_-]+", name)]
    overrides: dict[str, Any] = {name: _override(name, context[name]) for name in names}
    return replace(STAGES[stage], **overrides)


def given_settings(settings: Settings) -> str:
    """Return what `-c` changed of the stage as command-line options, e.g. `-c audit=true`; empty if nothing."""
    stage = STAGES[settings.stage]
    changed = {name: getattr(settings, name) for name in OVERRIDABLE if getattr(settings, name) != getattr(stage, name)}
    return " ".join(f"-c {name}={_written(value)}" for name, value in changed.items())


def _written(value: int | bool | str | None) -> str:
    if value is None:
        return FOREVER
    return str(value).lower() if isinstance(value, bool) else str(value)


def _override(name: str, value: Any) -> int | bool | str | None:
    if name not in OVERRIDABLE:
        raise ContradictorySettings(_refusal(name))
    text = str(value).strip()
    kind = KINDS[name]
    if kind == "str":
        return text.lower() if name == "queue" else text
    if kind == "bool":
        if text.lower() not in {"true", "false"}:
            raise ContradictorySettings(f"{name} is {text!r}; use true or false")
        return text.lower() == "true"
    if kind == "int | None" and text.lower() == FOREVER:
        return None
    if not re.fullmatch(r"-?[0-9]{1,12}", text):
        other = f", or {FOREVER}" if kind == "int | None" else ""
        raise ContradictorySettings(f"{name} is {text!r}; use a whole number{other}")
    return int(text)


def _refusal(name: str) -> str:
    if name in KINDS:
        return f"{name} belongs to the stage; change it in stacks/settings.py"
    similar = difflib.get_close_matches(name, OVERRIDABLE, n=1)
    remedy = f"did you mean {similar[0]}?" if similar else f"use one of: {', '.join(OVERRIDABLE)}"
    return f"-c {name} is unknown; {remedy}"
