"""`oneslot export` from the embedded AWS: DynamoDB's layout, and an audit that reads it; and an audit in its S3."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from oneslot.audit.layout import to_dynamodb_json
from oneslot.errors import BadInput
from oneslot.local.aws.cloud_assembly import SynthesisedStack
from oneslot.local.aws.connection import Connection
from oneslot.local.aws.deployment import deploy
from oneslot.local.state import LocalState
from oneslot.operator.commands.export import export_history
from oneslot.operator.target import Target, local_target
from tests.kits.histories import System, write_history
from tests.oneslot.audit.audit_answers import audit_found

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def target(account: Connection, synthesised: SynthesisedStack, tmp_path: Path) -> Target:
    """A stack with a delivery log and an archive."""
    state = LocalState.of(deploy(synthesised, account), tmp_path / "consumer.jsonl")
    return local_target(state, tmp_path)


@pytest.mark.slow
@pytest.mark.embedded_aws
@pytest.mark.spark
def test_audit_reads_an_exported_stack(audited: Callable[..., Any], target: Target, tmp_path: Path) -> None:
    """The audit sees the tables and queues; the patient's number never leaves the table."""
    world = System(71, practices=2, slots_per_practice=8).run(25)
    names = target.outputs
    tables = {"ledger": names.ledger_table_name, "slots": names.tables["slots"]}
    tables["appointments"] = names.tables["appointments"]
    for table, items in world.tables().items():
        for item in items.values():
            target.dynamodb.put_item(TableName=tables[table], Item=to_dynamodb_json(item))
    (tmp_path / "accepted.jsonl").write_text("".join(json.dumps(row) + "\n" for row in world.accepted))
    (tmp_path / "consumer.jsonl").write_text("".join(json.dumps(row) + "\n" for row in world.deliveries))
    for letter in world.dead_letters:
        attributes: Any = {
            "QuarantineReason": {"DataType": "String", "StringValue": str(letter["reason"])},
            "SourceMessageId": {"DataType": "String", "StringValue": str(letter["source_message_id"])},
        }
        body = {"message_id": letter["message_id"]} if letter["message_id"] else {}
        target.sqs.send_message(
            QueueUrl=names.dead_letter_queue_url, MessageBody=json.dumps(body), MessageAttributes=attributes
        )
    about = target.functions.get_function_configuration(FunctionName=names.consumer_function_name)
    variables = {**about["Environment"]["Variables"], "LEDGER_FORGOTTEN_BEFORE": "2020-01-01T00:00:00Z"}
    target.functions.update_function_configuration(
        FunctionName=names.consumer_function_name, Environment={"Variables": variables}
    )
    counts = export_history(target, tmp_path / "history")
    expected = {name: len(items) for name, items in world.tables().items()}
    assert {name: counts[name] for name in expected} == expected
    assert counts["deliveries"] == len(world.deliveries)
    assert counts["dead-letters"] == len(world.dead_letters)
    assert not any(b"9990000018" in path.read_bytes() for path in (tmp_path / "history").rglob("*") if path.is_file())
    assert (tmp_path / "history").stat().st_mode & 0o077 == 0
    context = json.loads((tmp_path / "history" / "context.json").read_text())
    assert context == {
        "ledger_retention_seconds": 30 * 86_400,
        "ledger_forgotten_before": "2020-01-01T00:00:00+00:00",
    }
    conclusion = audited(tmp_path / "history")
    assert conclusion.document["retention_ms"] == 30 * 86_400_000
    assert conclusion.document["forgotten_before"] == 1_577_836_800_000
    assert conclusion.document["verdicts"]["booked"] > 0
    assert conclusion.document["rejects"]["lines"] == 0
    in_flight = {row["message_id"] for row in world.waiting or ()}
    # The test put nothing on the queue, so requests in flight are lost. Nothing else may be wrong.
    assert {subject for _, subject in audit_found(tmp_path / "audit")} <= in_flight
    with pytest.raises(BadInput, match="exists already"):
        export_history(replace(target), tmp_path / "history")


@pytest.mark.slow
@pytest.mark.embedded_aws
@pytest.mark.spark
def test_job_in_s3_gives_the_audit_of_the_same_folder(
    audited: Callable[..., Any], account: Connection, tmp_path: Path
) -> None:
    """It reads exports and gzipped logs from S3 and writes there, as on Glue: the same verdicts, tables and conclusion."""
    history = write_history(System(71, practices=2, slots_per_practice=8).run(25), tmp_path / "history")
    audited(history, tables=True)
    s3 = account.s3()
    s3.create_bucket(Bucket="audits", CreateBucketConfiguration={"LocationConstraint": "eu-west-2"})
    for path in filter(Path.is_file, history.rglob("*")):
        s3.put_object(Bucket="audits", Key=f"history/{path.relative_to(history)}", Body=path.read_bytes())

    job = ["-m", "oneslot.audit.job", "--history", "s3://audits/history", "--output", "s3://audits/audit", "--continue"]
    environment = {**os.environ, **account.variables}
    done = subprocess.run([sys.executable, *job], env=environment, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr[-2000:]
    listed = s3.list_objects_v2(Bucket="audits", Prefix="audit/")["Contents"]
    for name in (each["Key"] for each in listed if not each["Key"].endswith("/")):
        (tmp_path / "s3" / name).parent.mkdir(parents=True, exist_ok=True)
        s3.download_file("audits", name, str(tmp_path / "s3" / name))
    s3.close()
    found, expected = (
        {
            place: pq.read_table(folder / place).to_pylist()
            for place in ("verdicts", "findings", "operations/totals", "operations/demand", "operations/appointments")
        }
        | {"audit.json": json.loads((folder / "audit.json").read_text())}
        for folder in (tmp_path / "s3" / "audit", tmp_path / "audit")
    )
    assert found == expected
    assert not (tmp_path / "s3" / "audit" / "_started").exists()
