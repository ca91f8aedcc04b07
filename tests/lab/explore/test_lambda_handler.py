"""The deployed `handler.lambda_handler`, unmodified and on boto3's own clients, in the explorer of any handler."""

from pathlib import Path

import pytest

import lambda_src
from lab.explore.practice import APPOINTMENTS, LEDGER, SLOTS, TABLES, booking, free_slots
from lab.handlers.questions.__main__ import CONSTRUCT
from oneslot.explorer.handlers.exploration import explore


@pytest.mark.slow
def test_deployed_handler_takes_effect_as_if_once() -> None:
    found = explore(
        "handler.lambda_handler",
        path=[Path(folder) for folder in lambda_src.__path__],
        messages=[booking("r-1").body],
        tables={name: TABLES[name] for name in (SLOTS, APPOINTMENTS, LEDGER)},
        rows={SLOTS: free_slots(2)},
        ignore=[f"{LEDGER}.consumption_count"],
        budget=300,
        env={
            **CONSTRUCT,
            "ONESLOT_TABLE_SLOTS": SLOTS,
            "ONESLOT_TABLE_APPOINTMENTS": APPOINTMENTS,
            "BATCH_CONCURRENCY": "1",
            "CANDIDATE_SLOTS": "20",
            "CONTENT_BASED_DEDUPLICATION": "false",
            "POWERTOOLS_SERVICE_NAME": "appointments",
            "POWERTOOLS_METRICS_NAMESPACE": "Oneslot",
        },
    )

    assert (found.holds, found.outside) == (True, ())
    assert sum(level.states for level in found.levels) > 1_000
