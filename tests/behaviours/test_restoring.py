"""Damaged tables, restored by `oneslot restore` and the commands of its page, on the embedded AWS."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from oneslot.local.aws.cloud_assembly import SynthesisedStack
from oneslot.local.aws.connection import Connection
from oneslot.runtime.values import from_attributes
from tests.behaviours.conftest import Terminal, running_stack
from tests.kits.consumer import booking

pytestmark = pytest.mark.embedded_aws

PAGE = Path(__file__).resolve().parents[2] / "docs" / "do" / "restore.md"
ALWAYS = {"not_before": "2020-01-01T08:00:00Z", "not_after": "2100-01-01T08:00:00Z"}
TABLES = ("appointments", "ledger", "slots")


class Engineer:
    """An engineer who follows the page on a stack of their own."""

    def __init__(self, terminal: Terminal, account: Connection, folder: Path) -> None:
        self.terminal, self.folder, self.target = terminal, folder, terminal.target
        outputs = self.target.outputs
        self.names = {table: outputs.tables.get(table, outputs.ledger_table_name) for table in TABLES}
        self.before = ""
        self.environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "AWS_ENDPOINT_URL": account.endpoint_url,
            "AWS_DEFAULT_REGION": account.region,
            "AWS_ACCESS_KEY_ID": account.access_key_id,
            "AWS_SECRET_ACCESS_KEY": account.secret_access_key,
            **{f"{table.upper()}_TABLE_NAME": name for table, name in self.names.items()},
        }

    def shell(self, lines: Iterable[str]) -> str:
        """Run these lines as they are pasted. None may fail."""
        script = "set -e\n" + "\n".join(lines)
        run = subprocess.run(
            ["/bin/bash", "-c", script],
            cwd=self.folder,
            env={**self.environment, "BEFORE": self.before},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert run.returncode == 0, (script, run.stdout, run.stderr)
        return run.stdout

    def restore_beside(self) -> None:
        """Restore at `BEFORE`, which is now, because the embedded AWS restores the present table."""
        self.before = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        self.shell(commands("aws dynamodb restore-table-to-point-in-time"))

    def put_back(self, *flags: str) -> str:
        assert len([line for line in commands("oneslot restore") if line.endswith(" ".join(["$STACK", *flags]))]) == 1
        if "--yes" in flags:
            self.terminal.run("pause", "--reason", "restoring the tables", "--yes")
        return self.terminal.run("restore", "--since", self.before, *flags).stdout

    def rows(self, table: str, suffix: str = "") -> list[dict[str, Any]]:
        items = self.target.dynamodb.scan(TableName=self.names[table] + suffix, ConsistentRead=True)["Items"]
        return sorted((from_attributes(item) for item in items), key=json.dumps)

    def send(self, bodies: list[dict[str, Any]]) -> None:
        path = self.folder / "requests.ndjson"
        path.write_text("".join(json.dumps(body) + "\n" for body in bodies))
        self.terminal.json("send", "--file", str(path))
        self.terminal.drain()

    def damage(self, table: str, key: dict[str, str], change: str | None = None, value: str = "") -> None:
        """Damage a row: delete it, or overwrite one of its attributes."""
        client, name = self.target.dynamodb, self.names[table]
        where = {attribute: {"S": text} for attribute, text in key.items()}
        if change is None:
            client.delete_item(TableName=name, Key=where)
            return
        client.update_item(
            TableName=name,
            Key=where,
            UpdateExpression="SET #changed = :value",
            ExpressionAttributeNames={"#changed": change},
            ExpressionAttributeValues={":value": {"S": value}},
        )

    def checked(self) -> tuple[bool, set[str]]:
        document = json.loads(self.terminal.run("check", "--json").stdout)
        return document["holds"], {breach["invariant"] for breach in document["breaches"]}


def commands(beginning: str, containing: str = "") -> list[str]:
    """Return the page's shell lines with this beginning."""
    lines = [line.strip() for line in PAGE.read_text(encoding="utf-8").splitlines()]
    found = [line for line in lines if line.startswith(beginning) and containing in line]
    assert found
    return found


