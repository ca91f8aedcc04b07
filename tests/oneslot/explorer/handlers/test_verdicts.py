"""The verdict on each handler of `subjects`, `senders` and `pools`: a table of handlers, options and words of the report."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from oneslot.explorer.handlers.exploration import explore
from oneslot.explorer.handlers.laws import as_if_once, at_least_one, at_most_one, no_effect_twice, without_values
from oneslot.explorer.refusal import NotExplorable

HOLDS = "holds at every level"
FAILS = "fails when nothing goes wrong, at message 1: "
AFTER_A_FAULT = 'breaks at level "one fault, then again"'
HOUR_AND_A_HALF = 5_400
TWO = [{"order": "o-1"}, {"order": "o-2"}]
EVENT_OF_ONE = {"Records": [{"messageId": "m-1", "body": '{"order": "o-1"}', "eventSource": "aws:sqs"}]}
EVENT_OF_A_STREAM = {"Records": [{"dynamodb": {"SequenceNumber": "1"}}]}
REQUEST = {"httpMethod": "POST", "body": "o-1"}
PAID = {"POST https://pay.example/*": {"status": 201, "body": {"id": "c-1"}}}
PRICES = {"GET http://prices.example:8080/*": lambda request: {"body": "7" if "GBP" in request["url"] else ""}}


@dataclass(frozen=True)
class Case:
    """A handler, words of its report with " ... " between them, what may happen twice, and the options."""

    handler: str
    words: str
    outside: tuple[str, ...]
    options: dict[str, Any] = field(default_factory=dict)


def case(handler: str, words: str = HOLDS, *outside: str, **options: Any) -> Case:
    return Case(handler, words, outside, options)


def one_row(world: Any) -> bool:
    """one row an order"""
    return len(world["orders"]) == 1


def anything(world: Any) -> bool:
    return True


def counted_twice(world: Any) -> bool:
    """both were counted"""
    return bool(world["orders"][0]["n"] == 2)


def uploaded(world: Any) -> bool:
    """the order's object is the template"""
    return bool(world.objects["bills"]["o-1"] == b"Dear")


def priced(world: Any) -> bool:
    """the row holds the price"""
    return [row["value"] for row in world["orders"]] == ["7"]


