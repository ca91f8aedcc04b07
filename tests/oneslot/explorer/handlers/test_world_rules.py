"""How AWS behaves, rule by rule: for each a handler that is wrong and one that is right, in a few lines."""

import json
import textwrap
from pathlib import Path
from typing import Any

import pytest

from oneslot.explorer.handlers.exploration import explore
from oneslot.explorer.handlers.templates.template import table

HOLDS = "holds at every level"

HEAD = """
    import json, boto3
    from botocore.exceptions import ClientError
    orders = boto3.resource("dynamodb").Table("orders")
"""


Case = tuple[str, str, dict[str, Any]]
"""How the verdict on a handler starts, its source, and the options of its exploration."""


def case(verdict: str, source: str, **options: Any) -> Case:
    return verdict, source, options


STATES = [{"state": "paid"}, {"state": "shipped"}]
PUT_STATE = 'orders.put_item(Item={"id": "o-1", "state": json.loads(record["body"])["state"]})'
READ_ADD_PUT = """
    def handler(event, context):
        for record in event["Records"]:
            row = orders.get_item(Key={"id": "all"}, ConsistentRead=True).get("Item", {"id": "all", "seen": []})
            if record["messageId"] not in row["seen"]:
                orders.put_item(Item={**row, "seen": sorted([*row["seen"], record["messageId"]])})
"""


CHILD_AFTER_PARENT = """
    def handler(event, context):
        for record in event["Records"]:
            body = json.loads(record["body"])
            if "parent" in body and "Item" not in orders.get_item(Key={"id": body["parent"]}, ConsistentRead=True):
                raise ValueError("no parent")
            orders.put_item(Item={"id": body["id"]})
"""


def puts_if(condition: str) -> str:
    return f"""
        def handler(event, context):
            failed = []
            for record in event["Records"]:
                try:
                    if {condition}:
                        {PUT_STATE}
                        continue
                except ClientError:
                    pass
                failed.append({{"itemIdentifier": record["messageId"]}})
            return {{"batchItemFailures": failed}}
    """


def in_group(group: str, body: Any) -> dict[str, Any]:
    return {"body": json.dumps(body), "attributes": {"MessageGroupId": group}}


def of_shard(number: int, key: str, state: str) -> dict[str, Any]:
    record = {"sequenceNumber": str(number), "partitionKey": key, "data": state}
    return {"eventSource": "aws:kinesis", "eventSourceARN": "arn:stream", "kinesis": record}


SHARD = {"Records": [of_shard(1, "o-1", "paid"), of_shard(2, "o-1", "shipped")]}

ORDER = {
    "a batch of a group that goes on after a failure": case(
        "breaks", puts_if("True"), messages=STATES, batch=2, fifo=True
    ),
    "a batch of a group that stops at its first failure": case(
        HOLDS, puts_if("not failed"), messages=STATES, batch=2, fifo=True
    ),
    "a batch of a group whose first message alone is read": case(
        "breaks without any fault",
        """
        def handler(event, context):
            orders.put_item(Item={"id": event["Records"][0]["messageId"]})
        """,
        messages=STATES,
        batch=2,
        fifo=True,
    ),
    "the last state of a group": case(
        HOLDS,
        f"""
        def handler(event, context):
            for record in event["Records"]:
                {PUT_STATE}
        """,
        messages=STATES,
        fifo=True,
    ),
    "a child after its parent in a group": case(
        HOLDS, CHILD_AFTER_PARENT, messages=[{"id": "o-1"}, {"id": "o-2", "parent": "o-1"}], fifo=True
    ),
    "two groups that add to one row": case(
        "breaks", READ_ADD_PUT, messages=[in_group("a", 1), in_group("b", 2)], fifo=True
    ),
    "one group that adds to one row": case(
        HOLDS, READ_ADD_PUT, messages=[in_group("a", 1), in_group("a", 2)], fifo=True
    ),
    "the last state of a shard": case(
        HOLDS,
        """
        def handler(event, context):
            for record in event["Records"]:
                orders.put_item(Item={"id": "o-1", "state": record["kinesis"]["data"]})
        """,
        messages=(),
        event=SHARD,
    ),
    "a record of a shard that is logged and passed over": case(
        "breaks",
        """
        def handler(event, context):
            for record in event["Records"]:
                try:
                    orders.put_item(Item={"id": record["kinesis"]["data"]})
                except ClientError as error:
                    print(error)
        """,
        messages=(),
        event=SHARD,
    ),
}


