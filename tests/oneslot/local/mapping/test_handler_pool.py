"""Handler processes with small handlers: their environment, their failures and their end."""

import json
import os
import signal
import textwrap
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from oneslot.local.aws.connection import Connection
from oneslot.local.mapping.configuration import FunctionConfiguration
from oneslot.local.mapping.handler_pool import HandlerPool
from oneslot.local.mapping.handler_process import Answered, FunctionError, Throttled
from oneslot.local.mapping.installation import Installation, install
from oneslot.local.state import start_ticks
from oneslot.runtime.surroundings import Surroundings
from tests.kits.local_mapping import wait_for

Make = Callable[..., Installation]


@pytest.fixture
def installed(tmp_path: Path) -> Make:
    """Install a handler's source text in a folder of the test's own."""

    def install(source: str, *, timeout: int = 60, environment: dict[str, str] | None = None) -> Installation:
        (code := tmp_path / "code").mkdir()
        (code / "fake.py").write_text(textwrap.dedent(source))
        function = FunctionConfiguration(
            name="fake",
            arn="arn:aws:lambda:eu-west-2:000000000000:function:fake",
            version="$LATEST",
            handler="fake.handle",
            timeout_seconds=timeout,
            memory_mb=512,
            environment=environment or {},
            log_group="/aws/lambda/fake",
            reserved_concurrency=None,
            code_url="",
        )
        return Installation(
            function=function,
            code=code,
            connection=Connection("http://127.0.0.1:9"),
            log_file=tmp_path / "log",
            error_file=tmp_path / "errors",
        )

    return install


@pytest.fixture
def pool_of(installed: Make) -> Iterator[Callable[..., HandlerPool]]:
    """Make pools, and close them after the test."""
    pools = []

    def make(source: str, size: int = 1, **more: Any) -> HandlerPool:
        numbers = count(1)
        surroundings = Surroundings(new_id=lambda: f"r-{next(numbers)}")
        pools.append(HandlerPool(installed(source, **more), size, surroundings))
        return pools[-1]

    yield make
    for pool in pools:
        pool.close()


def answer(outcome: object) -> Any:
    assert isinstance(outcome, Answered), outcome
    return json.loads(outcome.answer)


def test_handler_sees_lambdas_context_and_environment(pool_of: Callable[..., HandlerPool]) -> None:
    os.environ["ONESLOT_TEST_LEAK"] = "leaked"
    try:
        pool = pool_of(
            """
            import os, sys
            def handle(event, context):
                return {
                    "event": event, "remaining": context.get_remaining_time_in_millis(),
                    "request": context.aws_request_id, "name": context.function_name,
                    "version": context.function_version, "arn": context.invoked_function_arn,
                    "memory": context.memory_limit_in_mb, "group": context.log_group_name,
                    "stream": context.log_stream_name, "environment": dict(os.environ),
                    "path": sys.path, "input": sys.stdin.read(),
                }
            """,
            timeout=900,
            environment={"LEDGER_TABLE": "ledger", "AWS_REGION": "eu-west-9"},
        )
        seen = answer(pool.invoke({"a": [1]}))
    finally:
        del os.environ["ONESLOT_TEST_LEAK"]
    assert seen["event"] == {"a": [1]}
    assert 600_000 < seen["remaining"] <= 900_000
    assert (seen["request"], seen["name"], seen["version"]) == ("r-1", "fake", "$LATEST")
    assert seen["arn"].endswith(":function:fake")
    assert (seen["memory"], seen["group"]) == ("512", "/aws/lambda/fake")
    assert "[$LATEST]" in seen["stream"]
    assert seen["environment"]["LEDGER_TABLE"] == "ledger"
    assert seen["environment"]["AWS_REGION"] == "eu-west-9"  # the function's own settings win, as on Lambda
    assert seen["environment"]["AWS_ENDPOINT_URL"] == "http://127.0.0.1:9"
    assert "ONESLOT_TEST_LEAK" not in seen["environment"]
    assert "VIRTUAL_ENV" not in seen["environment"]
    assert seen["input"] == ""
    repository = str(Path(__file__).parents[4])
    assert not [each for each in seen["path"] if each in (repository, f"{repository}/lambda_src")]


