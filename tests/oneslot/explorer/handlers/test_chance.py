"""Time and chance inside a handler: a key of either differs between deliveries, and no run differs from itself."""

import json
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from oneslot.explorer.handlers.exploration import explore
from oneslot.explorer.handlers.surroundings.takeover import taken_over
from oneslot.explorer.handlers.verdict import Result
from oneslot.explorer.refusal import NotExplorable

HANDLER = """
import datetime, email.utils, json, os, platform, random, resource, secrets, selectors, socket, ssl, tempfile, threading
import time, uuid
from time import perf_counter_ns as captured

import boto3

table = boto3.resource("dynamodb").Table("orders")

def waited():
    before = time.monotonic()
    selectors.DefaultSelector().select(1.5)  # as asyncio's loop does for its next timer
    assert 1.4 < time.monotonic() - before < 1.6
    return before

def handler(event, context):
    key = {expression}
    table.put_item(Item={{"id": str(key)}})
"""

CLOCKS = [
    *("time.time()", "time.monotonic()", "time.perf_counter()", "captured()", "time.process_time()"),
    *("time.thread_time_ns()", "time.clock_gettime(time.CLOCK_MONOTONIC)", "time.clock_gettime_ns(0)"),
    *("time.localtime()", "time.ctime()", "time.asctime()", "time.strftime('%c')", "datetime.datetime.now()"),
    *("os.times()", "resource.getrusage(0)", "waited()", "os.stat(tempfile.mkstemp()[1]).st_mtime"),
]
CHANCES = [
    *("os.urandom(8)", "os.getrandom(8)", "ssl.RAND_bytes(8)", "secrets.randbelow(10**9)"),
    *("random.random()", "random.randbytes(8)", "random.Random().random()"),
    *("uuid.uuid1()", "uuid.uuid4()", "tempfile.mkdtemp()", "email.utils.make_msgid()"),
    *(f"uuid.{name}()" for name in ("uuid6", "uuid7") if hasattr(uuid, name)),
    *("context.aws_request_id", "context.get_remaining_time_in_millis()", "tempfile.NamedTemporaryFile().name"),
    *("os.getpid()", "os.getppid()", "threading.get_ident()", "threading.get_native_id()", "uuid.getnode()"),
    *("socket.gethostname()", "platform.node()", "os.uname().nodename"),
]
"""Deliveries with equal numbers of the machine are tried as well: see the last test."""


def explored(path: Path, expression: str, **options: Any) -> Result:
    (path / "app.py").write_text(HANDLER.format(expression=expression))
    return explore("app.handler", messages=[{"order": "o-1"}], tables=["orders:id"], path=path, faults=0, **options)


def test_value_of_every_source_differs_when_a_message_is_delivered_twice(tmp_path: Path) -> None:
    """One handler's key has a value of each source. A key that differs is a second row, and breaks."""
    differing: set[str] = set()

    def law(world: Any) -> bool:
        """one row"""
        for one, other in combinations([json.loads(row["id"]) for row in world["orders"]], 2):
            differing.update(source for source in one if one[source] != other[source])
        return len(world["orders"]) == 1 or differing < {*CLOCKS, *CHANCES}

    key = ", ".join(f"{source!r}: str({source})" for source in (*CLOCKS, *CHANCES))
    result = explored(tmp_path, f"json.dumps({{{key}}})", law=law)

    assert differing == {*CLOCKS, *CHANCES}
    assert (result.holds, result.level) == (False, "twice")


@pytest.mark.parametrize("expression", ["id(object())", "os.stat(__file__).st_atime_ns + id([])", "repr(object())"])
def test_run_that_does_not_repeat_is_refused_by_what_differs(expression: str, tmp_path: Path) -> None:
    differing = f"[{expression}, setattr(uuid, 'held', [*getattr(uuid, 'held', []), object()])][0], len(uuid.held)"

    with pytest.raises(NotExplorable, match=r"changes from run to run.*: put_item\.Item\.id\S* is .* equal delivery"):
        explored(tmp_path, differing)


@pytest.mark.parametrize("expression", ["os.getpid()", "socket.gethostname()"])
def test_number_of_the_machine_may_be_that_of_another_environment(expression: str, tmp_path: Path) -> None:
    result = explored(tmp_path, expression, law=lambda world: len(world["orders"]) != 1)

    assert not result.holds


def test_random_numbers_follow_a_seed_when_the_handler_gives_one(tmp_path: Path) -> None:
    result = explored(tmp_path, "(random.seed(7), random.random(), random.getrandbits(9), random.sample('abc', 2))[1:]")

    assert result.holds


@pytest.mark.parametrize("letter", "ab")
def test_choice_is_drawn_both_ways(letter: str, tmp_path: Path) -> None:
    result = explored(tmp_path, "random.choice('ab')", law=lambda world: letter in str(world["orders"]))

    assert not result.holds


def test_log_that_powertools_samples_draws_nothing(tmp_path: Path) -> None:
    """Powertools configures a logger once in a process, and draws again from the second invocation on."""
    (tmp_path / "app.py").write_text("""
import boto3
from aws_lambda_powertools import Logger

logger = Logger(service="orders", sampling_rate=0.5)
table = boto3.resource("dynamodb").Table("orders")

@logger.inject_lambda_context
def handler(event, context):
    table.put_item(Item={"id": event["order"]})
""")

    result = explore("app.handler", event={"order": "o-1"}, tables=["orders:id"], path=tmp_path)

    assert result.kind == "holds"


def sleep_and_look() -> float:
    time.sleep(0.1)
    return time.time()


def test_another_thread_keeps_the_real_clock() -> None:
    process = SimpleNamespace(read_clock=lambda: 1_000)

    with ThreadPoolExecutor(1) as pool:
        pool.submit(time.time).result()
        running = False

        def current() -> SimpleNamespace | None:
            return process if running else None

        with taken_over(current, {}):
            submitted = pool.submit(sleep_and_look)
            running = True
            explored = time.time()
            while not submitted.done():
                continue
            running = False
        real = submitted.result()

    assert explored == 1
    assert real > 1_000
