"""Two different records in one delivery, after a handler holds with one."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from oneslot.explorer.handlers.exploration import explore_given
from oneslot.explorer.handlers.given import Given
from oneslot.explorer.handlers.templates.sources import QUEUES, SQS, FunctionSource
from oneslot.explorer.handlers.verdict import Result
from oneslot.explorer.refusal import NotExplorable

NO_TEST_OF_BATCH = "Its delivery has two records, which come again one by one. A written test delivers one event."
OWN_CHOICES = ("batch", "law")
"""The values of a scenario that speak of its own messages, so that no other message is made beside them."""
NO_SECOND = "the event is recorded, and has one. Record one with two"


def one_at_a_time(source: FunctionSource, why: str) -> str:
    """Return the remark that no batch was explored."""
    return f"One {_noun(source)} at a time: {why.rstrip('.')}."


def in_batches(
    source: FunctionSource, one: Result, given: Given, batches: Iterable[Mapping[str, Any]], ends: float
) -> Result:
    """Explore batches of a handler that holds with one record, until `ends`, and return the verdict of both.

    Once one fault is explored, a budget that ends does not change the verdict: it names the most faults.
    """
    noun, verdict, faults = _noun(source), one.verdict, 0
    for batch in batches:
        apart = "of one body" if source.kind == SQS else "of two groups"
        where = apart if batch.get("batch") == 1 else "in one batch"
        try:
            result = explore_given(replace(given, **{**batch, "budget": max(1.0, ends - time.monotonic())}))
        except NotExplorable as error:
            return replace(one, remark=one_at_a_time(source, f"with two in a batch, {error}"))
        if batch.get("batch") == 1 and (result.level == "once" or result.kind == "not finished"):
            continue
        if result.level == "once":
            why = f"on a second one that the scan made it {result.verdict}"
            return replace(one, remark=one_at_a_time(source, why))
        if result.kind == "breaks":
            return replace(result, verdict=f"with two {noun}s {where} it {result.verdict}", in_batch=True)
        if result.kind == "not finished" and faults:
            break
        if result.kind == "not finished":
            text = f"it holds at every level with one {noun} in a batch; with two, {result.verdict}"
            remedy = "To complete the next level, raise the budget."
            return replace(result, verdict=text, remedy=remedy)
        one, faults = one.also(result), batch["faults"]
        verdict = f"{one.verdict}, also with two {noun}s {where} and {faults} fault{'s' if faults > 1 else ''}"
    return replace(one, verdict=verdict)


def _noun(source: FunctionSource) -> str:
    return "message" if source.kind in QUEUES else "record"
