"""The module that Lambda loads, with its own environment, log and metrics, on SQS's own event JSON."""

import importlib
import json
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any

import pytest

from tests.kits.consumer import NHS_NUMBER, REGION, Bench, Context, bench, booking, record

ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "123456789012",
    "AWS_SECRET_ACCESS_KEY": "none",
    "AWS_DEFAULT_REGION": REGION,
    "AWS_LAMBDA_FUNCTION_VERSION": "7",
    "ONESLOT_LEDGER_TABLE": "ledger",
    "ONESLOT_TABLE_SLOTS": "slots",
    "ONESLOT_TABLE_APPOINTMENTS": "appointments",
    "ONESLOT_LEDGER_RETENTION_SECONDS": "100",
    "BATCH_CONCURRENCY": "1",
    "CANDIDATE_SLOTS": "20",
    "CONTENT_BASED_DEDUPLICATION": "false",
    "POWERTOOLS_SERVICE_NAME": "appointments",
    "POWERTOOLS_METRICS_NAMESPACE": "Oneslot",
}


@pytest.fixture
def made() -> Iterator[Bench]:
    with bench() as made:
        yield made


@pytest.fixture
def handler(made: Bench, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("ONESLOT_QUEUE_URL", made.queue_url)
    monkeypatch.setenv("ONESLOT_DEAD_LETTER_QUEUE_URL", made.dead_letter_queue_url)
    sys.modules.pop("handler", None)
    yield importlib.import_module("handler")
    sys.modules.pop("handler", None)


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_batch_goes_all_the_way(made: Bench, handler: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    future = {"not_before": "2100-01-04T08:00:00Z", "not_after": "2100-01-05T08:00:00Z"}
    past = {"not_before": "2020-01-06T08:00:00Z", "not_after": "2020-01-07T08:00:00Z"}
    records = [
        record(booking(**future)),
        record(booking(**future)),
        record("not JSON"),
        record(booking("late", **past)),
    ]
    records[3]["attributes"]["SentTimestamp"] = "4102444800000"  # SQS's clock and the function's are two
    handler.logger.registered_handler.stream = sys.stdout  # a logger outlives its module, and keeps its first stdout
    assert handler.lambda_handler({"Records": records}, Context(made.clock)) == {"batchItemFailures": []}

    written = lines(capsys.readouterr().out)
    deliveries = [line for line in written if line.get("message") == "delivery"]
    assert [line["outcome"] for line in deliveries] == ["waitlist", "duplicate", "quarantined", "refused"]
    assert {line["sqs_message_id"] for line in deliveries} == {entry["messageId"] for entry in records}
    assert set(deliveries[0]) >= {
        *("receive_count", "sent", "finished", "attempt_ms", "claimed_by", "consumption_count", "answer"),
    }
    assert {line["function_version"] for line in deliveries} == {"7"}, "a gradual deployment counts its failures"
    assert NHS_NUMBER not in json.dumps(written)

    (metrics,) = [line for line in written if "_aws" in line]
    assert metrics["Deliveries"] == [4.0]
    assert metrics["DeliveriesDuplicate"] == [1.0]
    assert metrics["service"] == "appointments"
    assert metrics["SentToDone"] == [deliveries[0]["finished"] - deliveries[0]["sent"], 0]
    (emitted,) = metrics["_aws"]["CloudWatchMetrics"]
    assert {"Name": "SentToDone", "Unit": "Milliseconds"} in emitted["Metrics"]


TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.mark.parametrize(
    ("trace", "logged"),
    [
        (TRACE, TRACE),
        (f"00-{NHS_NUMBER:0>32}-00f067aa0ba902b7-01", None),
        (f"00-{NHS_NUMBER:a<32}-00f067aa0ba902b7-01", None),
        (f"00-4bf92f3577b34da6a3ce929d0e0e4736-{NHS_NUMBER:0<16}-01", None),
        (f"Root=1-5759e988-{NHS_NUMBER:f>24}", None),
    ],
)
def test_log_leaves_the_trace_out_when_it_could_hold_an_nhs_number(
    made: Bench, handler: ModuleType, capsys: pytest.CaptureFixture[str], trace: str, logged: str | None
) -> None:
    handler.logger.registered_handler.stream = sys.stdout
    event = {"Records": [record(booking("m-1"), attributes={"traceparent": trace})]}
    handler.lambda_handler(event, Context(made.clock))
    [line] = [line for line in lines(capsys.readouterr().out) if line.get("message") == "delivery"]
    assert line.get("trace") == logged


def test_only_the_class_of_an_error_is_logged(
    made: Bench, handler: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither its message nor a traceback: both may quote what was asked for."""

    def fail(*arguments: Any) -> Any:
        raise LookupError(f"nothing for {NHS_NUMBER}")

    monkeypatch.setattr("booking.slot_search.SlotSearch._search", fail)
    handler.logger.registered_handler.stream = sys.stdout
    one = record(booking(not_before="2100-01-04T08:00:00Z", not_after="2100-01-05T08:00:00Z"))
    answer = handler.lambda_handler({"Records": [one]}, Context(made.clock))
    assert answer == {"batchItemFailures": [{"itemIdentifier": one["messageId"]}]}
    written = capsys.readouterr()
    (line,) = [line for line in lines(written.out) if line.get("message") == "delivery"]
    assert (line["outcome"], line["reason"]) == ("failed", "LookupError")
    assert NHS_NUMBER not in written.out + written.err
    assert "nothing for" not in written.out + written.err


def test_each_invocation_counts_its_own_when_a_worker_runs_them_side_by_side(
    made: Bench, handler: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also by the variables of a worker, which names no namespace of metrics."""
    monkeypatch.delenv("POWERTOOLS_METRICS_NAMESPACE")

    def consume(number: int) -> None:
        event = {"Records": [record("not JSON")] * number}
        assert handler.lambda_handler(event, Context(made.clock)) == {"batchItemFailures": []}

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(consume, [0, 1, 2, 3, 4] * 3))
    counts = [line["Deliveries"][0] for line in lines(capsys.readouterr().out) if "_aws" in line]
    assert sorted(counts) == [float(number) for number in range(5) for _ in range(3)]
