"""Unmodified handlers: the verdict, the level at which they break, and what is refused by name."""

from __future__ import annotations

import importlib
import sys
import textwrap
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from oneslot.explorer.handlers.exploration import explore
from oneslot.explorer.handlers.scenario import message_of
from oneslot.explorer.handlers.verdict import FIFO_LEVELS, LEVELS, Result, over_budget
from oneslot.explorer.refusal import NotExplorable

ORDER = {"order": "o-1"}


def explored(handler: str, **options: Any) -> Result:
    given: dict[str, Any] = {"messages": [ORDER], "tables": {"orders": "id"}, "path": Path(__file__).parent, **options}
    return explore(f"subjects.{handler}", **given)


@pytest.mark.parametrize(
    ("handler", "level"),
    [
        ("put_under_new_id", "twice"),
        ("charge_then_mark", "one fault, then again"),
        ("swallow", "one fault, then again"),
        ("remember_in_module", "one fault, then again"),
    ],
)
def test_handler_breaks_at_its_mildest_level(handler: str, level: str) -> None:
    result = explored(handler)

    assert (result.holds, result.level) == (False, level)
    assert "as-if-once" in result.counterexample


def one_row(world: Any) -> bool:
    """one row an order"""
    return len(world["orders"]) == 1


def anything(world: Any) -> bool:
    return True


TWO = [{"order": "o-1"}, {"order": "o-2"}]
EVENT_OF_ONE = {"Records": [{"messageId": "m-1", "body": '{"order": "o-1"}', "eventSource": "aws:sqs"}]}
EVENT_OF_A_STREAM = {"Records": [{"dynamodb": {"SequenceNumber": "1"}}]}
HOLDS = "holds at every level"
FAILS = "fails when nothing goes wrong, at message 1: "
VERDICTS: dict[str, tuple[str, dict[str, Any], str]] = {
    "a random number": ("flip", {}, HOLDS),
    "a random number that a law reads": ("flip", {"law": one_row}, "drawn high"),
    "a counter that is ignored": ("charge_then_mark", {"ignore": ["orders.amount"]}, HOLDS),
    "a law of the user's": ("put_under_new_id", {"law": one_row}, "one row an order: does not hold"),
    "a handler that always fails": ("raise_always", {}, f"{FAILS}KeyError: 'order'"),
    "a failure that is reported": ("report_second", {}, "fails when nothing goes wrong"),
    "a record of a whole event": ("report_second", {"messages": [EVENT_OF_ONE]}, "it reports the message as failed"),
    "a record of a stream": (
        "report_stream",
        {"messages": [EVENT_OF_A_STREAM]},
        f"{FAILS}it reports the message as failed",
    ),
    "a call with the user's answer": (
        "publish",
        {"answers": {"athena.start_query_execution": {"QueryExecutionId": "q"}}},
        HOLDS,
    ),
    "ten calls whose answers stay unread": ("put_ten", {"law": anything}, HOLDS),
    "unprocessed items": ("put_batch", {}, "the last entry refused"),
    "unprocessed items, put again": ("put_batch_again", {}, HOLDS),
    "binary attributes": ("put_picture", {}, HOLDS),
    "a wait beyond the visibility": ("wait_for_a_minute", {"visibility": 60, "law": anything}, HOLDS),
    "a wait within the visibility": ("wait_for_a_minute", {"visibility": 5, "law": anything}, "=> "),
    "messages alone": ("put_first_of_batch", {"messages": TWO, "batch": 1, "faults": 0}, HOLDS),
    "messages together": (
        "put_first_of_batch",
        {"messages": TWO, "batch": 2, "faults": 0},
        "orders has 1 row, and single deliveries leave 2 rows",
    ),
    "reports that the mapping reads": (
        "report_what_fails",
        {"messages": TWO, "batch": 2, "reports_failures": True},
        HOLDS,
    ),
    "reports that it does not read": (
        "report_what_fails",
        {"messages": TWO, "batch": 2, "reports_failures": False},
        "=> ",
    ),
    "as many receives as it needs": ("recover_at_third_receive", {"receives": 2, "law": anything}, HOLDS),
    "fewer receives": ("recover_at_third_receive", {"receives": 1, "law": anything}, "=> "),
}
"""A handler, what it is explored with, and words of the result."""


