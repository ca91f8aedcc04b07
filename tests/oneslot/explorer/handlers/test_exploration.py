"""Unmodified handlers: the verdict, the level at which they break, and what is refused by name."""

import importlib
import sys
import textwrap
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import boto3
import pytest
from botocore.loaders import JSONFileLoader

from lab.explore.sends.exploration import ENVIRONMENT
from oneslot.explorer.handlers.exploration import explore
from oneslot.explorer.handlers.scenario import message_of
from oneslot.explorer.handlers.verdict import LEVELS, Result, over_budget
from oneslot.explorer.refusal import NotExplorable

ORDER = {"order": "o-1"}


def explored(handler: str, **options: Any) -> Result:
    given: dict[str, Any] = {"messages": [ORDER], "tables": {"orders": "id"}, "path": Path(__file__).parent, **options}
    return explore(f"subjects.{handler}", **given)


@pytest.mark.parametrize(
    ("handler", "masked"), [("draw_mixed", ("orders.token", "orders.wait")), ("put", ("orders.at",))]
)
def test_times_and_random_numbers_raise_no_alarm(handler: str, masked: tuple[str, ...]) -> None:
    result = explored(handler)

    assert (result.holds, result.masked) == (True, masked)


def test_figures_do_not_depend_on_the_interpreters_caches_when_a_handler_is_explored_again() -> None:
    first, again = ([replace(level, seconds=0) for level in explored("charge_then_mark").levels] for _ in range(2))

    assert first == again


def test_verdict_names_the_complete_levels_when_the_budget_ends() -> None:
    assert over_budget(LEVELS, LEVELS[2], 2, 1) == (
        'no breach found, but the budget ended at level 3 of 4, "at the same time"; '
        'complete: "twice" (copies 2, faults 0), "one fault, then again" (copies 2, faults 1)'
    )


def test_counterexample_shows_what_came_after_the_breach() -> None:
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


def test_fixture_returns_the_verdict_on_a_handler(explore: Callable[..., Result]) -> None:
    result = explore("subjects.put", messages=[ORDER], tables=["orders:id"], path=Path(__file__).parent)

    assert result.holds


def test_fixture_says_when_the_process_of_its_exploration_dies(explore: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("import os\ndef handler(event, context): os._exit(7)\n")

    with pytest.raises(RuntimeError, match=r"explored app\.handler ended with status 7"):
        explore("app.handler", messages=[ORDER], path=tmp_path)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("import os; TABLE = os.environ['NEEDED']", r"at import: KeyError: 'NEEDED'\. Its folders"),
        ("import absent_from_here", "at import: ModuleNotFoundError: .* Install what it imports"),
        ("x = = 1", r"at import: SyntaxError: .*needy\.py, line 1.* cannot read the file"),
        ("  x = 1", "at import: IndentationError: .* cannot read the file"),
    ],
)
def test_failing_import_is_refused_with_its_remedy(tmp_path: Path, line: str, said: str) -> None:
    (tmp_path / "needy.py").write_text(f"{line}\ndef handler(event, context): ...\n")

    with pytest.raises(NotExplorable, match=said):
        explore("needy.handler", messages=[ORDER], path=tmp_path)


def test_handler_is_found_when_another_folder_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for service, answer in (("one", "1 / 0"), ("two", "None")):
        (tmp_path / service).mkdir()
        (tmp_path / service / "same_name.py").write_text(f"def handler(event, context):\n    return {answer}\n")
    monkeypatch.syspath_prepend(tmp_path / "one")
    one = importlib.import_module("same_name")

    result = explore("same_name.handler", messages=[ORDER], path=tmp_path / "two")

    assert result.holds
    assert sys.modules.pop("same_name") is one


def of_app(folder: Path, text: str, **options: Any) -> Result:
    """Explore the handler of this source, which has a table of orders, with one order."""
    head = "import boto3\n\ntable = boto3.resource('dynamodb').Table('orders')\n\n\n"
    (folder / "app.py").write_text(head + textwrap.dedent(text))
    given: dict[str, Any] = {"messages": [ORDER], "tables": {"orders": "id"}, "path": folder, **options}
    return explore("app.handler", **given)


