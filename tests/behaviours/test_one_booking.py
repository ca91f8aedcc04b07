"""One booking, traced from Lambda's call through every file of ours: few calls and files, few changes between them, one parse.

Only libraries, and the methods that a dataclass generates, are left out.
"""

import importlib
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from types import FrameType

import pytest

from tests.kits.consumer import REGION, Context, bench, booking, record

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = (f"{ROOT}/oneslot/", f"{ROOT}/lambda_src/")
MOST_CALLS, MOST_FILES, MOST_CHANGES_OF_FILE = 167, 14, 40
"""Of all files, as each value here. They were 501, 18 and 135 before effects were compiled once."""
PARSERS = ("parse_body", "identify", "payload_hash", "parse_message")


def trace_one_booking(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Return `(file, function)` of each call of our own code while the Lambda handler books one request."""
    calls: list[tuple[str, str]] = []

    def profile(frame: FrameType, event: str, _: object) -> None:
        path, function = frame.f_code.co_filename, frame.f_code.co_name
        if event == "call" and path.startswith(PRODUCT):
            calls.append((path.removeprefix(f"{ROOT}/"), function))

    with bench() as made:
        for name, value in {
            **made.environment,
            "AWS_DEFAULT_REGION": REGION,
            "POWERTOOLS_METRICS_NAMESPACE": "Oneslot",
            "POWERTOOLS_SERVICE_NAME": "appointments",
        }.items():
            monkeypatch.setenv(name, value)
        monkeypatch.delitem(sys.modules, "handler", raising=False)
        handler = importlib.import_module("handler").lambda_handler
        handler({"Records": [record(booking("m-first"))]}, Context(made.clock))  # loads what later bookings find loaded
        event = {"Records": [record(booking("m-traced"))]}
        sys.setprofile(profile)
        try:
            answer = handler(event, Context(made.clock))
        finally:
            sys.setprofile(None)
            sys.modules.pop("handler", None)
    assert answer == {"batchItemFailures": []}
    return calls


def test_one_booking_stays_within_few_files_and_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = trace_one_booking(monkeypatch)

    path = "\n".join(f"{file}: {function}" for file, function in calls)
    functions = Counter(function for _, function in calls)
    assert {parser: functions[parser] for parser in PARSERS} == dict.fromkeys(PARSERS, 1), path
    files = [file for file, _ in calls]
    changes = sum(one != next_one for one, next_one in pairwise(files))
    assert len(calls) <= MOST_CALLS, path
    assert len(set(files)) <= MOST_FILES, path
    assert changes <= MOST_CHANGES_OF_FILE, path