@pytest.mark.parametrize("case", VERDICTS)
def test_exploration_says(case: str) -> None:
    handler, options, words = VERDICTS[case]

    result = explored(handler, **options)

    assert words in str(result)
    assert result.holds is (words == HOLDS)
    assert words != HOLDS or (result.verdict, result.complete) == (HOLDS, True)


def test_random_numbers_raise_no_alarm_when_they_are_mixed() -> None:
    result = explored("draw_mixed")

    assert (result.holds, result.complete, result.masked) == (True, True, ("orders.token", "orders.wait"))


def test_random_numbers_are_refused_when_ends_are_too_many() -> None:
    with pytest.raises(NotExplorable, match="Give fewer messages"):
        explored("draw_mixed", messages=[{"order": name} for name in "abcd"])


def test_handler_holds_when_a_write_replaces_itself() -> None:
    result = explored("put")

    assert result.holds
    assert result.complete
    assert result.masked == ("orders.at",)


@pytest.mark.parametrize(
    ("handler", "words"), [("start_thread", "a thread"), ("publish", "athena.start_query_execution")]
)
def test_unknown_territory_is_refused_by_name(handler: str, words: str) -> None:
    with pytest.raises(NotExplorable, match=words):
        explored(handler)


def test_missing_function_names_the_remedy() -> None:
    with pytest.raises(NotExplorable, match=r"subjects has no lambda_handler\. Name the handler"):
        explored("lambda_handler")


def test_missing_module_names_the_remedy() -> None:
    with pytest.raises(NotExplorable, match="path="):
        explore("nowhere.handler", messages=[ORDER])


def test_budget_ends_honestly() -> None:
    result = explored("put_ten", budget=0.0)

    sentence = 'no breach found, but the budget ended at level 1 of 4, "twice"; no level is complete'
    assert (result.kind, result.holds, result.complete, result.verdict) == ("not finished", False, False, sentence)


def test_budget_names_the_complete_levels() -> None:
    assert over_budget(LEVELS, LEVELS[2]) == (
        'no breach found, but the budget ended at level 3 of 4, "at the same time"; '
        'complete: "twice", "one fault, then again"'
    )


def test_counterexample_reads_to_its_end() -> None:
    assert explored("charge_then_mark").counterexample.splitlines() == [
        "The shortest path: A and B deliver the message.",
        "  before: the tables are empty",
        "  1  A  invoked",
        "  2  A  read orders o-1 -> nothing there",
        "  3  A  update orders total -> done",
        "      orders total: amount 5",
        "  4  A  put orders o-1: crash before it is sent",
        "What came after, without a fault:",
        "     B  SQS delivers the message again",
        "     B  read orders o-1 -> nothing there",
        "     B  update orders total -> done",
        "      orders total: amount 10",
        "     B  put orders o-1 -> done",
        "      orders o-1: there",
        "     B  ends, acknowledges",
        "  => as-if-once: orders total: amount is 10, and single deliveries leave 5",
    ]


def test_fixture_explores_a_handler(explore: Callable[..., Result]) -> None:
    result = explore("subjects.put", messages=[ORDER], tables=["orders:id"], path=Path(__file__).parent)

    assert result.holds


def test_failing_import_is_refused_with_its_remedy(tmp_path: Path) -> None:
    (tmp_path / "needy.py").write_text("import os\nTABLE = os.environ['NEEDED']\ndef handler(event, context): ...\n")

    with pytest.raises(NotExplorable, match=r"at import: KeyError: 'NEEDED'\. Install"):
        explore("needy.handler", messages=[ORDER], path=tmp_path)