def appends(value: str) -> str:
    return f"""
        import time
        def handler(event, context):
            for record in event["Records"]:
                orders.update_item(
                    Key={{"id": "o-1"}},
                    UpdateExpression="SET entries = list_append(if_not_exists(entries, :none), :new)",
                    ExpressionAttributeValues={{":none": [], ":new": [{value}]}},
                )
    """


BESIDE_A_TIME = {
    "an entry with a time, appended": case("breaks", appends('{"amount": 5, "at": int(time.time())}')),
    "a counter in the attribute that holds a time elsewhere": case(
        "breaks",
        """
        import time
        def handler(event, context):
            orders.put_item(Item={"id": "last", "value": int(time.time())})
            orders.update_item(Key={"id": "n"}, UpdateExpression="ADD #v :one",
                ExpressionAttributeNames={"#v": "value"}, ExpressionAttributeValues={":one": 1})
        """,
    ),
    "an object with a count and a time": case(
        "breaks",
        """
        import time
        s3 = boto3.client("s3")
        def handler(event, context):
            try:
                known = json.loads(s3.get_object(Bucket="b", Key="n")["Body"].read())["count"]
            except ClientError:
                known = 0
            body = json.dumps({"count": known + 1, "updated": time.time()})
            s3.put_object(Bucket="b", Key="n", Body=body)
        """,
    ),
    "a state with its time, left behind": case(
        "breaks",
        """
        import datetime
        def handler(event, context):
            for state in ("pending", "done"):
                if state == "done" or "Item" not in orders.get_item(Key={"id": "o-1"}, ConsistentRead=True):
                    orders.put_item(Item={"id": "o-1", "state": f"{state} since {datetime.datetime.now().isoformat()}"})
        """,
    ),
    "a mail with its number and a time": case(
        "breaks",
        """
        import datetime
        sns = boto3.client("sns")
        def handler(event, context):
            n = orders.update_item(Key={"id": "n"}, UpdateExpression="ADD n :one", ReturnValues="ALL_NEW",
                ExpressionAttributeValues={":one": 1})["Attributes"]["n"]
            orders.put_item(Item={"id": "mail", "text": f"mail {n} at {datetime.datetime.now()}"})
        """,
        ignore=["orders.n"],
    ),
    "a row with a time, an id and a text that has both": case(
        HOLDS,
        """
        import datetime, random, time, uuid
        def handler(event, context):
            numbers = [random.randint(0, 99) for _ in range(300)]
            digits = "-".join(f"{one} {one % 2}" for one in numbers)  # of which some are equal by chance
            now = datetime.datetime.now(datetime.timezone.utc)
            at = {"at": now.isoformat(), "day": now.strftime("%A, %d %B %Y, %H:%M:%S"), "seconds": time.time()}
            orders.put_item(Item={"id": "o-1", "at": [json.dumps(at)], "by": f"run {uuid.uuid4()} at {now:%H:%M:%S.%f}",
                "digits": digits, "history": {str(n): str(uuid.uuid4()) for n in range(2)}})
        """,
    ),
    "rows under new ids that hold times": case(
        HOLDS,
        """
        import datetime
        def handler(event, context):
            for record in event["Records"]:
                day = f"{datetime.datetime.now():%Y-%m-%d}"
                orders.put_item(Item={"id": record["messageId"], "day": day, "text": f"since {day}"})
                orders.put_item(Item={"id": day, "last": "today"})
        """,
        messages=[{"order": "o-1"}, {"order": "o-2"}],
    ),
}


