"""One booking, traced through our own code: few files, few changes between them, each parser once."""

from __future__ import annotations

import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from types import FrameType

import pytest

from tests.kits.consumer import bench, booking, record

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = (f"{ROOT}/oneslot/", f"{ROOT}/lambda_src/")
LEAF = f"{ROOT}/oneslot/runtime/values.py"
"""The conversion of values, which boto3 did before: a leaf, which a reader of the path need not enter."""
MOST_FILES, MOST_CHANGES_OF_FILE = 15, 36
PARSERS = ("parse_body", "identify", "payload_hash", "parse_message")


def trace_one_booking() -> list[tuple[str, str]]:
    """Return `(file, function)` of each call of our own code while the consumer books one request."""
    calls: list[tuple[str, str]] = []

    def profile(frame: FrameType, event: str, _: object) -> None:
        path = frame.f_code.co_filename
        if event == "call" and path.startswith(PRODUCT) and path != LEAF:
            calls.append((path.removeprefix(f"{ROOT}/"), frame.f_code.co_name))

    with bench() as made:
        made.deliver(record(booking("m-first")))  # loads what later bookings find loaded
        traced = record(booking("m-traced"))
        sys.setprofile(profile)
        try:
            failed = made.deliver(traced)
        finally:
            sys.setprofile(None)
    assert failed == []
    return calls


@pytest.fixture(scope="module")
def calls() -> list[tuple[str, str]]:
    return trace_one_booking()


@pytest.mark.parametrize("parser", PARSERS)
def test_one_booking_calls_each_parser_once(calls: list[tuple[str, str]], parser: str) -> None:
    functions = Counter(function for _, function in calls)
    assert functions[parser] == 1, "\n".join(f"{file}: {function}" for file, function in calls)


def test_one_booking_stays_within_few_files(calls: list[tuple[str, str]]) -> None:
    files = [file for file, _ in calls]
    changes = sum(one != next_one for one, next_one in pairwise(files))
    path = "\n".join(f"{file}: {function}" for file, function in calls)
    assert len(set(files)) <= MOST_FILES, path
    assert changes <= MOST_CHANGES_OF_FILE, path
