"""Replays one schedule of a Lambda handler on moto, one call of AWS at a time. A written test holds this file's text.

It imports nothing of Oneslot, so that the test runs where only pytest, boto3, moto and time-machine are installed.
"""

from __future__ import annotations

import importlib
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import chdir, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar
from unittest.mock import patch

import boto3
import time_machine
from botocore.client import BaseClient
from botocore.exceptions import ClientError, ReadTimeoutError
from moto import mock_aws

ACCOUNT, REGION = "111122223333", "eu-west-2"
SERVER_ERROR = 500
SHORTEST_BUCKET = 3
NO_CONSTRAINT = "us-east-1"
ANOTHER_TIME_S = 98_765
"""To a time of another day, hour, minute and second."""
Perform = Callable[[], Any]


class Crash(BaseException):
    """The process ends here."""


class Invocation:
    """One invocation, in a thread that stops before each call of AWS until `go` says what becomes of the call."""

    running: ClassVar[dict[int, Invocation]] = {}

    def __init__(self, invoke: Callable[[], Any], *, reads_failures: bool) -> None:
        self._invoke, self._reads_failures = invoke, reads_failures
        self._fates: queue.Queue[Callable[[Perform], Any]] = queue.Queue()
        self._stops: queue.Queue[None] = queue.Queue()
        self.has_ended = self.succeeded = False
        threading.Thread(target=self._run, daemon=True).start()
        self._stops.get()

    def _run(self) -> None:
        Invocation.running[threading.get_ident()] = self
        try:
            answer = self._invoke()
            answer = answer if isinstance(answer, dict) else {}
            failed = self._reads_failures and answer.get("batchItemFailures")
            self.succeeded = not failed and int(answer.get("statusCode", 200)) < SERVER_ERROR
        except (Exception, Crash):
            self.succeeded = False
        finally:
            Invocation.running.pop(threading.get_ident(), None)
            self.has_ended = True
            self._stops.put(None)

    def call(self, perform: Perform) -> Any:
        """Wait for the fate of a call, and carry it out."""
        self._stops.put(None)
        return self._fates.get()(perform)

    def go(self, fate: Callable[[Perform], Any]) -> None:
        """Let the pending call have this fate, and wait for the next call or the end. A changed handler may have ended."""
        if self.has_ended:
            return
        self._fates.put(fate)
        self._stops.get()