@pytest.fixture
def engineer(account: Connection, synthesised: SynthesisedStack, tmp_path: Path) -> Iterator[Engineer]:
    with running_stack(account, synthesised, tmp_path) as (_, terminal):
        terminal.json("seed", "--slots", "600", "--practice-count", "2")
        engineer = Engineer(terminal, account, tmp_path)
        engineer.send([old(number) for number in range(20)])
        engineer.restore_beside()
        yield engineer


def old(number: int) -> dict[str, Any]:
    return booking(f"old-{number:02}", practice="Z00001", **ALWAYS)


def new(number: int) -> dict[str, Any]:
    return booking(f"new-{number:02}", practice="Z00002", **ALWAYS)


@pytest.mark.slow
def test_put_back_restores_only_the_damaged_rows(engineer: Engineer) -> None:
    before = {table: engineer.rows(table) for table in TABLES}
    cancellation = {"message_id": "cancel-19", "type": "cancel", "appointment_id": "old-19"}
    engineer.send([*(new(number) for number in range(10)), cancellation])
    held = {row["appointment_id"]: row for row in before["slots"] if "appointment_id" in row}
    sound = {table: engineer.rows(table) for table in TABLES}
    for number in range(3):
        engineer.damage("ledger", {"message_id": f"old-{number:02}"})
        engineer.damage("appointments", {"appointment_id": f"old-{number + 3:02}"})
        slot = held[f"old-{number + 6:02}"]
        engineer.damage("slots", {"practice": slot["practice"], "slot_id": slot["slot_id"]}, "status", "free")
    engineer.damage("appointments", {"appointment_id": "old-09"}, "nhs_number", "9990000026")
    engineer.damage("ledger", {"message_id": "old-10"}, "status", "IN_PROGRESS")
    assert not engineer.checked()[0]

    damaged = {table: engineer.rows(table) for table in TABLES}
    assert "Nothing was changed" in engineer.put_back()
    assert {table: engineer.rows(table) for table in TABLES} == damaged
    output = engineer.put_back("--yes").splitlines()
    assert sum(line.startswith("goes back") for line in output) == 11
    assert {line.split()[2] for line in output if line.startswith("stays") and "Z0" not in line} == {
        *(f"new-{number:02}" for number in range(10)),
        "cancel-19",
        "old-19",
    }
    assert {table: engineer.rows(table) for table in TABLES} == sound
    assert engineer.checked() == (True, set())


@pytest.mark.slow
def test_put_back_of_all_tables_holds_after_a_resend(engineer: Engineer) -> None:
    before = {table: engineer.rows(table) for table in TABLES}
    since = [
        *(new(number) for number in range(10)),
        {"message_id": "cancel-19", "type": "cancel", "appointment_id": "old-19"},
    ]
    engineer.send(since)
    engineer.put_back("--everything", "--yes")
    assert {table: engineer.rows(table) for table in TABLES} == before
    assert engineer.checked() == (False, {"I2", "I6"}), "the undone requests are named"
    engineer.terminal.run("resume", "--yes")
    restarted = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    engineer.send([*since, old(0)])
    booked = [row["appointment_id"] for row in engineer.rows("appointments") if row["status"] == "booked"]
    assert sorted(booked) == sorted(
        {body["message_id"] for body in since} - {"cancel-19"} | {f"old-{n:02}" for n in range(19)}
    )
    variables = engineer.target.functions.get_function_configuration(
        FunctionName=engineer.target.outputs.consumer_function_name
    )["Environment"]["Variables"]
    engineer.target.functions.update_function_configuration(
        FunctionName=engineer.target.outputs.consumer_function_name,
        Environment={"Variables": {**variables, "LEDGER_FORGOTTEN_BEFORE": restarted}},
    )
    assert engineer.checked() == (True, set())