def test_layer_is_a_second_folder(tmp_path: Path) -> None:
    (tmp_path / "function").mkdir()
    (tmp_path / "layer").mkdir()
    (tmp_path / "function" / "app_of_test.py").write_text("from layer_of_test import handler\n")
    (tmp_path / "layer" / "layer_of_test.py").write_text("def handler(event, context): ...\n")

    result = explore("app_of_test.handler", messages=[ORDER], path=[tmp_path / "function", tmp_path / "layer"])

    assert result.holds


@pytest.mark.parametrize(("handler", "holds"), [("put_under_new_id", True), ("charge_then_mark", False)])
def test_fifo_delivers_again_only_after_a_fault(handler: str, holds: bool) -> None:
    result = explored(handler, fifo=True, faults=0 if holds else 1)

    assert (result.holds, [level.name for level in result.levels]) == (holds, [] if holds else [FIFO_LEVELS[0].name])


def test_record_keeps_its_usual_attributes_when_some_are_given() -> None:
    record = message_of(0, {"body": "{}", "attributes": {"MessageGroupId": "g"}}).record(0)

    assert {"MessageGroupId", "ApproximateReceiveCount"} <= record["attributes"].keys()


def test_handler_is_found_when_another_folder_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for service, answer in (("one", "1 / 0"), ("two", "None")):
        (tmp_path / service).mkdir()
        (tmp_path / service / "same_name.py").write_text(f"def handler(event, context):\n    return {answer}\n")
    monkeypatch.syspath_prepend(tmp_path / "one")
    one = importlib.import_module("same_name")

    result = explore("same_name.handler", messages=[ORDER], path=tmp_path / "two")

    assert result.holds
    assert sys.modules.pop("same_name") is one


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("async def handler(event, context): ...", "Lambda does not await an async handler"),
        ("def handler(event, context): return {'at': datetime.now(UTC)}", "Object of type datetime is not JSON"),
        ("def handler(event, context): return 'ok'", "The answer is not a JSON object. Return None or"),
        ("def handler(event, context): return {'batchItemFailures': [{'itemIdentifier': ''}]}", "is empty or null"),
        (
            "def handler(event, context): return {'batchItemFailures': [{'itemIdentifier': 'x'}]}",
            "is not of this batch",
        ),
    ],
)
def test_answer_that_lambda_cannot_read_fails_the_invocation(source: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "answers.py").write_text(f"from datetime import UTC, datetime\n{source}\n")

    result = explore("answers.handler", messages=[ORDER], path=tmp_path)

    assert (result.holds, result.level) == (False, "once")
    assert said in result.verdict


@pytest.mark.parametrize("answer", ["{'total': Decimal('1.10')}", "{'batchItemFailures': None}", "(1, 2)", "'ok'"])
def test_answer_is_a_success_when_the_mapping_reads_none(answer: str, tmp_path: Path) -> None:
    (tmp_path / "answers.py").write_text(f"from decimal import Decimal\ndef handler(event, context): return {answer}\n")

    assert explore("answers.handler", messages=[ORDER], path=tmp_path, reports_failures=False).holds


@pytest.mark.parametrize("answer", ["[]", "'ok'", "{'batchItemFailures': [{'itemIdentifier': 'x'}]}"])
def test_answer_is_not_read_when_the_event_is_of_no_queue_and_no_stream(answer: str, tmp_path: Path) -> None:
    (tmp_path / "answers.py").write_text(f"def handler(event, context): return {answer}\n")

    assert explore("answers.handler", messages=[{"httpMethod": "POST"}], path=tmp_path).holds


def _source(folder: Path, text: str) -> Path:
    """Write a module `app` with a table of orders; return its folder."""
    head = "import boto3\n\ntable = boto3.resource('dynamodb').Table('orders')\n\n\n"
    (folder / "app.py").write_text(head + textwrap.dedent(text))
    return folder


