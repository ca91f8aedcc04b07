"""Sentences agree in number with their counts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from oneslot.audit.conclusion import sentence
from oneslot.audit.model import model_of
from oneslot.audit.report.page import story
from oneslot.errors import BadInput
from oneslot.laws.request import RequestVerdict
from tests.kits.moto_stack import MotoStack, invoke
from workload.declared import CONSUMER
from workload.generator import Mix
from workload.seeding import Seeded

MODEL = model_of(CONSUMER)


def told(verdict: str, count: int, *, sound: bool = True) -> tuple[str, list[str]]:
    """Return the conclusion and the report's story of `count` requests with one verdict, each delivered twice."""
    made: dict[str, Any] = {
        "sound": sound,
        "requests": count,
        "verdicts": dict.fromkeys(MODEL.verdicts, 0) | {verdict: count},
        "violations": dict.fromkeys(MODEL.sentences, 0),
        "sums": {"deliveries": 2 * count, "deliveries_duplicate": count},
        "rejects": {"lines": count, "above_limit": False, "limit_share": 0.001},
    }
    data: Any = SimpleNamespace(document=made, total=lambda _: count, latency=[], model=MODEL)
    return sentence(made), story(data)


@pytest.mark.parametrize(
    ("verdict", "count", "concluded"),
    [
        (RequestVerdict.IN_FLIGHT, 1, "1 is still in flight. 1 line could not be read"),
        (RequestVerdict.IN_FLIGHT, 2, "2 are still in flight. 2 lines could not be read"),
        (RequestVerdict.DROPPED, 1, "1 was dropped from the dead-letter queue by an operator."),
        (RequestVerdict.FORGOTTEN, 1, "1 is older than the ledger's retention, and no source shows how it ended."),
        (RequestVerdict.FORGOTTEN, 2, "2 are older than the ledger's retention, and no source shows how they ended."),
    ],
)
def test_conclusion_agrees_in_number(verdict: RequestVerdict, count: int, concluded: str) -> None:
    assert concluded in told(verdict, count)[0]


def test_conclusion_agrees_in_number_when_one_is_lost() -> None:
    assert told(RequestVerdict.LOST, 1, sound=False)[0].startswith("Of 1 request: 1 lost. 1 line could")


def test_report_agrees_in_number() -> None:
    assert told("booked", 1)[1][:2] == [
        "Of 1 request, 1 has one slot.",
        "SQS made 2 deliveries, of which 1 was a duplicate and got the first answer. 1 attempt took over from a crashed one.",
    ]
    assert told("booked", 2)[1][:2] == [
        "Of 2 requests, 2 have one slot each.",
        "SQS made 4 deliveries, of which 2 were duplicates and got the first answer. "
        "2 attempts took over from a crashed one.",
    ]


def test_mix_error_agrees_in_number() -> None:
    with pytest.raises(BadInput, match="Of 1 request, 1 cancellation and 0 malformed leave too few"):
        Mix(1, cancellations=1.0)


def test_seed_agrees_in_number(moto_stack: MotoStack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workload.commands.seed.insert", lambda *_, **__: Seeded(kept=1))
    said = invoke("seed", "--practice-count", "1", "--slots", "1", "--days", "1").stdout
    assert "0 new, 1 existing and unchanged." in said
