"""Drop dead letters: delete them for good, each with its lines in the operator log."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from oneslot.operator.evidence.dead_letters import read_dead_letters
from oneslot.operator.evidence.operator_log import BEGUN, DONE, DROP, NOT_DONE, OperatorLog
from oneslot.operator.repair.forecast import Forecast
from oneslot.operator.target import Target


def drop(
    target: Target, chosen: Mapping[str, Forecast], log: OperatorLog, progress: Callable[[int], None]
) -> list[Forecast]:
    """Delete the chosen letters (SQS id → forecast) from the dead-letter queue; return the deleted ones."""
    gone: list[Forecast] = []
    with read_dead_letters(target) as look:
        for batch in look:
            meant = [held for held in batch if held.letter.sqs_message_id in chosen]
            if not meant:
                continue
            for held in meant:
                log.write(DROP, _subject(chosen[held.letter.sqs_message_id]), BEGUN)
            deleted = {held.letter.sqs_message_id for held in look.delete(meant)}
            for held in meant:
                forecast, is_gone = chosen[held.letter.sqs_message_id], held.letter.sqs_message_id in deleted
                log.write(DROP, _subject(forecast), DONE if is_gone else NOT_DONE)
                if is_gone:
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