def test_handler_has_its_assets_packages_and_boto3_alone(pool_of: Callable[..., HandlerPool]) -> None:
    pool = pool_of(
        """
        import boto3, botocore.session, dateutil.parser, importlib.util, jmespath, s3transfer, six, urllib3, yaml
        names = ("boto3", "click", "oneslot", "pydantic", "pytest", "redis")
        found = [name for name in names if importlib.util.find_spec(name)]
        def handle(event, context):
            return [found, boto3.client("sqs").meta.service_model.service_name, yaml.WHO]
        """
    )
    (pool.installation.code / "yaml.py").write_text("WHO = 'the asset'")
    assert answer(pool.invoke({})) == [["boto3"], "sqs", "the asset"]


def test_handler_takes_and_returns_six_megabytes(pool_of: Callable[..., HandlerPool]) -> None:
    pool = pool_of("def handle(event, context): return event")
    event = {"body": "x" * 6 * 1024 * 1024}
    assert answer(pool.invoke(event)) == event


def test_exception_keeps_the_process(pool_of: Callable[..., HandlerPool]) -> None:
    pool = pool_of("def handle(event, context): raise KeyError('which')")
    assert pool.invoke({}) == FunctionError("exception", "KeyError")
    (before,) = pool.pids()
    assert pool.invoke({}) == FunctionError("exception", "KeyError")
    assert pool.pids() == [before]
    error, report, *_ = (json.loads(line) for line in pool.installation.log_file.read_text().splitlines())
    assert (error["level"], error["errorType"], error["requestId"]) == ("ERROR", "KeyError", "r-1")
    assert (report["type"], report["record"]["requestId"]) == ("platform.report", "r-1")


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("import os\ndef handle(:", FunctionError("init", "SyntaxError in fake.py, line 2")),
        ("handle = 3", FunctionError("init", "TypeError")),
        ("raise SystemExit(3)", FunctionError("init", "SystemExit in fake.py, line 1")),
        (
            "import os\nos.makedirs('oneslot', exist_ok=True)\nopen('oneslot/__init__.py', 'w').write('3 / 0')\nimport oneslot",
            FunctionError("init", "ZeroDivisionError in fake.py, line 4"),
        ),
        ("import os\nos._exit(3)", FunctionError("init", "Runtime.ExitError")),
        ("def handle(event, context): return {1, 2}", FunctionError("exception", "Runtime.MarshalError")),
        ("async def handle(event, context): pass", FunctionError("exception", "Runtime.MarshalError")),
        ("def handle(event, context): raise SystemExit(0)", FunctionError("crash", "Runtime.ExitError")),
        ("import os\ndef handle(event, context): os._exit(0)", FunctionError("crash", "Runtime.ExitError")),
    ],
)
def test_broken_process_is_replaced(pool_of: Callable[..., HandlerPool], source: str, error: FunctionError) -> None:
    pool = pool_of(source)
    assert pool.invoke({}) == error
    # again, because the broken process is replaced
    assert pool.invoke({}) == error


@pytest.mark.slow
@pytest.mark.parametrize(
    "way",
    ["import time; time.sleep(600)", "while True: pass", "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)"],
    ids=["sleeps", "spins", "frozen"],
)
def test_deadline_kills_the_process(pool_of: Callable[..., HandlerPool], way: str) -> None:
    pool = pool_of(
        f"""
        def handle(event, context):
            if event["hang"]:
                {way}
            return "fine"
        """
    )
    patient = pool.installation
    hasty = replace(patient, function=replace(patient.function, timeout_seconds=1))
    assert answer(pool.invoke({"hang": False})) == "fine"
    (before,) = pool.pids()
    pool.installation = hasty
    started = time.monotonic()
    assert pool.invoke({"hang": True}) == FunctionError("timeout", "Sandbox.Timedout")
    assert time.monotonic() - started > 0.9
    assert start_ticks(before) is None
    pool.installation = patient
    assert answer(pool.invoke({"hang": False})) == "fine"
    assert pool.pids() != [before]


