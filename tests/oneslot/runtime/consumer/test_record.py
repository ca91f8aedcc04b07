"""A record is parsed once, and carries its problem instead of raising it."""

import hashlib
import json
import traceback
from typing import Any, cast

import jsonschema
import pytest

from appointments.nhs_number import could_hold_one
from oneslot.runtime.effects import INVALID_MESSAGE_ID, Unprocessable
from oneslot.runtime.record import FIELDS, Delivery, Identity, InvalidIdentity, Record, payload_hash, print_line
from oneslot.runtime.sqs.queue import QUARANTINE_ATTRIBUTES
from oneslot.runtime.typed import JsonMessage
from tests.kits.consumer import NHS_NUMBER, record


def parse_with(error: BaseException) -> Record[Any]:
    def parse(*_: Any) -> Any:
        raise error

    return Record.parse(record({"message_id": "m-1"}), parse)


@pytest.mark.parametrize("name", ["messageId", "receiptHandle", "body", "attributes"])
def test_field_is_needed_when_no_record_is_parsed_without_it(name: str) -> None:
    raw = record({"message_id": "m-1"})
    del raw[name]
    with pytest.raises(KeyError, match=name):
        Record.parse(raw, JsonMessage)
    assert name in FIELDS


@pytest.mark.parametrize("error", [ValueError("of the parser"), Unprocessable("invalid_field", "detail"), SystemExit()])
def test_parse_keeps_the_problem_and_the_id(error: BaseException) -> None:
    parsed = parse_with(error)
    assert (parsed.problem, parsed.message, parsed.message_id) == (error, None, "m-1")


@pytest.mark.parametrize(
    ("queue", "attributes", "group"),
    [
        ("requests.fifo", {"MessageGroupId": "g"}, "g"),
        ("requests", {"MessageGroupId": "g"}, None),
        ("requests.fifo", {}, None),
    ],
)
def test_group_is_read_when_the_queue_keeps_order(queue: str, attributes: dict[str, str], group: str | None) -> None:
    raw = record({"message_id": "m-1"})
    raw["eventSourceARN"] = f"arn:aws:sqs:eu-west-2:123456789012:{queue}"
    raw["attributes"] |= attributes
    parsed: Record[Any] = Record.parse(raw, lambda *_: cast("Any", None))
    assert parsed.group == group


def test_identity_replaces_the_usual_rules_for_the_id() -> None:
    raw = record({"message_id": "of-the-body", "order": 7}, attributes={"MessageDeduplicationId": "of-the-attribute"})

    parsed = Record.parse(raw, JsonMessage, identity=lambda record: record["messageId"])

    body = {"message_id": "of-the-body", "order": 7}
    assert parsed.message == JsonMessage(raw["messageId"], payload_hash(body), body)
    assert (parsed.message_id, parsed.problem) == (raw["messageId"], None)


def test_identity_that_must_not_become_a_key_is_unprocessable() -> None:
    parsed = Record.parse(record({}), JsonMessage, identity=lambda _: Identity("not valid", {}))

    assert isinstance(parsed.problem, Unprocessable)
    assert (parsed.problem.reason, parsed.message_id, parsed.message) == (INVALID_MESSAGE_ID, None, None)


def test_identity_never_sees_what_a_quarantine_left() -> None:
    """With the attributes in its content, a redriven message would be a conflict."""
    raw = record({}, attributes={"own": "x", **dict.fromkeys(QUARANTINE_ATTRIBUTES, "left")})
    assert Record.parse(raw, JsonMessage, identity=lambda seen: ".".join(seen["messageAttributes"])).message_id == "own"


UUID = "cccccccc-0000-4000-8000-cccccccccccc"
LEFT = {"QuarantineReason": "not_json", "SourceMessageId": UUID}
PRIVATE = {"SourceMessageId": f"00000000-0000-4000-8000-00{NHS_NUMBER}"}


@pytest.mark.parametrize(
    "attributes", [LEFT, {"SourceMessageId": UUID}, LEFT | {"SourceMessageId": "x"}, LEFT | PRIVATE]
)
def test_record_has_its_first_sqs_id_when_a_quarantine_left_it(attributes: dict[str, str]) -> None:
    raw = record({}, attributes=attributes)
    sent_as = Record.parse(raw, JsonMessage, is_private=could_hold_one).sent_as
    assert sent_as == (UUID if attributes == LEFT else raw["messageId"])


W3C = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
XRAY = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"


def parsed(raw: dict[str, Any]) -> Record[Any]:
    return Record.parse(raw, JsonMessage)


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
    assert parsed(traced(traceparent, header)).trace == trace


@pytest.mark.parametrize(
    "attributes",
    [
        None,
        {"MessageDeduplicationId": None, "traceparent": None},
        {"traceparent": {"binaryValue": "AA==", "dataType": "Binary"}},
    ],
)
def test_record_is_parsed_without_a_trace_when_its_attributes_are_null_or_binary(attributes: Any) -> None:
    raw = record({"message_id": "m-1"})
    raw["messageAttributes"] = attributes
    by_hand = {name: raw[name] for name in FIELDS}

    for made in (parsed(raw), parsed(by_hand)):
        assert (made.message_id, made.problem, made.trace) == ("m-1", None, None)


