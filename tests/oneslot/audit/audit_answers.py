"""The answers of the audit, of the project's list of invariants and of DuckDB, as sets that can be compared."""

import json
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import duckdb
import pyarrow as pa

from demo.declared import CONSUMER
from lab.benchmarks.audit import duckdb_audit as audit_duckdb
from lab.mutants.groups import MOMENT
from oneslot.audit.consumer import AuditConsumer
from oneslot.audit.judge import clean
from oneslot.declaration.declaration import Declaration
from oneslot.laws.evidence import Evidence
from oneslot.operator.evidence.gathering import Gathered
from oneslot.operator.evidence.verdict import CheckVerdict, judge
from oneslot.operator.sending.archive import AcceptedRequest
from oneslot.operator.sending.messages import Archived
from oneslot.runtime.sqs.dead_letters import DeadLetter
from oneslot.runtime.sqs.queue import QueueDepth
from tests.kits.histories import World

Found = set[tuple[str, str]]


class Judged(NamedTuple):
    """The audit's answer for one key."""

    key: str
    subject: str
    verdict: str
    violations: str

    @property
    def shown(self) -> str:
        """Return the key for display."""
        return self.key[1:] if self.subject in ("slot", "row", "file", "unidentified") else self.key


def judged(folder: Path) -> list[Judged]:
    """Return the verdicts after an audit. DuckDB reads a few hundred rows faster than Spark."""
    newest: dict[str, Judged] = {}
    with duckdb.connect(config={"threads": 1}) as connection:
        for layer in json.loads((folder / "audit.json").read_text())["layers"]:
            files = f"{folder.parent / layer}/*.parquet"
            asked = "SELECT key, subject, verdict, violations FROM read_parquet(?)"
            newest |= {row[0]: Judged(*row) for row in connection.execute(asked, [files]).fetchall()}
    return [row for row in newest.values() if row.subject != "gone"]


def audit_found(folder: Path) -> Found:
    """Return (invariant, subject) of every finding of an audit."""
    return {(name, row.shown) for row in judged(folder) for name in row.violations.split()}


def audit_verdicts(folder: Path) -> dict[str, str]:
    """Return the verdict on each request with an id."""
    return {row.key: row.verdict for row in judged(folder) if row.subject == "request"}


def evidence_of(world: World, retention_ms: int | None = None, forgotten_before: int = 0) -> Evidence:
    """Return the world's evidence, with `retention_ms` and `forgotten_before` as in `Evidence`."""
    deliveries = [line for line in world.deliveries if line["message_id"] and line["finished"] < world.now]
    return CONSUMER.evidence(
        requests={row["message_id"] for row in world.accepted},
        sent={row["message_id"]: row["sent"] for row in reversed(world.accepted)},
        ledger=world.ledger,
        slots=world.slots,
        appointments=world.appointments,
        quarantined={row["message_id"] for row in world.dead_letters if row["message_id"]},
        dropped={row["message_id"] for row in world.dropped if row["message_id"]},
        deliveries=deliveries,
        waiting=None if world.waiting is None else {row["message_id"] for row in world.waiting},
        now=world.now,
        retention_ms=retention_ms,
        forgotten_before=forgotten_before,
    )


def list_found(world: World, retention_ms: int | None = None, forgotten_before: int = 0) -> Found:
    """Return (invariant, subject) by the project's list."""
    found = CONSUMER.check(evidence_of(world, retention_ms, forgotten_before))
    return {(breach.invariant, breach.subject) for breach in found}


def duckdb_answers(folder: Path, now: int) -> tuple[dict[str, str], Found]:
    """Return verdicts and findings of the independent implementation."""
    with audit_duckdb.open_history(folder, threads=2) as connection:
        audit_duckdb.gather(connection, now, folder)
        return audit_duckdb.verdicts(connection), audit_duckdb.violations(connection)


def checked(world: World) -> CheckVerdict:
    """Return the verdict of `oneslot check` on what the world left behind."""
    evidence = evidence_of(world)
    lines = [line for line in world.deliveries if line["finished"] < world.now]
    dropped = {row["message_id"] or f"?{row['source_message_id']}" for row in world.dropped}
    whole = replace(evidence, deliveries=lines, dropped=dropped, retention_ms=world.retention)
    letters = [
        DeadLetter(row["source_message_id"], row["message_id"], str(row["reason"]), "", None, world.now)
        for row in world.dead_letters
    ]
    accepted = [
        AcceptedRequest(Archived(row["message_id"], "request"), row["sent"], ["sqs"] * row["copies"])
        for row in world.accepted
    ]
    return judge(Gathered(whole, accepted, letters, QueueDepth(0, 0, 0), declaration=CONSUMER), "oneslot {}".format)


def looked_at(
    found: dict[int, list[pa.Table]], consumer: Declaration = CONSUMER
) -> tuple[clean.CleanSubjects | None, str]:
    """Return what the quick look says of a chunk."""
    model, rest = AuditConsumer(consumer).model, {**found}
    tables = {each.name: [each.empty(), *rest.pop(each.number, ())] for each in model.all_sources}
    whole = {name: pa.concat_tables(several, promote_options="default") for name, several in tables.items()}
    return clean.find_clean(whole, [*chain.from_iterable(rest.values())], model, MOMENT)