PARENT_LAST = [{"id": "o-2", "parent": "o-1"}, {"id": "o-1"}]
AFTER_A_FAILURE = {
    "a child that fails until its parent is there": case(HOLDS, CHILD_AFTER_PARENT, messages=PARENT_LAST),
    "a child that counts before it fails": case(
        "breaks",
        """
        def handler(event, context):
            for record in event["Records"]:
                body = json.loads(record["body"])
                if "parent" in body:
                    orders.update_item(Key={"id": body["parent"]}, UpdateExpression="ADD children :one",
                        ExpressionAttributeValues={":one": 1})
                    if "there" not in orders.get_item(Key={"id": body["parent"]}, ConsistentRead=True)["Item"]:
                        raise ValueError("no parent")
                else:
                    orders.update_item(Key={"id": body["id"]}, UpdateExpression="SET there = :yes",
                        ExpressionAttributeValues={":yes": True})
        """,
        messages=PARENT_LAST,
    ),
    "a child whose parent never comes": case(
        "fails when nothing goes wrong, at message 1: ValueError: no parent",
        """
        def handler(event, context):
            if "Item" not in orders.get_item(Key={"id": "o-1"}, ConsistentRead=True):
                raise ValueError("no parent")
            orders.put_item(Item={"id": "o-2"})
        """,
    ),
}


CREATES_ONCE = """
    def handler(event, context):
        if "Item" in orders.get_item(Key={"id": "o-1"}):
            return
        try:
            orders.put_item(Item={"id": "o-1", "n": 1}, ConditionExpression="attribute_not_exists(id)")
        except ClientError as error:
            if error.response["Error"]["Code"] != "ConditionalCheckFailedException":
                raise
"""
PUT_THEN_READ = """
    def handler(event, context):
        orders.put_item(Item={{"id": "o-1", "by": "me"}})
        found = {read}
        orders.put_item(Item={{"id": "found", "n": sum("by" in one for one in found)}})
"""
STALE = {
    "a plain read after a write": case(
        "breaks", PUT_THEN_READ.format(read='[orders.get_item(Key={"id": "o-1"}).get("Item", {})]')
    ),
    "a consistent read after a write": case(
        HOLDS, PUT_THEN_READ.format(read='[orders.get_item(Key={"id": "o-1"}, ConsistentRead=True).get("Item", {})]')
    ),
    "a plain read before a conditional write": case(HOLDS, CREATES_ONCE),
    "a plain scan after a write": case("breaks", PUT_THEN_READ.format(read='orders.scan()["Items"]')),
    "a consistent scan after a write": case(
        HOLDS, PUT_THEN_READ.format(read='orders.scan(ConsistentRead=True)["Items"]')
    ),
    "a plain query of a table after a write": case(
        "breaks",
        """
        from boto3.dynamodb.conditions import Key
        def handler(event, context):
            orders.put_item(Item={"id": "o-1", "by": "me"})
            found = orders.query(KeyConditionExpression=Key("id").eq("o-1"))["Items"]
            orders.put_item(Item={"id": "found", "n": len(found)})
        """,
    ),
    "a plain batch read of a write by the message before": case(
        "breaks",
        """
        def handler(event, context):
            for record in event["Records"]:
                keys = {"orders": {"Keys": [{"id": {"S": "all"}}]}}
                rows = boto3.client("dynamodb").batch_get_item(RequestItems=keys)["Responses"]["orders"]
                seen = [one["S"] for one in rows[0]["seen"]["L"]] if rows else []
                if record["messageId"] not in seen:
                    orders.put_item(Item={"id": "all", "seen": [*seen, record["messageId"]]})
        """,
        messages=[{"n": 1}, {"n": 2}],
        fifo=True,
    ),
}


def unless(condition: str, call: str = 'orders.put_item(Item={"id": "o-1"})') -> str:
    return f"""
        def handler(event, context):
            try:
                {call}
            except ClientError as error:
                code = error.response["Error"]["Code"]
                reasons = [one["Code"] for one in error.response.get("CancellationReasons", [])]
                status = error.response["ResponseMetadata"]["HTTPStatusCode"]
                if {condition}:
                    raise
    """


