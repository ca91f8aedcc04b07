"""What CDK's context (`-c name=value`) changes of a stage's settings, and how to say it again."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from stacks.settings import FOREVER, STAGES, ContradictorySettings, Settings

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
"""What `cdk -c name=value` may change. The rest belongs to a stage, and is changed in `stacks/settings.py`."""

KINDS = {field.name: field.type for field in fields(Settings)}
"""Every setting by its name → its type, as `Settings` writes it."""


def settings_from_context(context: Mapping[str, Any]) -> Settings:
    """The settings of the stage that CDK's context names (default `dev`), with the context's overrides.

    Raises `ContradictorySettings` with one sentence for an unknown stage, an unknown name, or a value of the wrong kind.
    CDK's own context keys have a colon or an at sign in them, or begin with "cli-", and are not looked at.
    """
    stage = str(context.get("stage", "dev"))
    if stage not in STAGES:
        raise ContradictorySettings(f"stage {stage!r} is unknown; use -c stage= with one of: {', '.join(STAGES)}")
    names = [name for name in context if name != "stage" and re.fullmatch(r"(?!cli-)[A-Za-z_-]+", name)]
    overrides: dict[str, Any] = {name: _override(name, context[name]) for name in names}
    return replace(STAGES[stage], **overrides)


def given_settings(settings: Settings) -> str:
    """What `-c` changed of the stage, as it is to be given again: `-c audit=true -c max_concurrency=100`; empty if nothing."""
    stage = STAGES[settings.stage]
    changed = {name: getattr(settings, name) for name in OVERRIDABLE if getattr(settings, name) != getattr(stage, name)}
    said = {name: FOREVER if value is None else value for name, value in changed.items()}
    return " ".join(
        f"-c {name}={str(value).lower() if value is True or value is False else value}" for name, value in said.items()
    )


def _override(name: str, value: Any) -> int | bool | str | None:
    if name not in OVERRIDABLE and name in KINDS:
        raise ContradictorySettings(f"{name} belongs to the stage; change it in stacks/settings.py")
    if name not in OVERRIDABLE:
        similar = difflib.get_close_matches(name, OVERRIDABLE, n=1)
        remedy = f"did you mean {similar[0]}?" if similar else f"these can be: {', '.join(OVERRIDABLE)}"
        raise ContradictorySettings(f"{name} is no setting that -c can change; {remedy}")
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