def test_killed_process_fails_only_its_invocation(pool_of: Callable[..., HandlerPool]) -> None:
    pool = pool_of(
        """
        import time
        def handle(event, context):
            print("begun", event["seconds"], flush=True)
            time.sleep(event["seconds"])
        """,
        timeout=900,
    )
    pool.warm(1)
    (idle,) = pool.pids()
    os.kill(idle, signal.SIGKILL)
    wait_for(lambda: pool.pids() == [])
    assert answer(pool.invoke({"seconds": 0})) is None
    outcomes: list[object] = []
    thread = threading.Thread(target=lambda: outcomes.append(pool.invoke({"seconds": 600})))
    thread.start()
    wait_for(lambda: "begun 600" in pool.installation.log_file.read_text())
    (busy,) = pool.pids()
    assert pool.invoke({"seconds": 0}) == Throttled(), "the only process is busy"
    os.kill(busy, signal.SIGKILL)
    thread.join()
    assert outcomes == [FunctionError("crash", "Runtime.ExitError")]
    assert answer(pool.invoke({"seconds": 0})) is None


def test_log_lines_of_processes_do_not_mix(pool_of: Callable[..., HandlerPool]) -> None:
    pool = pool_of(
        """
        def handle(event, context):
            for _ in range(50):
                print(event["letter"] * 9000, end="")
                print()
        """,
        size=4,
    )
    threads = [threading.Thread(target=pool.invoke, args=({"letter": letter},)) for letter in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = pool.installation.log_file.read_text().splitlines()
    assert sorted(lines) == sorted(letter * 9000 for letter in "abcd" for _ in range(50))


def test_close_ends_every_process(pool_of: Callable[..., HandlerPool]) -> None:
    pool = pool_of("def handle(event, context): pass", size=3)
    assert pool.warm(3) is None
    pids = pool.pids()
    assert len(pids) == 3
    pool.close()
    assert [start_ticks(pid) for pid in pids] == [None] * 3


@pytest.mark.slow
def test_warm_compiles_the_asset_once(pool_of: Callable[..., HandlerPool]) -> None:
    pool = pool_of(
        """
        import os, time
        from importlib.util import find_spec
        print("compiled before:", os.path.exists(find_spec("big").cached), flush=True)
        time.sleep(1)
        import big
        def handle(event, context): pass
        """,
        size=4,
    )
    (pool.installation.code / "big.py").write_text("")
    assert pool.warm(4) is None
    assert pool.installation.log_file.read_text().splitlines() == [
        f"compiled before: {before}" for before in (False, True, True, True)
    ]


def test_warm_stops_at_the_first_import_error(pool_of: Callable[..., HandlerPool]) -> None:
    pool = pool_of("print('begun', flush=True); import no_such_package", size=4)
    assert pool.warm(4) == FunctionError("init", "ModuleNotFoundError in fake.py, line 1")
    assert pool.installation.log_file.read_text().splitlines().count("begun") == 1
    assert pool.pids() == []


def test_install_unpacks_the_same_code_once(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "code.zip", "w") as archive:
        archive.writestr("package/module.py", "ANSWER = 42\n")
    url = (tmp_path / "code.zip").as_uri()
    code = install(url, tmp_path / "function", Connection("http://127.0.0.1:9"))
    (code / "compiled.pyc").touch()

    again = install(url, tmp_path / "function", Connection("http://127.0.0.1:9"))

    assert again == code
    assert (code / "package" / "module.py").read_text() == "ANSWER = 42\n"
    assert (code / "compiled.pyc").exists(), "Python's bytecode is kept"