TRANSACT = (
    'boto3.client("dynamodb").transact_write_items(TransactItems=[{"Put": {"TableName": "orders", '
    '"Item": {"id": {"S": "o-1"}}, "ConditionExpression": "attribute_not_exists(id)"}}])'
)
PUT_OBJECT = 'boto3.client("s3").put_object(Bucket="b", Key="o-1", Body=b"1", IfNoneMatch="*")'


def pays(condition: str) -> str:
    return f"""
        import urllib.error, urllib.request
        def handler(event, context):
            if "Item" in orders.get_item(Key={{"id": "o-1"}}, ConsistentRead=True):
                return
            request = urllib.request.Request("https://pay.example/o-1", b"", {{"Idempotency-Key": "o-1"}}, method="POST")
            try:
                status = urllib.request.urlopen(request).status
            except urllib.error.HTTPError as error:
                status = error.code
            if {condition}:
                raise ValueError(status)
            orders.put_item(Item={{"id": "o-1"}})
    """


PAID = {"answers": {"POST https://pay.example/*": {"status": 201, "body": {}}}}
ERRORS = {
    "only the throttling error is tried again": case(
        "breaks", unless('code == "ProvisionedThroughputExceededException"')
    ),
    "every error is tried again but a condition's": case(HOLDS, unless('code != "ConditionalCheckFailedException"')),
    "a cancelled transaction without a conflict is a copy": case(
        "breaks", unless('"TransactionConflict" in reasons or code != "TransactionCanceledException"', TRANSACT)
    ),
    "a cancelled transaction whose condition fails is a copy": case(
        HOLDS, unless('"ConditionalCheckFailed" not in reasons', TRANSACT)
    ),
    "an object's conflict is a copy": case("breaks", unless("status not in (409, 412)", PUT_OBJECT)),
    "an object's failed condition is a copy": case(HOLDS, unless("status != 412", PUT_OBJECT)),
    "paid unless 503": case("breaks", pays("status == 503"), **PAID),
    "paid unless 500 and more": case("breaks", pays("status >= 500"), **PAID),
    "paid with 201 alone": case(HOLDS, pays("status != 201"), **PAID),
}


def sends_rest(again: str) -> str:
    return f"""
        queue = "https://sqs.eu-west-2.amazonaws.com/111122223333/next"
        sqs = boto3.client("sqs")
        def handler(event, context):
            waiting = {{name: {{"Id": name, "MessageBody": name}} for name in ("a", "b")}}
            {again}:
                answer = sqs.send_message_batch(QueueUrl=queue, Entries=list(waiting.values()))
                for one in answer.get("Successful", []):
                    del waiting[one["Id"]]
                if not waiting:
                    return
    """


def puts_rest(again: str) -> str:
    return f"""
        client = boto3.client("dynamodb")
        def handler(event, context):
            waiting = {{"orders": [{{"PutRequest": {{"Item": {{"id": {{"S": name}}}}}}}} for name in "abc"]}}
            {again}:
                waiting = client.batch_write_item(RequestItems=waiting)["UnprocessedItems"]
                if not waiting:
                    return
    """


RAISES = '\n            raise RuntimeError("some are left")\n'
REFUSED_AGAIN = {
    "the rest is sent once more": case("breaks", sends_rest("for attempt in range(2)")),
    "the rest is sent four times more": case("breaks", sends_rest("for attempt in range(5)")),
    "the rest is sent until none is left": case(HOLDS, sends_rest("while True")),
    "the rest is written once more": case("breaks", puts_rest("for attempt in range(2)")),
    "the rest is written until none is left": case(HOLDS, puts_rest("while True")),
    "the rest is written once more, and the message fails": case(
        HOLDS, puts_rest("for attempt in range(2)").rstrip() + RAISES
    ),
    "an event is sent again by the place of its error": case(
        HOLDS,
        """
        events = boto3.client("events")
        def handler(event, context):
            waiting = [{"Source": "shop", "DetailType": name, "Detail": "{}"} for name in ("a", "b")]
            while waiting:
                answer = events.put_events(Entries=waiting)["Entries"]
                waiting = [one for one, said in zip(waiting, answer) if "ErrorCode" in said]
        """,
    ),
    "as many events as failed are sent again, from the end": case(
        "breaks",
        """
        events = boto3.client("events")
        def handler(event, context):
            waiting = [{"Source": "shop", "DetailType": name, "Detail": "{}"} for name in ("a", "b")]
            while waiting:
                failed = events.put_events(Entries=waiting)["FailedEntryCount"]
                waiting = waiting[len(waiting) - failed:]
        """,
    ),
}