@dataclass(kw_only=True)
class Replay:
    """A handler with its account on moto. `resources`: service, operation and parameters of each call that makes one.

    `reads_failures`: whether Lambda reads `batchItemFailures` of this mapping.
    """

    handler: str
    folders: Sequence[str]
    event: Any
    env: Mapping[str, str]
    resources: Sequence[tuple[str, str, Mapping[str, Any]]]
    reads_failures: bool
    _generated: set[tuple[str, str]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.folders = [str(Path(one).resolve()) for one in self.folders]
        own = {"AWS_DEFAULT_REGION": REGION, "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
        self.env = {**own, "MOTO_ACCOUNT_ID": ACCOUNT, **self.env}

    def once(self) -> dict[str, Any]:
        """Deliver once without a fault. An attribute that differs at another time is generated, and not compared from now on.

        The handler under test shows it, rather than the one of the breach, because a fix may add a time or an id of its own.
        """
        one = self.run()["rows"]
        with time_machine.travel(time.time() + ANOTHER_TIME_S):
            other = self.run()["rows"]
        for table, rows in one.items():
            for name in {name for row in rows for name in row}:
                seen = [sorted(repr(row.get(name)) for row in run.get(table, ())) for run in (one, other)]
                if seen[0] != seen[1]:
                    self._generated.add((table, name))
        return self.run()

    def run(self, schedule: Sequence[tuple[int, str]] = (), retries: Sequence[int] = (0,)) -> dict[str, Any]:
        """Replay the steps (a delivery's number, and what happens), then deliver at `retries`, in seconds, until one succeeds.

        Returns what tables and buckets hold without what is generated, the messages that went out, and whether one succeeded.
        """
        original: Any = vars(BaseClient)["_make_api_call"]

        def stopped(client: Any, operation: str, parameters: Mapping[str, Any]) -> Any:
            parameters = _with_valid_names(parameters, client.meta.region_name)

            def perform() -> Any:
                self._make_named(client, parameters, original)
                answer = original(client, operation, parameters)
                is_sent = operation.startswith(("Publish", "Send", "Put", "Start", "Invoke"))
                if is_sent and "TableName" not in parameters:
                    where = [
                        parameters[name] for name in ("TopicArn", "QueueUrl", "FunctionName") if name in parameters
                    ]
                    self._sent.add(" ".join([operation, *map(str, where)]))
                return answer

            invocation = Invocation.running.get(threading.get_ident())
            return perform() if invocation is None else invocation.call(perform)

        self._network: list[Perform] = []
        self._sent: set[str] = set()
        self._made: set[str] = set()
        with patch.dict(os.environ, self.env), mock_aws():
            for service, operation, parameters in self.resources:
                client: Any = boto3.client(service)  # type: ignore[call-overload]
                valid = _with_valid_names(parameters, client.meta.region_name)
                self._make_named(client, valid, original)
                getattr(client, operation)(**valid)
            path = [*self.folders, *sys.path]
            try:
                sent_by = patch.object(BaseClient, "_make_api_call", stopped)
                with sent_by, patch.object(sys, "path", path), chdir(self.folders[0]):
                    succeeded = self._replay(schedule, retries)
            finally:
                self._forget_modules()
            return {"succeeded": succeeded, "rows": self._rows(), "sent": self._sent}

    def _make_named(self, client: Any, parameters: Mapping[str, Any], call: Callable[..., Any]) -> None:
        """Make the bucket, topic, queue or buses that a call names, whether or not the template has them."""
        for operation, wanted in _creations(client, parameters):
            name = f"{operation} {wanted}"
            if name not in self._made:
                self._made.add(name)
                with suppress(ClientError):  # it exists
                    call(client, operation, wanted)

    def _replay(self, schedule: Sequence[tuple[int, str]], retries: Sequence[int]) -> bool:
        running: dict[int, Invocation] = {}
        succeeded = False
        for delivery, what in schedule:
            if what == "lands late":
                with suppress(ClientError, IndexError):  # a changed handler may have sent nothing, or AWS refuses it
                    self._network.pop(0)()
            elif delivery not in running:
                running[delivery] = self._invoked(is_cold=what == "invoked")
            elif what == "acknowledged":
                succeeded |= running[delivery].succeeded
            else:
                running[delivery].go(self._fate(what))
        for seconds in retries:
            if succeeded:
                break
            # Later rather than at once, because the row of a crashed invocation refuses others until it expires.
            with time_machine.travel(time.time() + seconds):
                last = self._invoked(is_cold=True)
                while not last.has_ended:
                    last.go(self._fate("performed"))
            succeeded = last.succeeded
        return succeeded

    def _invoked(self, *, is_cold: bool) -> Invocation:
        def invoke() -> Any:
            if is_cold:
                self._forget_modules()
            path, _, function = self.handler.replace("/", ".").rpartition(".")
            return getattr(importlib.import_module(path), function)(self.event, ReplayContext())

        return Invocation(invoke, reads_failures=self.reads_failures)

    def _forget_modules(self) -> None:
        """Forget the handler's modules, as another one's may have the same names. Packages may be below its folder."""
        for name, module in list(sys.modules.items()):
            file = getattr(module, "__file__", None) or ""
            if file.startswith(tuple(self.folders)) and "site-packages" not in file:
                del sys.modules[name]

    def _fate(self, what: str) -> Callable[[Perform], Any]:
        def fate(perform: Perform) -> Any:
            if what == "performed":
                return perform()
            if "on its way" in what or "lands late" in what:
                self._network.append(perform)
            if what.startswith("crash"):
                raise Crash
            if what.startswith("response lost"):
                perform()
            if "sends it again" in what:
                return perform()
            if what.startswith("all attempts time out"):
                raise ReadTimeoutError(endpoint_url="https://aws.example")
            raise ClientError({"Error": {"Code": what, "Message": "injected"}}, "Replayed")

        return fate

    def _rows(self) -> dict[str, list[dict[str, Any]]]:
        dynamodb, s3 = boto3.resource("dynamodb"), boto3.client("s3")
        tables = boto3.client("dynamodb").list_tables()["TableNames"]
        found = {name: list(dynamodb.Table(name).scan()["Items"]) for name in tables}
        for bucket in [one["Name"] for one in s3.list_buckets()["Buckets"]]:
            for held in s3.list_objects_v2(Bucket=bucket).get("Contents", []):
                body = s3.get_object(Bucket=bucket, Key=held["Key"])["Body"].read()
                found.setdefault(f"s3://{bucket}", []).append({"Key": held["Key"], "Body": body})
        for table, rows in found.items():
            kept = [{name: row[name] for name in sorted(row) if (table, name) not in self._generated} for row in rows]
            found[table] = sorted(kept, key=repr)
        return found


def _creations(client: Any, parameters: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the operation and the parameters of each call that makes what this call names."""
    service, region = client.meta.service_model.service_name, client.meta.region_name
    if service == "s3" and "Bucket" in parameters:
        place = {} if region == NO_CONSTRAINT else {"CreateBucketConfiguration": {"LocationConstraint": region}}
        yield "CreateBucket", {"Bucket": parameters["Bucket"], **place}
    if service == "sqs":
        name = parameters.get("QueueName") or parameters.get("QueueUrl", "").rpartition("/")[2]
        if name:
            yield "CreateQueue", {"QueueName": name, "Attributes": _fifo(name, "FifoQueue")}
    topic = parameters.get("TopicArn") or parameters.get("TargetArn") or ""
    if service == "sns" and topic:
        name = topic.rpartition(":")[2]
        yield "CreateTopic", {"Name": name, "Attributes": _fifo(name, "FifoTopic")}
    if service == "events":
        for entry in parameters.get("Entries", ()):
            name = entry.get("EventBusName", "default").rpartition("/")[2]
            if name != "default":
                yield "CreateEventBus", {"Name": name}


def _fifo(name: str, attribute: str) -> dict[str, str]:
    return {attribute: "true"} if name.endswith(".fifo") else {}


def _with_valid_names(parameters: Mapping[str, Any], region: str) -> dict[str, Any]:
    """Return the parameters as moto takes them: buckets with names that S3 allows, and topics of this account.

    A template's logical ids have capitals, and may be short.
    """

    def valid(name: str, value: Any) -> Any:
        if name == "CopySource" and isinstance(value, Mapping):
            return _with_valid_names(value, region)
        if name == "Bucket":
            return value.lower().ljust(SHORTEST_BUCKET, "0")
        if name in ("TopicArn", "TargetArn"):
            return f"arn:aws:sns:{region}:{ACCOUNT}:{value.rpartition(':')[2]}"
        return value

    return {name: valid(name, value) for name, value in parameters.items()}


class ReplayContext:
    """Lambda's context."""

    function_name = "replayed"
    function_version = "$LATEST"
    memory_limit_in_mb = 128
    invoked_function_arn = f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:replayed"

    def __init__(self) -> None:
        self.aws_request_id = os.urandom(8).hex()

    def get_remaining_time_in_millis(self) -> int:
        """Return enough for any handler."""
        return 30_000
