"""What leaves the account: told with its message when it may happen twice, and a breach when it never happens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from oneslot.explorer.handlers.exploration import explore
from oneslot.explorer.handlers.verdict import Result
from oneslot.explorer.refusal import NotExplorable


def explored(handler: str, **options: Any) -> Result:
    messages = [{"order": "o-1"}, {"order": "o-2"}]
    given: dict[str, Any] = {"messages": messages, "tables": {"orders": "id"}, "faults": 0, **options}
    return explore(f"senders.{handler}", path=Path(__file__).parent, **given)


def test_repeated_effect_names_its_message() -> None:
    result = explored("publish_then_mark", messages=[{"order": "o-1"}], faults=1)

    assert result.holds
    assert result.outside == ("sns.publish to paid for message 1 (3 times)",)


def test_effect_breaks_the_law_when_it_may_never_happen() -> None:
    result = explored("mark_then_publish", messages=[{"order": "o-1"}], faults=1)

    assert (result.holds, result.level) == (False, "one fault, then again")
    assert "sns.publish to paid for message 1 never happens" in result.verdict


def test_named_execution_starts_once() -> None:
    assert explored("start_named").outside == ()


def test_unnamed_execution_may_start_twice() -> None:
    (told, *_) = explored("start_unnamed", messages=[{"order": "o-1"}]).outside

    assert told == "stepfunctions.start_execution to ship for message 1 (2 times)"


def test_object_replaces_itself_when_its_key_is_stable() -> None:
    result = explored("bill", parameters={"/bucket": "bills"})

    assert (result.holds, result.complete) == (True, True)


def test_objects_multiply_when_their_keys_are_new() -> None:
    result = explored("bill_under_new_key", messages=[{"order": "o-1"}])

    assert "s3://bills has 2 rows, and single deliveries leave 1 row" in result.verdict


def test_law_reads_objects_that_an_upload_left() -> None:
    def law(world: Any) -> bool:
        """the order's object is the template"""
        return bool(world.objects["bills"]["o-1"] == b"Dear")

    result = explored("upload", messages=[{"order": "o-1"}], objects={"bills": {"template": "Dear"}}, law=law)

    assert result.holds


def test_message_is_lost_when_it_is_deleted_first() -> None:
    early, late = (
        explored(name, messages=[{"order": "o-1"}], faults=1) for name in ("delete_then_put", "put_then_delete")
    )

    assert (early.holds, late.holds) == (False, True)
    assert "orders has 0 rows" in early.verdict


def test_fifo_queue_deduplicates_for_five_minutes_only() -> None:
    soon, late = (
        explored("forward_in_order", messages=[{"order": "o-1"}], visibility=seconds).outside for seconds in (30, 300)
    )

    assert (soon, late) == ((), ("sqs.send_message to next.fifo for message 1 (2 times)",))


PAID = {"POST https://pay.example/*": {"status": 201, "body": {"id": "c-1"}}}


@pytest.mark.parametrize(
    ("handler", "outside"),
    [("charge", ("http.post to charges for message 1 (2 times)",)), ("charge_with_key", ())],
)
def test_http_request_may_repeat_unless_it_has_a_key(handler: str, outside: tuple[str, ...]) -> None:
    result = explored(handler, messages=[{"order": "o-1"}], faults=1, answers=PAID)

    assert (result.holds, result.outside) == (True, outside)


def test_timeout_of_http_is_the_library_s_own() -> None:
    result = explored(
        "charge_and_give_up", messages=[{"order": "o-1"}], faults=1, answers=PAID, acknowledges_only_finished=True
    )

    assert "an invocation whose last call failed acknowledged" in result.verdict


def test_effect_with_other_content_is_not_missing() -> None:
    result = explored("publish_attempt", messages=[{"order": "o-1"}], faults=1, ignore=["orders.attempts"])

    assert result.holds


def test_generated_address_is_no_missing_effect() -> None:
    answers = {"PUT https://store.example/*": {"status": 204}}

    result = explored("store_under_new_address", messages=[{"order": "o-1"}], answers=answers)

    assert (result.holds, result.outside) == (True, ("http.put for message 1 (2 times)",))


def test_http_answer_is_the_user_s() -> None:
    def law(world: Any) -> bool:
        """the row holds the price"""
        return [row["value"] for row in world["orders"]] == ["7"]

    answers = {"GET http://prices.example:8080/*": lambda request: {"body": "7" if "GBP" in request["url"] else ""}}

    assert explored("fetch", messages=[{}], answers=answers, law=law).holds


@pytest.mark.parametrize(
    ("handler", "remedy"),
    [
        ("poll", 'answers={"sqs.receive_message"'),
        ("bill", 'parameters={"/bucket"'),
        ("ask", 'answers={"lambda.invoke"'),
    ],
)
def test_missing_value_is_refused_with_the_remedy(handler: str, remedy: str) -> None:
    with pytest.raises(NotExplorable, match=remedy):
        explored(handler)