MARKS = table("orders", "id", time_to_live="expires")
HOUR_AND_A_HALF = 5_400


def marks(lasts: int, condition: str = "attribute_not_exists(id)") -> str:
    return f"""
        import time
        client = boto3.client("dynamodb")
        def handler(event, context):
            mark = {{"id": {{"S": event["Records"][0]["messageId"]}}, "expires": {{"N": str(int(time.time()) + {lasts})}}}}
            add = {{"TableName": "totals", "Key": {{"id": {{"S": "n"}}}}, "UpdateExpression": "ADD n :one",
                "ExpressionAttributeValues": {{":one": {{"N": "1"}}}}}}
            try:
                client.transact_write_items(TransactItems=[{{"Update": add}},
                    {{"Put": {{"TableName": "orders", "Item": mark, "ConditionExpression": "{condition}"}}}}])
            except client.exceptions.TransactionCanceledException as error:
                if "ConditionalCheckFailed" not in str(error.response["CancellationReasons"]):
                    raise
    """


EXPIRING = {
    "a mark for a minute": case("breaks", marks(60), tables=[MARKS, "totals:id"], visibility=HOUR_AND_A_HALF),
    "a mark for two days": case(HOLDS, marks(172_800), tables=[MARKS, "totals:id"], visibility=HOUR_AND_A_HALF),
    "a mark for a minute that nothing deletes": case(
        HOLDS, marks(60), tables=["orders:id", "totals:id"], visibility=HOUR_AND_A_HALF
    ),
}


def sends_itself(body: str, when: str = "except ClientError") -> str:
    return f"""
        sqs = boto3.client("sqs")
        queue = "https://sqs.eu-west-2.amazonaws.com/111122223333/work"
        def handler(event, context):
            body = json.loads(event["Records"][0]["body"])
            try:
                orders.put_item(Item={{"id": body["order"], "part": body.get("part", 0)}})
            {when}:
                sqs.send_message(QueueUrl=queue, MessageBody={body})
    """


SENT_TO_ITS_QUEUE = {
    "a message that is sent again after an error": case(
        HOLDS, sends_itself('event["Records"][0]["body"]'), queue="work"
    ),
    "another message that is sent after an error": case(
        "breaks", sends_itself('json.dumps({"order": "o-2"})'), queue="work"
    ),
    "a part that sends the next part": case(
        HOLDS,
        sends_itself('json.dumps({"order": "o-1", "part": 1})', "finally").replace(
            "        sqs.send", '        if "part" not in body: sqs.send'
        ),
        queue="work",
    ),
    "a message that is sent to another queue after an error": case(
        "breaks", sends_itself('event["Records"][0]["body"]').replace("/work", "/other"), queue="work"
    ),
    "a message that sends itself without end": case(
        HOLDS, sends_itself('event["Records"][0]["body"]', "finally"), queue="work"
    ),
}


def publishes(emptied: str, sent: str = "waiting") -> str:
    return f"""
        sns = boto3.client("sns")
        waiting = []
        def handler(event, context):
            for record in event["Records"]:
                waiting.append(record["body"])
            for body in {sent}:
                sns.publish(TopicArn="arn:aws:sns:eu-west-2:111122223333:orders", Message=body)
            {emptied}
    """