def of_app(folder: Path, text: str, **options: Any) -> Result:
    """Explore the handler of this source with one order."""
    given: dict[str, Any] = {"messages": [ORDER], "tables": {"orders": "id"}, "path": _source(folder, text), **options}
    return explore("app.handler", **given)


SKIP_LATER = """
def handler(event, context):
    for record in event["Records"]:
        if {count} >= 2:
            continue
        table.put_item(Item={{"id": record["messageId"]}})
"""


@pytest.mark.parametrize(
    "count",
    [
        "int(record['attributes']['ApproximateReceiveCount'])",
        "int(dict(record)['attributes'].get('ApproximateReceiveCount'))",
        "int([value for name, value in record['attributes'].items() if name == 'ApproximateReceiveCount'][0])",
        "int(__import__('json').loads(__import__('json').dumps(record))['attributes']['ApproximateReceiveCount'])",
        "int(__import__('copy').deepcopy(record)['attributes']['ApproximateReceiveCount'])",
    ],
)
@pytest.mark.parametrize("fifo", [False, True])
def test_receive_count_goes_on_when_a_delivery_crashed(count: str, fifo: bool, tmp_path: Path) -> None:
    result = of_app(tmp_path, SKIP_LATER.format(count=count), fifo=fifo)

    assert (result.holds, result.level) == (False, "one fault, then again")


def test_receive_count_goes_on_when_its_record_is_kept_whole(tmp_path: Path) -> None:
    keep = """
        def handler(event, context):
            for record in event["Records"]:
                table.put_item(Item={"id": record["messageId"], **record["attributes"]})
        """

    result = of_app(tmp_path, keep)

    assert 'ApproximateReceiveCount is "2", and single deliveries leave "1"' in result.verdict
    # All other attributes are those of the first delivery.
    assert of_app(tmp_path, keep, ignore=["orders.ApproximateReceiveCount"]).holds


def test_given_receive_count_goes_on_from_there() -> None:
    message = message_of(0, {"body": "{}", "attributes": {"ApproximateReceiveCount": "4"}})

    assert replace(message, receives=2).record(0)["attributes"]["ApproximateReceiveCount"] == "5"


@pytest.mark.parametrize("visibility", [30, 90])
def test_fifo_delivers_again_only_when_the_visibility_has_ended(visibility: int, tmp_path: Path) -> None:
    path = _source(
        tmp_path,
        f"""
        import time

        def handler(event, context):
            for record in event["Records"]:
                key = {{"id": record["messageId"]}}
                mark = table.get_item(Key=key).get("Item")
                if mark and time.time() - float(mark["at"]) < {visibility}:
                    continue  # another delivery has it
                table.put_item(Item={{**key, "at": str(time.time())}})
                table.put_item(Item={{"id": "effect"}})
        """,
    )

    result = explore(
        "app.handler",
        messages=[ORDER],
        tables={"orders": "id"},
        path=path,
        fifo=True,
        visibility=visibility,
        law=lambda world: any(row["id"] == "effect" for row in world["orders"]),
    )

    assert result.holds, str(result)


def test_path_of_a_handler_may_have_slashes(tmp_path: Path) -> None:
    (tmp_path / "src" / "orders").mkdir(parents=True)
    (tmp_path / "src" / "orders" / "app.py").write_text("def handler(event, context): ...\n")

    assert explore("src/orders/app.handler", messages=[ORDER], path=tmp_path).holds


EVENTS = [
    pytest.param(
        {"version": "2.0", "rawPath": "/", "requestContext": {}, "body": "o-1"}, id="HTTP API or function URL"
    ),
    pytest.param({"orderId": "o-1"}, id="task of Step Functions"),
    pytest.param({"to": "o-1", "body": "hello"}, id="direct invoke with a body"),
    pytest.param(["o-1", "o-2"], id="list"),
    pytest.param("o-1", id="text"),
]
TAKE_WHOLE = """
import json

def handler(event, context):
    assert "Records" not in event
    table.put_item(Item={"id": json.dumps(event)})
    return "ok"
"""


