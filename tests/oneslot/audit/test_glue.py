"""The nightly list of dead letters: complete or absent, and no message leaves the queue."""

import hashlib
import json
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from oneslot.audit.glue import list_dead_letters, region_of
from oneslot.declaration.reading import choosing
from oneslot.laws.form import LINES
from oneslot.runtime.sqs import dead_letters
from stacks.audit.job import DEAD_LETTERS as WRITTEN
from tests.kits.consumer import NHS_NUMBER, REGION, Bench, Intercepted, bench, booking, raising, record, service_error
from tests.kits.order_histories import ORDERS

BUCKET, HISTORY = "audit", "s3://audit/history/2026-11-23"


@pytest.fixture(autouse=True)
def _no_long_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letters, "WAIT_SECONDS", 0)


def bucket() -> Any:
    client: Any = boto3.Session("123456789012", "none").client("s3", region_name=REGION)
    client.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
    return client


def listed(s3: Any) -> list[dict[str, Any]] | None:
    """Return the lines of the list, or None if there is no list."""
    try:
        found = s3.get_object(Bucket=BUCKET, Key=f"history/2026-11-23/{WRITTEN}")
    except ClientError:
        return None
    return [json.loads(line) for line in found["Body"].read().splitlines()]


def make_list(made: Bench, s3: Any, sqs: Any = None, *, content_based: bool = False) -> str:
    url = made.dead_letter_queue_url
    return list_dead_letters(sqs or made.sqs, s3, url, HISTORY, content_based=content_based)


def test_list_has_the_ids_that_the_consumer_finds() -> None:
    with bench(slots=0) as made, choosing(ORDERS):
        s3 = bucket()
        body = json.dumps({"shop": "north", "number": 7})
        made.sqs.send_message(QueueUrl=made.dead_letter_queue_url, MessageBody=body)
        make_list(made, s3)
        assert [line["message_id"] for line in listed(s3) or ()] == ["north-7"]


def test_region_is_that_of_the_queue() -> None:
    assert region_of("https://sqs.eu-west-2.amazonaws.com/123456789012/Oneslot-dev-dead-letters") == "eu-west-2"
    assert region_of("http://127.0.0.1:4566/queue") is None


def test_list_has_every_dead_letter() -> None:
    with bench() as made:
        s3 = bucket()
        bad = [record(booking(f"m-{number}", nhs_number="9990000019")) for number in range(12)]
        made.deliver(*bad)
        given_up = made.sqs.send_message(QueueUrl=made.dead_letter_queue_url, MessageBody=json.dumps(booking("m-12")))[
            "MessageId"
        ]
        assert make_list(made, s3) == "13 dead letters listed."
        lines = listed(s3) or []
        quarantined = [
            {"message_id": f"m-{number}", "source_message_id": each["messageId"], "reason": "invalid_field"}
            for number, each in enumerate(bad)
        ]
        exhausted = {"message_id": "m-12", "source_message_id": given_up, "reason": dead_letters.RECEIVES_EXHAUSTED}
        assert sorted(lines, key=str) == sorted([*quarantined, exhausted], key=str)
        assert {*LINES["dead-letters"].attributes} <= lines[0].keys()
        assert len(made.dead_letters()) == 10, "they stay visible"


@pytest.mark.parametrize("content_based", [True, False])
@pytest.mark.parametrize(
    "body",
    [json.dumps(booking(NHS_NUMBER)), json.dumps(booking(None)), f"no JSON, for {NHS_NUMBER}"],
    ids=["number for an id", "no id", "no JSON"],
)
def test_list_never_names_a_patient(content_based: bool, body: str) -> None:
    with bench() as made:
        s3 = bucket()
        made.deliver(record(body))
        assert NHS_NUMBER in body
        assert make_list(made, s3, content_based=content_based) == "1 dead letter listed."
        (line,) = listed(s3) or []
        assert NHS_NUMBER not in str(line)
        if body != json.dumps(booking(None)):
            assert line["message_id"] is None, "neither the number, nor what is no request"


@pytest.mark.parametrize("content_based", [True, False])
def test_list_has_the_consumers_identity(content_based: bool) -> None:
    with bench() as made:
        s3 = bucket()
        url = made.dead_letter_queue_url
        bodies = [json.dumps(booking(None)), json.dumps(booking("in-body"))]
        attribute = {"MessageDeduplicationId": {"DataType": "String", "StringValue": "in-attribute"}}
        made.sqs.send_message(QueueUrl=url, MessageBody=bodies[0])
        made.sqs.send_message(QueueUrl=url, MessageBody=bodies[1])
        made.sqs.send_message(QueueUrl=url, MessageBody=bodies[1], MessageAttributes=attribute)
        make_list(made, s3, content_based=content_based)
        digest = hashlib.sha256(bodies[0].encode()).hexdigest() if content_based else None
        assert {line["message_id"] for line in listed(s3) or []} == {digest, "in-body", "in-attribute"}


FAILURES: dict[str, tuple[str, Exception]] = {
    "ReceiveMessage says Slow": ("receive_message", service_error("Slow", "ReceiveMessage")),
    "PutObject says Slow": ("put_object", service_error("Slow", "PutObject")),
    "EndpointConnectionError": ("receive_message", EndpointConnectionError(endpoint_url="https://sqs")),
}


@pytest.mark.parametrize("said", FAILURES)
@pytest.mark.parametrize("old", [True, False])
def test_list_is_absent_when_listing_fails(said: str, old: bool) -> None:
    """So is an old one: the queue may have changed since an earlier run of the same night."""
    method, failure = FAILURES[said]
    with bench() as made:
        s3 = bucket()
        if old:
            assert make_list(made, s3) == "0 dead letters listed."
            assert listed(s3) == []
        sqs, writing = (Intercepted(client, before={method: raising(failure)}) for client in (made.sqs, s3))
        assert make_list(made, writing, sqs) == f"The dead letters are not listed: {said}."
        assert listed(s3) is None


def test_audit_ends_when_an_old_list_cannot_be_deleted() -> None:
    with bench() as made:
        s3 = bucket()
        make_list(made, s3)
        denied = {
            name: raising(service_error("AccessDenied", call))
            for name, call in (("put_object", "PutObject"), ("delete_object", "DeleteObject"))
        }
        with pytest.raises(
            RuntimeError, match=r"PutObject says AccessDenied.*an outdated list: DeleteObject says AccessD"
        ):
            make_list(made, Intercepted(s3, before=denied))


def test_list_is_absent_when_another_reader_hides_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    """A redrive that was killed, or an operator who looks at the same time."""
    monkeypatch.setattr("oneslot.runtime.sqs.dead_letters.SETTLING_SECONDS", 0)
    with bench() as made:
        s3 = bucket()
        made.deliver(record("not json"), record("nor this"))
        s3.put_object(Bucket=BUCKET, Key=f"history/2026-11-23/{WRITTEN}", Body=b"")  # an earlier run's
        url = made.dead_letter_queue_url
        made.sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=1)
        sentence = make_list(made, s3)
        assert "about 1 more are hidden by another reader" in sentence
        assert listed(s3) is None