STREAM, PUT_NAME = "AWS_LAMBDA_LOG_STREAM_NAME", 'orders.put_item(Item={"id": NAME})'
OF_THE_PROCESS = {
    "a global list that is never emptied": case("breaks", publishes("pass"), messages=[{"n": 1}, {"n": 2}]),
    "a global list that is emptied": case(HOLDS, publishes("waiting.clear()"), messages=[{"n": 1}, {"n": 2}]),
    "a global list that each fifth invocation sends": case(
        "keeps work in memory: only invocation 5 in one environment calls sns.publish at app.py:12",
        publishes("len(waiting) < 5 or waiting.clear()", sent="waiting * (len(waiting) == 5)"),
    ),
    "a key of a log stream": case("breaks", 'def handler(_, at): orders.put_item(Item={"id": at.log_stream_name})'),
    "a key of its variable": case("breaks", f'import os\nNAME = os.environ["{STREAM}"]\ndef handler(*_): {PUT_NAME}'),
    "a log stream that is printed": case(
        HOLDS, f'NAME = "o-1"\ndef handler(_, at): print(at.log_stream_name); {PUT_NAME}'
    ),
    "a key of the process": case(
        "breaks", 'import os\ndef handler(*_): orders.put_item(Item={"id": str(os.getpid())})'
    ),
}


def puts_in_time(wait: str, otherwise: str) -> str:
    return f"""
        import concurrent.futures
        from concurrent.futures import ThreadPoolExecutor, TimeoutError
        pool = ThreadPoolExecutor(2)
        def put(): return orders.put_item(Item={{"id": "o-1"}})
        def handler(event, context):
            future = pool.submit(put)
            try:
                {wait}
            except TimeoutError:
                {otherwise}
    """


WAITING = {
    "a slow put that is left behind": case("breaks", puts_in_time("future.result(timeout=1)", "print('slow')")),
    "a slow put that fails the message": case(HOLDS, puts_in_time("future.result(timeout=1)", "raise")),
    "a slow put that is waited for again": case(HOLDS, puts_in_time("future.result(timeout=1)", "future.result()")),
    "a slow put, and what is not done is left": case(
        "breaks", puts_in_time("concurrent.futures.wait([future], timeout=1)", "raise")
    ),
    "a slow put, and what is not done fails the message": case(
        HOLDS, puts_in_time("concurrent.futures.wait([future], timeout=1).done.pop().result()", "raise")
    ),
    "a slow put among those completed": case(
        "breaks", puts_in_time("list(concurrent.futures.as_completed([future], timeout=1))", "print('slow')")
    ),
}


RULES = {
    "a group and a shard have an order": ORDER,
    "a mask hides a generated value, and not what is beside it": BESIDE_A_TIME,
    "a first delivery may fail when a later one succeeds": AFTER_A_FAILURE,
    "a read may miss the last write when it is not consistent": STALE,
    "a service answers with an error that the handler does not name": ERRORS,
    "any part of a batch may be refused again": REFUSED_AGAIN,
    "DynamoDB deletes what has expired": EXPIRING,
    "what is sent to the explored queue is delivered": SENT_TO_ITS_QUEUE,
    "state and names of an environment count": OF_THE_PROCESS,
    "a timeout that the handler gives may pass": WAITING,
}


LONG = {
    *("paid unless 500 and more", "paid with 201 alone", "every error is tried again but a condition's"),
    *("an event is sent again by the place of its error", "rows under new ids that hold times"),
    "a global list that is emptied",
}
"""Cases of a second of CPU each, of rules that others hold to; they are left to the slow tests."""


@pytest.mark.parametrize(
    "one",
    [
        pytest.param(one, id=f"{rule}: {name}", marks=pytest.mark.slow if name in LONG else ())
        for rule, cases in RULES.items()
        for name, one in cases.items()
    ],
)
def test_handler_is_judged_by_the_rule(one: Case, tmp_path: Path) -> None:
    verdict, source, options = one
    (tmp_path / "app.py").write_text(textwrap.dedent(HEAD) + textwrap.dedent(source))
    given: dict[str, Any] = {"messages": [{"order": "o-1"}], "tables": {"orders": "id"}, "path": tmp_path, **options}

    assert explore("app.handler", **given).verdict.startswith(verdict)
