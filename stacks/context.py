"""A stage's file and CDK's context (`-c name=value`): read as changes of a stage's settings, and written as options."""

import difflib
import json
import re
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from oneslot.cdk.numbers import FOREVER, ContradictorySettings
from stacks.settings import STAGES, Settings

KINDS = {field.name: field.type for field in fields(Settings)}
"""A setting → its type, as `Settings` writes it."""

OF_THE_STAGE = {"stage", "retain_data"}
"""The settings that belong to a stage: change them in `stacks/settings.py`."""

OVERRIDABLE = tuple(name for name in KINDS if name not in OF_THE_STAGE)
"""The settings that a stage's file and `cdk -c name=value` may change."""

STAGE_FILES = Path(__file__).resolve().parents[1] / "stages"
"""The folder with a file for each stage, `prod.json`: the settings that each of its deployments has."""


def settings_from_context(context: Mapping[str, Any], folder: Path | None = None) -> Settings:
    """Return the settings of the stage that CDK's context names (default `dev`), with its file's and the context's overrides.

    Names with a colon or an at sign, that begin with "cli-", or that `cdk acknowledge` writes are CDK's own and are ignored.
    Every other name must be a setting: a shell that passes several options as one word would otherwise drop them all.

    Args:
        folder: has the stages' files, `STAGE_FILES`; None to read no file.

    Raises:
        ContradictorySettings: the stage or a name is unknown, or a value or the file is invalid.
    """
    stage = str(context.get("stage", "dev"))
    if stage not in STAGES:
        raise ContradictorySettings(f"stage {stage!r} is unknown; use -c stage= with one of: {', '.join(STAGES)}")
    given = {
        name: value
        for name, value in context.items()
        if not re.match(r"stage$|cli-|acknowledged-issue-numbers$|.*[:@]", name)
    }
    kept = read_stage_file(stage, folder) if folder else {}
    overrides: dict[str, Any] = {name: _override(name, value) for name, value in {**kept, **given}.items()}
    return replace(STAGES[stage], **overrides)


def read_stage_file(stage: str, folder: Path) -> dict[str, Any]:
    """Return the settings in a stage's file by name; none if there is no file.

    Raises:
        ContradictorySettings: the file is not a JSON object, or names a setting that a file may not change.
    """
    path = folder / f"{stage}.json"
    if not path.exists():
        return {}
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ContradictorySettings(f"stages/{path.name} is not valid JSON: {error}; correct it") from None
    if not isinstance(kept, dict):
        raise ContradictorySettings(f'stages/{path.name} is not a JSON object; write one such as {{"audit": true}}')
    for name in kept:
        if name not in OVERRIDABLE:
            raise ContradictorySettings(_refusal(name, f"stages/{path.name}: {name}"))
    return kept


def given_settings(settings: Settings) -> str:
    """Return what its file and `-c` changed of the stage as command-line options, e.g. `-c audit=true`; empty if nothing."""
    stage = STAGES[settings.stage]
    changed = {name: getattr(settings, name) for name in OVERRIDABLE if getattr(settings, name) != getattr(stage, name)}
    return " ".join(f"-c {name}={_written(value)}" for name, value in changed.items())


def default_of(stage: str, name: str) -> str:
    """Return a stage's own value of a setting, as `-c` writes it."""
    return _written(getattr(STAGES[stage], name))


def _written(value: int | bool | str | None) -> str:
    if value is None:
        return FOREVER
    return str(value).lower() if isinstance(value, bool) else str(value)


def _override(name: str, value: Any) -> int | bool | str | None:
    if name not in OVERRIDABLE:
        raise ContradictorySettings(_refusal(name, f"-c {name}"))
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


def _refusal(name: str, written: str) -> str:
    if name in KINDS:
        return f"{name} belongs to the stage; change it in stacks/settings.py"
    similar = difflib.get_close_matches(name, OVERRIDABLE, n=1)
    remedy = f"did you mean {similar[0]}?" if similar else f"use one of: {', '.join(OVERRIDABLE)}"
    if name.strip() in OVERRIDABLE:
        remedy = 'the shell passed several options as one word; use make deploy STAGE=... SETTINGS="-c name=value"'
    return f"{written} is unknown; {remedy}"