FAILS_WITH = "fails when nothing goes wrong"
NO_READER: dict[str, Any] = {"reports_failures": False}
OF_ANOTHER_SOURCE: dict[str, Any] = {"messages": (), "event": {"httpMethod": "POST"}}
FOREIGN = "{'batchItemFailures': [{'itemIdentifier': 'x'}]}"
ANSWERS: list[tuple[str, dict[str, Any], str]] = [
    ("datetime(2026, 1, 1)", {}, f"{FAILS_WITH} ... Object of type datetime is not JSON"),
    ("'ok'", {}, f"{FAILS_WITH} ... The answer is not a JSON object. Return None or"),
    ("{'batchItemFailures': [{'itemIdentifier': ''}]}", {}, f"{FAILS_WITH} ... is empty or null"),
    (FOREIGN, {}, f"{FAILS_WITH} ... is not of this batch"),
    ("{'total': Decimal('1.10')}", NO_READER, "holds"),
    ("{'batchItemFailures': None}", NO_READER, "holds"),
    ("(1, 2)", NO_READER, "holds"),
    ("'ok'", NO_READER, "holds"),
    ("[]", OF_ANOTHER_SOURCE, "holds"),
    ("'ok'", OF_ANOTHER_SOURCE, "holds"),
    (FOREIGN, OF_ANOTHER_SOURCE, "holds"),
]


@pytest.mark.parametrize(("answer", "options", "words"), ANSWERS)
def test_answer_is_read_as_lambda_does(answer: str, options: dict[str, Any], words: str, tmp_path: Path) -> None:
    head = "from datetime import datetime\nfrom decimal import Decimal\n"

    result = of_app(tmp_path, f"{head}def handler(event, context): return {answer}\n", **options)

    assert [part for part in words.split(" ... ") if part not in result.verdict] == []
    assert result.holds is (words == "holds")


def test_async_handler_fails_as_on_lambda(tmp_path: Path) -> None:
    assert "does not await an async handler" in of_app(tmp_path, "async def handler(event, context): ...\n").verdict


SKIP_LATER = """
import copy, json
def handler(event, context):
    for record in event["Records"]:
        if {count} >= 2:
            continue
        table.put_item(Item={{"id": record["messageId"]}})
"""


@pytest.mark.parametrize(
    ("count", "fifo"),
    [
        ("int(record['attributes']['ApproximateReceiveCount'])", False),
        ("int(record['attributes']['ApproximateReceiveCount'])", True),
        ("int(dict(record)['attributes'].get('ApproximateReceiveCount'))", False),
        ("int([value for name, value in record['attributes'].items() if name == 'ApproximateReceiveCount'][0])", False),
        ("int(json.loads(json.dumps(record))['attributes']['ApproximateReceiveCount'])", True),
        ("int(copy.deepcopy(record)['attributes']['ApproximateReceiveCount'])", False),
    ],
)
def test_receive_count_goes_on_when_a_delivery_crashed(count: str, fifo: bool, tmp_path: Path) -> None:
    result = of_app(tmp_path, SKIP_LATER.format(count=count), fifo=fifo)

    assert (result.level, result.written) == ("one fault, then again", ("put_item at app.py:12",))


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


def test_given_receive_count_goes_on_from_there_beside_the_usual_attributes() -> None:
    message = message_of(0, {"body": "{}", "attributes": {"ApproximateReceiveCount": "4"}})

    attributes = replace(message, receives=2).record(0)["attributes"]

    assert (attributes["ApproximateReceiveCount"], "SentTimestamp" in attributes) == ("5", True)


@pytest.mark.parametrize("visibility", [30, 90])
def test_fifo_delivers_again_only_when_the_visibility_has_ended(visibility: int, tmp_path: Path) -> None:
    result = of_app(
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
        fifo=True,
        visibility=visibility,
        law=lambda world: any(row["id"] == "effect" for row in world["orders"]),
    )

    assert result.holds, str(result)


