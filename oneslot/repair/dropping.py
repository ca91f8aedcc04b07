"""Drops dead letters for good, each with its line in the audit trail."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from oneslot.repair.forecast import Forecast
from oneslot.repair.operator_log import BEGUN, DONE, DROP, AuditTrail
from oneslot.runtime.sqs.dead_letters import reading
from oneslot.target import Target


def drop(
    target: Target, chosen: Mapping[str, Forecast], trail: AuditTrail, progress: Callable[[int], None]
) -> list[Forecast]:
    """Delete these (SQS id → what was foreseen) from the dead-letter queue; returns those that are gone."""
    gone: list[Forecast] = []
    with reading(target.sqs, target.outputs.dead_letter_queue_url) as look:
        for batch in look:
            meant = [held for held in batch if held.letter.sqs_message_id in chosen]
            if not meant:
                continue
            for held in meant:
                trail.write(DROP, _subject(chosen[held.letter.sqs_message_id]), BEGUN)
            for held in look.delete(meant):
                forecast = chosen[held.letter.sqs_message_id]
                trail.write(DROP, _subject(forecast), DONE)
                gone.append(forecast)
            progress(len(meant))
            if len(gone) == len(chosen):
                break
    return gone


def _subject(forecast: Forecast) -> dict[str, Any]:
    return {
        "message_id": forecast.letter.message_id,
        "sqs_message_id": forecast.letter.sqs_message_id,
        "source_message_id": forecast.letter.original_sqs_message_id,
        "before": {
            "reason": forecast.letter.reason,
            "outlook": forecast.outlook.value,
            "payload_hash": forecast.facts.payload_hash,
            "sent": forecast.letter.sent,
        },
    }