@pytest.mark.parametrize("event", EVENTS)
def test_event_is_delivered_whole(event: Any, tmp_path: Path) -> None:
    result = of_app(tmp_path, TAKE_WHOLE, messages=(), event=event)

    assert result.verdict == "holds at every level"


@pytest.mark.parametrize(
    "lookup",
    ["event['orderId']", "event.get('orderId', 'none')", "event['detail']['orderId']", "event['body'] + event['to']"],
)
def test_message_is_refused_when_the_handler_takes_it_for_its_event(lookup: str, tmp_path: Path) -> None:
    path = _source(tmp_path, f"def handler(event, context): table.put_item(Item={{'id': {lookup}}})")
    message = {"orderId": "o-1", "detail": {"orderId": "o-2"}, "body": "b", "to": "t"}

    with pytest.raises(NotExplorable, match=r"takes message 1 for its whole event\. Give it with event="):
        explore("app.handler", messages=[message], tables={"orders": "id"}, path=path)


def test_event_of_a_queue_is_one_batch_when_it_is_given_whole(tmp_path: Path) -> None:
    path = _source(
        tmp_path,
        """
        def handler(event, context):
            table.put_item(Item={"id": "-".join(record["body"] for record in event["Records"])})
        """,
    )
    event = {"Records": [{"body": "a"}, {"body": "b"}]}

    result = explore(
        "app.handler", event=event, tables={"orders": "id"}, path=path, faults=0, law=lambda world: world["orders"]
    )

    assert result.holds


@pytest.mark.parametrize("given", [{}, {"messages": [ORDER], "event": {}}])
def test_messages_or_an_event_are_needed(given: Any) -> None:
    with pytest.raises(ValueError, match=r"^messages: give one or more, or a whole event"):
        explore("subjects.put", path=Path(__file__).parent, **given)


DO_NOTHING_FOR = """
def handler(event, context):
    for record in event["Records"]:
        if record["body"] not in {bodies}:
            table.put_item(Item={{"id": record["body"]}})
"""


@pytest.mark.parametrize(
    ("bodies", "ending"),
    [
        (("a", "b"), ", but it called nothing and wrote nothing"),
        (("b",), ", but it called nothing and wrote nothing for message 2"),
        ((), ""),
    ],
)
def test_verdict_says_when_a_handler_does_nothing(bodies: tuple[str, ...], ending: str, tmp_path: Path) -> None:
    result = of_app(tmp_path, DO_NOTHING_FOR.format(bodies=bodies), messages=["a", "b"])

    assert result.verdict == f"holds at every level{ending}"


FAILING = {
    "raised": "raise KeyError('order')",
    "reported after a print": """
try:
    raise KeyError('order')
except KeyError as error:
    print('first')
    print('failed:', repr(error))
return {'batchItemFailures': [{'itemIdentifier': event['Records'][0]['messageId']}]}""",
    "reported after a log": """
import logging
try:
    raise KeyError('order')
except KeyError:
    logging.getLogger('app').exception('failed')
return {'batchItemFailures': [{'itemIdentifier': event['Records'][0]['messageId']}]}""",
    "reported after a log of Powertools": """
try:
    raise KeyError('order')
except KeyError:
    logger.exception('failed')
return {'batchItemFailures': [{'itemIdentifier': event['Records'][0]['messageId']}]}""",
    "reported after a call": """
try:
    table.get_item(Key={'id': 'a'})
    raise KeyError('order')
except KeyError:
    logger.warning("failed: 'order'")
return {'batchItemFailures': [{'itemIdentifier': event['Records'][0]['messageId']}]}""",
}