def test_files_of_botocore_are_read_once_when_each_delivery_makes_a_session(tmp_path: Path) -> None:
    source = """
        import boto3
        def handler(event, context):
            boto3.setup_default_session()
            boto3.client("sqs").send_message(QueueUrl="q", MessageBody="b")
        """
    loader: Any = JSONFileLoader
    with mock.patch.object(loader, "_load_file", autospec=True, side_effect=loader._load_file) as load:
        assert of_app(tmp_path, source).holds
    boto3.client("sqs", "eu-west-2", aws_access_key_id="k", aws_secret_access_key="s")  # the exploration is over
    assert max(Counter(call.args[1] for call in load.call_args_list).values(), default=0) <= 2


def test_path_of_a_handler_may_have_slashes(tmp_path: Path) -> None:
    (tmp_path / "src" / "orders").mkdir(parents=True)
    (tmp_path / "src" / "orders" / "app.py").write_text("def handler(event, context): ...\n")

    assert explore("src/orders/app.handler", messages=[ORDER], path=tmp_path).holds


EVENTS: dict[str, Any] = {
    "HTTP API or function URL": {"version": "2.0", "rawPath": "/", "requestContext": {}, "body": "o-1"},
    "task of Step Functions": {"orderId": "o-1"},
    "direct invoke with a body": {"to": "o-1", "body": "hello"},
    "list": ["o-1", "o-2"],
    "text": "o-1",
}
TAKE_WHOLE = """
import json

def handler(event, context):
    assert "Records" not in event
    table.put_item(Item={"id": json.dumps(event)})
    return "ok"
"""


@pytest.mark.parametrize("event", EVENTS.values(), ids=EVENTS)
def test_event_is_delivered_whole(event: Any, tmp_path: Path) -> None:
    assert of_app(tmp_path, TAKE_WHOLE, messages=(), event=event).verdict == "holds at every level"


@pytest.mark.parametrize(
    "lookup",
    ["event['orderId']", "event.get('orderId', 'none')", "event['detail']['orderId']", "event['body'] + event['to']"],
)
def test_message_is_refused_when_the_handler_takes_it_for_its_event(lookup: str, tmp_path: Path) -> None:
    source = f"def handler(event, context): table.put_item(Item={{'id': {lookup}}})"
    message = {"orderId": "o-1", "detail": {"orderId": "o-2"}, "body": "b", "to": "t"}

    with pytest.raises(NotExplorable, match=r"takes message 1 for its whole event\. Give it with event="):
        of_app(tmp_path, source, messages=[message])


@pytest.mark.parametrize("name", ["Records", "detail-type", "httpMethod", "requestContext"])
def test_body_is_a_body_whatever_names_it_has(name: str, tmp_path: Path) -> None:
    source = f"""
        import json

        def handler(event, context):
            for record in event["Records"]:
                table.put_item(Item={{"id": json.loads(record["body"])["{name}"]}})
        """

    assert of_app(tmp_path, source, messages=[{name: "x"}]).holds


def test_event_of_a_queue_is_one_batch_when_it_is_given_whole(tmp_path: Path) -> None:
    source = """
        def handler(event, context):
            table.put_item(Item={"id": "-".join(record["body"] for record in event["Records"])})
        """
    event = {"Records": [{"body": "a"}, {"body": "b"}]}

    result = of_app(tmp_path, source, messages=(), event=event, faults=0, law=lambda world: world["orders"])

    assert result.holds


