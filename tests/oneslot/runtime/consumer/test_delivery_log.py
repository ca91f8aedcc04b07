"""A line of the delivery log: the producer's trace in it, and its form."""

from __future__ import annotations

import json
from typing import Any

import pytest

from oneslot.runtime.consumer.delivery_log import Delivery, print_line, trace_of
from tests.kits.consumer import record

W3C = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
XRAY = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"


def traced(traceparent: str | None = None, header: str | None = None) -> dict[str, Any]:
    raw = record({}, attributes=None if traceparent is None else {"traceparent": traceparent})
    if header is not None:
        raw["attributes"]["AWSTraceHeader"] = header
    return raw


@pytest.mark.parametrize(
    ("traceparent", "header", "trace"),
    [
        (None, None, None),
        (W3C, None, W3C),
        (None, XRAY, XRAY),
        (W3C, XRAY, W3C),
        ("NHS number 9990000018", XRAY, XRAY),
        (None, f"{XRAY};Lineage=1:abcd1234:0", XRAY),
        (None, "Root=1-5759e988-bd862e3fe1be46a994272793", "Root=1-5759e988-bd862e3fe1be46a994272793"),
        (f" {W3C}", f"of 9990000018;{XRAY}", None),
    ],
)
def test_trace_is_the_producers_in_a_known_form(traceparent: str | None, header: str | None, trace: str | None) -> None:
    assert trace_of(traced(traceparent, header)) == trace


def test_trace_is_none_when_the_attribute_is_binary() -> None:
    raw = record({})
    raw["messageAttributes"]["traceparent"] = {"binaryValue": "AA==", "dataType": "Binary"}
    assert trace_of(raw) is None


def test_trace_is_none_when_the_event_was_written_by_hand() -> None:
    raw = record({})
    del raw["messageAttributes"]
    assert trace_of(raw) is None


def test_line_is_one_json_document(capsys: pytest.CaptureFixture[str]) -> None:
    print_line(Delivery("sqs-1", 2, 3, "request-1", trace=W3C))

    out = capsys.readouterr().out
    assert out.endswith("}\n")
    line = json.loads(out)
    assert (line["message"], line["sqs_message_id"], line["receive_count"], line["trace"]) == (
        "delivery",
        "sqs-1",
        2,
        W3C,
    )