STARTED = {"athena.start_query_execution": {"QueryExecutionId": "q"}}
FORWARDED = "sqs.send_message to next.fifo for message 1 (2 times)"
POOL: dict[str, Any] = {"messages": [{}], "copies": 1, "faults": 0, "law": counted_twice}
ONE_KEY = at_most_one("orders", "order")
OF_QUESTIONS = Path(__file__).parents[4] / "lab/handlers/questions"
CASES = {
    "Powertools that keeps Lambda's context": case(
        "in_progress.fixed", path=OF_QUESTIONS, tables=["reports:id", "idempotency:id"], faults=0, budget=10
    ),
    "a write under a new id": case("subjects.put_under_new_id", 'level "twice" ... as-if-once: orders has 2 rows'),
    "a mark after the effect": case("subjects.charge_then_mark", f"{AFTER_A_FAULT} ... as-if-once"),
    "a swallowed failure": case("subjects.swallow", f"{AFTER_A_FAULT} ... as-if-once"),
    "a mark in a module": case("subjects.remember_in_module", f"{AFTER_A_FAULT} ... as-if-once"),
    "a random number": case("subjects.flip"),
    "a random number that a law reads": case("subjects.flip", "drawn high", law=one_row),
    "a counter that is ignored": case("subjects.charge_then_mark", ignore=["orders.amount"]),
    "a law of the user's": case("subjects.put_under_new_id", "one row an order: does not hold", law=one_row),
    "a handler that always fails": case("subjects.raise_always", f"{FAILS}KeyError: 'order'"),
    "a failure that is reported": case("subjects.report_second", "fails when nothing goes wrong"),
    "a record of a whole event": case(
        "subjects.report_second", "it reports the message as failed", messages=(), event=EVENT_OF_ONE
    ),
    "a record of a stream": case(
        "subjects.report_stream", f"{FAILS}it reports the message as failed", messages=(), event=EVENT_OF_A_STREAM
    ),
    "a call with the user's answer": case(
        "subjects.publish", HOLDS, "athena.start_query_execution for message 1 (2 times)", answers=STARTED
    ),
    "a call under its idempotency token": case("subjects.publish_under_token", answers=STARTED),
    "ten calls whose answers stay unread": case("subjects.put_ten", law=anything),
    "unprocessed items": case("subjects.put_batch", "the last entry refused"),
    "unprocessed items, put again": case("subjects.put_batch_again"),
    "binary attributes": case("subjects.put_picture"),
    "a wait beyond the visibility": case("subjects.wait_for_a_minute", visibility=60, law=anything),
    "a wait within the visibility": case("subjects.wait_for_a_minute", "=> ", visibility=5, receives=3, law=anything),
    "messages alone": case("subjects.put_first_of_batch", messages=TWO, batch=1, faults=0),
    "messages together": case(
        "subjects.put_first_of_batch",
        "orders has 1 row, and single deliveries leave 2 rows",
        messages=TWO,
        batch=2,
        faults=0,
    ),
    "reports that the mapping reads": case("subjects.report_what_fails", messages=TWO, batch=2),
    "an exit that brings a fresh environment": case("subjects.exit_after_failure"),
    "a batch's summary": case("senders.publish_summary", "no outside", messages=TWO, batch=2, law=no_effect_twice),
    "reports that are never emptied": case("subjects.report_for_ever", "a message is still in the queue"),
    "reports that it does not read": case(
        "subjects.report_what_fails", "=> ", messages=TWO, batch=2, reports_failures=False
    ),
    "as many receives as it needs": case("subjects.recover_at_third_receive", receives=2, law=anything),
    "fewer receives": case("subjects.recover_at_third_receive", "=> ", receives=1, law=anything),
    "a late mark on FIFO": case("subjects.charge_then_mark", AFTER_A_FAULT, fifo=True),
    "an update under a token": case("subjects.add_under_token"),
    "an update under a forgotten token": case("subjects.add_under_token", "=> ", visibility=HOUR_AND_A_HALF),
    "a time in an answer": case("subjects.start_at_a_new_time", "=> "),
    "a message under a deduplication id": case("subjects.send_under_deduplication_id"),
    "a message under a forgotten id": case(
        "subjects.send_under_deduplication_id", HOLDS, FORWARDED, visibility=HOUR_AND_A_HALF
    ),
    "at most one row": case("subjects.put_under_new_id", "at most one row of orders for each order", law=ONE_KEY),
    "at most one row, kept": case("subjects.put", law=ONE_KEY),
    "at least one row": case("subjects.swallow", "at least one row of orders", law=at_least_one("orders")),
    "at least one row, kept": case("subjects.put", law=at_least_one("orders")),
    "no effect twice": case(
        "senders.publish_then_mark", "no outside effect happens more often", law=[as_if_once, no_effect_twice]
    ),
    "no effect twice, kept": case("subjects.put", law=no_effect_twice),
    "a failure that is acknowledged": case(
        "subjects.swallow", "an invocation whose last call failed acknowledged", law=(), acknowledges_only_finished=True
    ),
    "no failure that is acknowledged": case("subjects.put", law=(), acknowledges_only_finished=True),
    "a condition that does not hold": case(
        "subjects.refuse_second", messages=(), event=REQUEST, law=(), acknowledges_only_finished=True
    ),
    "another answer to a copy": case(
        "subjects.refuse_second",
        'message 1 is answered with {"body": "", "statusCode": 409}',
        messages=(),
        event=REQUEST,
        law=(),
        answers_equal=True,
    ),
    "an equal answer but for an id": case(
        "subjects.answer_again", messages=(), event=REQUEST, law=(), answers_equal=True
    ),
    "an effect before its mark": case(
        "senders.publish_then_mark", HOLDS, "sns.publish to paid for message 1 (3 times)"
    ),
    "an effect after its mark": case(
        "senders.mark_then_publish", f"{AFTER_A_FAULT} ... sns.publish to paid for message 1 never happens"
    ),
    "a named execution": case("senders.start_named", messages=TWO, faults=0),
    "an unnamed execution": case(
        "senders.start_unnamed", HOLDS, "stepfunctions.start_execution to ship for message 1 (2 times)", faults=0
    ),
    "a task that has ended": case("senders.end_task", "a message is still in the queue"),
    "a task that may have ended": case("senders.end_task_once"),
    "an object under a stable key": case("senders.bill", messages=TWO, faults=0, parameters={"/bucket": "bills"}),
    "an object under a new key": case(
        "senders.bill_under_new_key", "s3://bills has 2 rows, and single deliveries leave 1 row", faults=0
    ),
    "an upload": case("senders.upload", objects={"bills": {"template": "Dear"}}, law=uploaded, faults=0),
    "a message that is deleted first": case("senders.delete_then_put", "orders has 0 rows"),
    "a message that is deleted last": case("senders.put_then_delete"),
    "a FIFO queue within five minutes": case("senders.forward_in_order", faults=0),
    "a FIFO queue after five minutes": case("senders.forward_in_order", HOLDS, FORWARDED, visibility=300, faults=0),
    "an HTTP request": case("senders.charge", HOLDS, "http.post to charges for message 1 (2 times)", answers=PAID),
    "an HTTP request with a key": case("senders.charge_with_key", answers=PAID),
    "an HTTP timeout of the library's own": case(
        "senders.charge_and_give_up",
        "an invocation whose last call failed acknowledged",
        answers=PAID,
        acknowledges_only_finished=True,
    ),
    "an effect with other content": case(
        "senders.publish_attempt",
        HOLDS,
        "sns.publish to paid with other content (2 times)",
        ignore=["orders.attempts"],
        faults=0,
    ),
    "a request to a generated address": case(
        "senders.store_under_new_address",
        HOLDS,
        "http.put for message 1 (2 times)",
        answers={"PUT https://store.example/*": {"status": 204}},
        faults=0,
    ),
    "an HTTP answer of the user's": case("senders.fetch", messages=[{}], answers=PRICES, law=priced, faults=0),
    "an id that AWS gives": case("senders.keep_id_of_message", HOLDS, "sns.publish to paid for message 1 (3 times)"),
    "a pool that maps": case("pools.map_puts", messages=[{}]),
    "a pool that gathers": case("pools.gather", messages=[{}]),
    "a pool of the module": case("pools.use_pool_of_module", messages=[{}]),
    "a thread of asyncio": case("pools.put_in_a_thread_of_asyncio", messages=[{}]),
    "a slow thread of asyncio": case("pools.leave_a_slow_thread_of_asyncio", "orders has 0 rows", messages=[{}]),
    "coroutines of asyncio": case("pools.put_in_coroutines_of_asyncio", messages=[{}]),
    "a sleep beyond the timeout": case("pools.sleep_too_long", f"{FAILS}TimeoutError: the function's timeout"),
    "workers that race": case("pools.race", "both were counted: does not hold", **POOL),
    "threads of asyncio that race": case(
        "pools.race_in_threads_of_asyncio", "both were counted: does not hold", **POOL
    ),
    "one worker": case("pools.one_worker", **POOL),
    "workers with a lock": case("pools.locked", **POOL),
}


