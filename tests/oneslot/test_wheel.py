"""The wheel, installed into new environments in other folders: complete, typed, small, and on its lowest versions."""

import json
import re
import shutil
import subprocess
import sys
import textwrap
import venv
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
UV = Path(sys.executable).with_name("uv")
PINS = ("--constraints", str(ROOT / "requirements" / "dev.txt"))
LOWEST = ("--resolution", "lowest-direct", "botocore==1.35.0", "moto[dynamodb,sqs]>=5.2.5")
CONSUME = """
import os, sys
import boto3
from moto import mock_aws
from oneslot import from_attributes
from oneslot.runtime.sqs.lambda_event import Context, event_of

with mock_aws():
    os.environ |= {
        "AWS_DEFAULT_REGION": "eu-west-2",
        "ONESLOT_LEDGER_TABLE": "ledger",
        "ONESLOT_LEDGER_RETENTION_SECONDS": "86400",
        "ONESLOT_TABLE_ORDERS": "orders",
    }
    dynamodb, sqs = boto3.client("dynamodb"), boto3.client("sqs")
    for table, key in ("ledger", "message_id"), ("orders", "order_id"):
        dynamodb.create_table(
            TableName=table,
            KeySchema=[{"AttributeName": key, "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
    for name in "QUEUE", "DEAD_LETTER_QUEUE":
        os.environ[f"ONESLOT_{name}_URL"] = sqs.create_queue(QueueName=name)["QueueUrl"]
    sys.path.insert(0, os.getcwd())
    import orders
    if "powertools" in sys.argv:
        from oneslot.runtime import powertools
        orders.handler.attempt, orders.handler.process = powertools.attempt, powertools.process
    order = {"message_id": "order-1", "article": "teapot"}
    for _ in range(2):
        assert orders.handler(event_of(order, order), Context()) == {"batchItemFailures": []}
    rows = [from_attributes(item) for item in dynamodb.scan(TableName="orders")["Items"]]
    assert rows == [{"order_id": "order-1", "article": "teapot"}], rows
"""
"""Runs the shortest consumer of the documentation on moto: one order, delivered four times."""


def python(code: str, *arguments: str, executable: Path, folder: Path) -> str:
    """Run a program with this Python, in this folder; return what it prints."""
    command: list[str | Path] = [executable, "-P", "-c", textwrap.dedent(code), *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout.strip()


def outcomes(log: str) -> list[str]:
    """Return the outcomes of the delivery lines."""
    return [json.loads(line)["outcome"] for line in log.splitlines()]


def fence(info: str) -> str:
    """Return the block of docs/do/write-a-consumer.md that opens with this line."""
    text = (ROOT / "docs" / "do" / "write-a-consumer.md").read_text(encoding="utf-8")
    (block,) = re.findall(rf"^```{re.escape(info)}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return str(block)


def environment(folder: Path, *packages: str | Path) -> Path:
    """Return the Python of a new virtual environment with these packages."""
    venv.create(folder)
    install(folder / "bin" / "python", *packages)
    return folder / "bin" / "python"


def install(interpreter: Path, *packages: str | Path) -> None:
    command: list[str | Path] = [UV, "pip", "install", "-q", "--python", interpreter, *packages]
    subprocess.run(command, check=True)


@pytest.fixture(scope="module")
def installed(wheel: Path, large_folder: Callable[[str], Path]) -> Path:
    """Return the Python of an environment with our wheel, without its dependencies."""
    return environment(large_folder("installed") / "environment", "--offline", "--no-deps", wheel)


@pytest.fixture(scope="module")
def complete(wheel: Path, large_folder: Callable[[str], Path]) -> Path:
    """Return the Python of an environment with our wheel and its dependencies, as pinned here."""
    return environment(large_folder("complete") / "environment", *PINS, wheel)


def test_wheel_runs_the_quickstart_in_another_folder(complete: Path, tmp_path: Path) -> None:
    shutil.copy(ROOT / "quickstart.py", tmp_path)
    done = subprocess.run([complete, "quickstart.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.fixture(scope="module")
def lowest(wheel: Path, large_folder: Callable[[str], Path]) -> Path:
    """Return the Python of an environment with our wheel and the lowest versions that it allows."""
    folder = large_folder("lowest") / "environment"
    return environment(folder, *LOWEST, f"oneslot[powertools] @ file://{wheel}")


@pytest.mark.parametrize("way", ["plain", "powertools"])
def test_wheel_runs_a_consumer_on_its_lowest_versions(lowest: Path, tmp_path: Path, way: str) -> None:
    (tmp_path / "orders.py").write_text(fence('python title="orders.py"'), encoding="utf-8")
    assert python("import boto3; print(boto3.__version__)", executable=lowest, folder=tmp_path) == "1.35.0"
    log = python(CONSUME, way, executable=lowest, folder=tmp_path)
    assert outcomes(log) == ["taken", "duplicate", "duplicate", "duplicate"]


def test_command_names_its_extra_until_it_is_installed(wheel: Path, complete: Path, tmp_path: Path) -> None:
    def run(interpreter: Path) -> subprocess.CompletedProcess[str]:
        command: list[str | Path] = [interpreter.with_name("oneslot"), "worker", "--help"]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    before = run(complete)
    after = run(environment(tmp_path / "environment", *PINS, f"oneslot[cli] @ file://{wheel}"))

    assert before.returncode == 1
    assert re.fullmatch(r"Error: The command line needs click, .* run: pip install '/.*\.whl\[cli\]'\n", before.stderr)
    assert (after.returncode, after.stderr) == (0, "")
    assert "Consume a queue until SIGTERM" in after.stdout


def test_wheel_is_typed_and_complete(installed: Path, tmp_path: Path) -> None:
    where = python("import oneslot; print(oneslot.__file__)", executable=installed, folder=tmp_path)
    assert "site-packages" in where
    assert (Path(where).parent / "py.typed").exists()
    beside = {path.name for path in Path(where).parents[1].glob("*") if path.suffix != ".dist-info"}
    assert beside <= {"oneslot", "pip", "setuptools", "_distutils_hack", "distutils-precedence.pth", "__pycache__"}
    shown = python(
        """
        from oneslot import Effects, Once, Put, Unprocessable, Update
        print(Effects({"a": 1}).result)
        """,
        executable=installed,
        folder=tmp_path,
    )
    assert shown == "{'a': 1}"


def test_wheel_shows_its_types_to_mypy(installed: Path, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent(
            """
            from oneslot import MemoryLedger, make_handler_idempotent

            def send(message: str, key: str) -> int:
                return len(message)

            handle = make_handler_idempotent(send, lambda message: message, MemoryLedger(), 30)
            reveal_type(handle)
            """
        )
    )
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--python-executable", installed, program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert re.search(r'Revealed type is "def \((builtins\.)?str\) -> (builtins\.)?int"', done.stdout), done.stdout
    assert done.returncode == 0, done.stdout