@pytest.mark.parametrize("way", FAILING)
def test_failing_run_shows_the_exception_and_the_last_line_of_its_log(way: str, tmp_path: Path) -> None:
    body = textwrap.indent(FAILING[way].strip(), "    ")
    head = "from aws_lambda_powertools import Logger\nlogger = Logger('shown')\n"
    result = of_app(tmp_path, f"{head}def handler(event, context):\n{body}\n")

    assert "KeyError: 'order'" in result.verdict
    assert way == "raised" or "'order'" in str(result).partition("Its last line of log: ")[2]


def test_failing_decision_shows_its_exception(tmp_path: Path) -> None:
    path = _source(
        tmp_path,
        """
        from oneslot import Effects, Put, consumer_from_environment

        def take(message):
            return Effects({"outcome": "taken"}, (Put("orders", key="id", item={"id": message.message_id, 1: "a"}),))

        handler = consumer_from_environment(take)
        """,
    )

    result = explore(
        "app.handler",
        messages=[{"message_id": "m-1"}],
        tables={"orders": "id", "ledger": "message_id"},
        path=path,
        env={
            "ONESLOT_TABLE_ORDERS": "orders",
            "ONESLOT_LEDGER_TABLE": "ledger",
            "ONESLOT_LEDGER_RETENTION_SECONDS": "forever",
            "ONESLOT_QUEUE_URL": "https://queue",
            "ONESLOT_DEAD_LETTER_QUEUE_URL": "https://dead-letters",
            "ONESLOT_MAX_RECEIVE_COUNT": "3",
        },
    )

    assert "it reports the message as failed, after " in result.verdict
    assert "Its last line of log: " in str(result)


def test_failing_run_names_event_when_records_were_not_read(tmp_path: Path) -> None:
    result = of_app(tmp_path, "def handler(event, context): table.put_item(Item={'id': event['id']})\n")

    assert "If its event is not of SQS, give it whole with event=..." in str(result)


@pytest.mark.parametrize(("amount", "is_hinted"), [(1, True), (5, False), (-1, False)])
def test_counter_is_only_suggested_when_it_counts_deliveries(amount: int, is_hinted: bool, tmp_path: Path) -> None:
    result = of_app(
        tmp_path,
        f"""
        def handler(event, context):
            table.update_item(
                Key={{"id": "a"}}, UpdateExpression="ADD n :n", ExpressionAttributeValues={{":n": {amount}}}
            )
        """,
    )

    assert ("a counter of deliveries?" in result.verdict) is is_hinted


def test_counterexample_shows_why_a_delivery_reports_a_failure(tmp_path: Path) -> None:
    path = _source(
        tmp_path,
        """
        def handler(event, context):
            try:
                key = {"id": "a"}
                if table.get_item(Key=key).get("Item", {}).get("status") == "begun":
                    raise LookupError("begun before")
                table.put_item(Item={**key, "status": "begun"})
                table.put_item(Item={**key, "status": "done"})
            except LookupError:
                return {"batchItemFailures": [{"itemIdentifier": event["Records"][0]["messageId"]}]}
        """,
    )

    before = sys.gettrace()

    result = explore("app.handler", messages=[ORDER], tables={"orders": "id"}, path=path)

    assert "ends, reports a failure, after LookupError: begun before" in result.counterexample
    assert sys.gettrace() is before


def test_event_has_plain_keys_when_the_handler_needs_them(tmp_path: Path) -> None:
    """As orjson does, which encodes no key of another type."""
    result = of_app(
        tmp_path,
        """
        def handler(event, context):
            for record in event["Records"]:
                if any(type(name) is not str for name in (*event, *record["attributes"])):
                    raise TypeError("Dict key must be str")
                if int(record["attributes"]["ApproximateReceiveCount"]) < 2:
                    table.put_item(Item={"id": record["messageId"]})
        """,
    )

    assert (result.kind, result.level) == ("breaks", "one fault, then again")