def explored(of: Case) -> Any:
    given: dict[str, Any] = {
        "messages": TWO[:1],
        "tables": {"orders": "id"},
        "path": Path(__file__).parent,
        **of.options,
    }
    return explore(of.handler, **given)


def with_loop(name: str) -> Any:
    """Let the event loop of a case have its pair of sockets."""
    return pytest.param(name, marks=pytest.mark.enable_socket) if "asyncio" in name else name


@pytest.mark.parametrize("name", [with_loop(name) for name in CASES])
def test_exploration_says(name: str) -> None:
    expected = CASES[name]

    result = explored(expected)

    assert [part for part in expected.words.split(" ... ") if part not in str(result)] == []
    assert result.kind == ("holds" if expected.words == HOLDS else "breaks")
    if expected.words == HOLDS:
        assert (result.verdict, result.holds, result.outside) == (HOLDS, True, expected.outside)


REFUSED = {
    "a thread": case("subjects.start_thread", "a thread"),
    "a call without an answer": case("subjects.publish", "athena.start_query_execution"),
    "a call that is not modelled": case("senders.poll", 'answers={"sqs.receive_message"'),
    "a parameter without a value": case("senders.bill", 'parameters={"/bucket"'),
    "a function without an answer": case("senders.ask", 'answers={"lambda.invoke"'),
    "a pool that is left": case("pools.forget", "returns while its thread pool works", **POOL),
    "asynchronous clients": case("pools.await_aws", "The handler imports aioboto3, whose calls", **POOL),
    "a wait for a thread": case("pools.wait_on_event", "waits for another thread", **POOL),
    "too many random numbers": case(
        "subjects.draw_mixed", "Give fewer messages", messages=[{"order": name} for name in "abcd"]
    ),
    "a missing function": case("subjects.lambda_handler", "subjects has no lambda_handler. Name the handler"),
    "a missing module": case("nowhere.handler", "path="),
}


@pytest.mark.parametrize("name", REFUSED)
def test_handler_is_refused_with_the_remedy(name: str) -> None:
    with pytest.raises(NotExplorable) as refused:
        explored(REFUSED[name])

    assert REFUSED[name].words in str(refused.value)


@pytest.mark.parametrize(
    ("sentence", "about"),
    [
        ("as-if-once: orders has 2 rows, and single deliveries leave 1 row", "as-if-once: orders"),
        ("as-if-once: orders a: b/1: n is 2, and single deliveries leave 1 (a counter?)", "as-if-once: orders.n"),
        ("as-if-once: sns.publish never happens, and single deliveries do it", "as-if-once: sns.publish"),
        ("at most one row of seats for each seat: does not hold: 2 of A1", "at most one row of seats for each seat"),
        ("answers-equal: message 1 is answered with 2, and a single delivery with 1", "answers-equal: message 1"),
    ],
)
def test_law_is_named_without_the_values_when_it_is_broken(sentence: str, about: str) -> None:
    assert without_values(sentence) == about