@pytest.mark.parametrize(
    ("options", "reported", "left", "may_be_left"),
    [
        ({}, 0, "1 1+2 2", True),
        ({}, 0, "1+2 2", False),
        ({}, 1, "1+2 2", True),
        (NO_READER, 0, "1 1+2 2", False),
        ({**NO_READER, "bisects": True}, 0, "1 1+2 2", True),
    ],
)
def test_batch_of_a_stream_comes_again_as_lambda_retries_it(
    options: dict[str, Any], reported: int, left: str, may_be_left: bool, tmp_path: Path
) -> None:
    source = f"""
        def handler(event, context):
            numbers = [record["kinesis"]["sequenceNumber"] for record in event["Records"]]
            table.put_item(Item={{"id": "+".join(numbers)}})
            return {{"batchItemFailures": [{{"itemIdentifier": one}} for one in numbers[{reported}:][:len(numbers) - 1]]}}
        """
    event = {"Records": [{"kinesis": {"sequenceNumber": number}} for number in "12"]}

    def law(world: Any) -> bool:
        return " ".join(sorted(row["id"] for row in world["orders"])) != left

    result = of_app(tmp_path, source, messages=(), event=event, fifo=True, law=law, **options)

    assert result.kind == ("breaks" if may_be_left else "holds")


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


@pytest.mark.parametrize(("bodies", "ending"), [(("b",), ", but message 2 writes nothing"), ((), "")])
def test_verdict_says_which_message_writes_nothing(bodies: tuple[str, ...], ending: str, tmp_path: Path) -> None:
    verdict = of_app(tmp_path, DO_NOTHING_FOR.format(bodies=bodies), messages=["a", "b"]).verdict

    assert verdict == f"holds at every level{ending}"


REPORTED = """
try:
    {before}
    raise KeyError('order')
except KeyError as error:
    {note}
return {{'batchItemFailures': [{{'itemIdentifier': event['Records'][0]['messageId']}}]}}"""
FAILING = {
    "raised": "raise KeyError('order')",
    "reported after a print": REPORTED.format(before="pass", note="print('first'); print('failed:', repr(error))"),
    "reported after a log": REPORTED.format(
        before="import logging", note="logging.getLogger('app').exception('failed')"
    ),
    "reported after a log of Powertools": REPORTED.format(before="pass", note="logger.exception('failed')"),
    "reported after a call": REPORTED.format(
        before="table.get_item(Key={'id': 'a'})", note="logger.warning(\"failed: 'order'\")"
    ),
}


@pytest.mark.parametrize("way", FAILING)
def test_failing_run_shows_the_exception_and_the_last_line_of_its_log(way: str, tmp_path: Path) -> None:
    body = textwrap.indent(FAILING[way].strip(), "    ")
    head = "from aws_lambda_powertools import Logger\nlogger = Logger('shown')\n"
    result = of_app(tmp_path, f"{head}def handler(event, context):\n{body}\n")

    assert "KeyError: 'order'" in result.verdict
    assert way == "raised" or "'order'" in str(result).partition("Its last line of log: ")[2]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (", 1: 'a'", ["it reports the message as failed, after ", "Its last line of log: "]),
        # It holds although the ledger counts its claims.
        pytest.param("", ["holds at every level"], marks=pytest.mark.slow),
    ],
)
def test_decision_shows_its_exception_when_it_fails(more: str, words: list[str], tmp_path: Path) -> None:
    result = of_app(
        tmp_path,
        f"""
        from oneslot import Effects, Put, consumer_from_environment

        def take(message):
            return Effects({{"outcome": "taken"}}, [Put("orders", {{"id": message.message_id{more}}}, key="id")])

        handler = consumer_from_environment(take)
        """,
        messages=[{"message_id": "m-1"}],
        tables={"orders": "id", "ledger": "message_id"},
        env={**ENVIRONMENT, "ONESLOT_KEY_ORDERS": "id"},
    )

    assert [one for one in words if one not in str(result)] == []


def test_failing_run_names_event_when_records_were_not_read(tmp_path: Path) -> None:
    result = of_app(tmp_path, "def handler(event, context): table.put_item(Item={'id': event['id']})\n")

    assert "If its event is not of SQS, give it whole with event=..." in str(result)


def test_counterexample_shows_why_a_delivery_reports_a_failure(tmp_path: Path) -> None:
    before = sys.gettrace()

    result = of_app(
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