def test_json_message_has_its_bodys_digest_by_default() -> None:
    assert JsonMessage("m-1", body={"order": 7}).payload_hash == payload_hash({"order": 7})
    assert JsonMessage("m-1", "given", {"order": 7}).payload_hash == "given"


@pytest.mark.parametrize(
    "body",
    [
        '["software.amazon.payloadoffloading.PayloadS3Pointer", {"s3BucketName": "large", "s3Key": "k"}]',
        "eyJvcmRlciI6IDd9",
        "plain text",
        "",
        '{"twice": 1, "twice": 2}',
        '{"number": 1e400}',
    ],
)
def test_identity_is_asked_first_when_the_body_is_no_json_object(body: str) -> None:
    parsed = Record.parse(record(body), JsonMessage, identity=lambda record: "o-7")

    assert (parsed.message_id, parsed.problem) == ("o-7", None)
    assert parsed.message == JsonMessage("o-7", payload_hash(body), body)
    assert payload_hash(body) == hashlib.sha256(body.encode()).hexdigest()


@pytest.mark.parametrize("returned", [None, 7, b"o-7", ["o-7"], ("o-7", {}), Identity(None, {}), Identity(7, {})])  # type: ignore[arg-type]
def test_identity_is_at_fault_when_it_returns_no_text(returned: Any) -> None:
    """The whole queue would be quarantined: the next version of the function can still find the ids."""
    parsed: Record[Any] = Record.parse(record({}), JsonMessage, identity=lambda _: returned)

    assert isinstance(parsed.problem, InvalidIdentity)
    assert "return the id as text, or raise Unprocessable" in str(parsed.problem)
    assert (parsed.message_id, parsed.message) == (None, None)


class ValidationError(ValueError):
    """Pydantic's, as its second version raises it: `errors()` has the places, the rules, and the message's values."""

    def __init__(self, *places: tuple[tuple[str | int, ...], str]) -> None:
        super().__init__(f"1 validation error for Order: input_value={NHS_NUMBER}")
        self._places = places

    def errors(self) -> list[dict[str, Any]]:
        return [
            {"loc": place, "type": rule, "msg": f"not {NHS_NUMBER}", "input": NHS_NUMBER, "url": "https://errors"}
            for place, rule in self._places
        ]


def of_jsonschema() -> Any:
    schema = {"properties": {"lines": {"items": {"type": "object"}}}}
    (error,) = jsonschema.Draft202012Validator(schema).iter_errors({"lines": [{}, NHS_NUMBER]})
    return error


class Refused(Unprocessable):
    pass


Refused.__name__ = "ValidationError"


class WithoutPlaces(Exception):
    pass


WithoutPlaces.__name__ = "ValidationError"


@pytest.mark.parametrize(
    ("error", "fields"),
    [
        (ValidationError((("quantity",), "int_parsing")), "quantity (int_parsing)"),
        (
            ValidationError((("lines", 1, "sku"), "missing"), ((), "value_error")),
            "lines[1].sku (missing); the whole message (value_error)",
        ),
        (ValidationError(((NHS_NUMBER,), "extra_forbidden")), "... (extra_forbidden)"),
        (
            ValidationError(*[(("lines", at), "missing") for at in range(9)]),
            "; ".join([f"lines[{at}] (missing)" for at in range(5)] + ["and 4 more"]),
        ),
        (
            ValidationError(*[(("lines", at), "missing") for at in range(5)]),
            "; ".join(f"lines[{at}] (missing)" for at in range(5)),
        ),
        (of_jsonschema(), "lines[1] (type)"),
        (WithoutPlaces(NHS_NUMBER), "see the model"),
    ],
)
def test_message_is_unprocessable_when_its_model_refuses_it(error: Exception, fields: str) -> None:
    problem = parse_with(error).problem

    assert isinstance(problem, Unprocessable)
    assert (problem.reason, problem.detail) == ("invalid_message", f"the message does not fit its model: {fields}")
    assert NHS_NUMBER not in "".join(traceback.format_exception(problem))


def test_parsers_own_reason_is_kept_when_its_error_has_a_models_name() -> None:
    error = Refused("unknown_practice", "no such practice")

    assert parse_with(error).problem is error


@pytest.mark.parametrize(("version", "named"), [("7", {"function_version": "7"}), ("", {}), (None, {})])
def test_delivery_is_a_line_of_json_that_names_the_functions_version(
    version: str | None, named: dict[str, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_LAMBDA_FUNCTION_VERSION", raising=False)
    if version is not None:
        monkeypatch.setenv("AWS_LAMBDA_FUNCTION_VERSION", version)
    print_line(Delivery("sqs-1", 2, 3, "request-1", trace="the trace"))
    (line,) = map(json.loads, capsys.readouterr().out.splitlines())
    said = {"message": "delivery", "sqs_message_id": "sqs-1", "receive_count": 2, "trace": "the trace", **named}
    assert line.items() >= said.items()
    assert ("function_version" in line) is bool(named)
