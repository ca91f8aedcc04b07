"""An upgrade under traffic: an older consumer and the present one on the same queue, tables and rows."""

import json
import shutil
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from demo.declared import CONSUMER
from lab.soak.run import shortened
from oneslot.laws.evidence import Evidence
from oneslot.laws.schema import LEDGER_ATTRIBUTES
from oneslot.local.aws.cloud_assembly import SynthesisedStack
from oneslot.local.aws.connection import Connection
from oneslot.local.aws.deployment import Deployment, deploy
from oneslot.local.mapping import event_source_mapping
from oneslot.local.mapping.event_source_mapping import EventSourceMapping
from oneslot.local.mapping.installation import install
from oneslot.operator.evidence.tables import scan
from oneslot.runtime.record import payload_hash
from oneslot.runtime.sqs.dead_letters import peek
from oneslot.runtime.sqs.queue import queue_depth
from oneslot.runtime.values import to_attributes
from tests.kits.consumer import booking, cancellation, slot_item
from tests.kits.local_mapping import wait_for

pytestmark = pytest.mark.embedded_aws

# Differences of an older release: file, present text, older text.
OLDER = (
    ("booking/consumer.py", 'number(environment, "CANDIDATE_SLOTS")', "1"),
    ("handler.py", "**asdict(delivery)", '**{k: v for k, v in asdict(delivery).items() if k != "answer"}'),
    ("oneslot/runtime/stores/dynamodb.py", "' REMOVE expires_at'", "''"),
    ("oneslot/runtime/stores/dynamodb.py", "'' if 'expires_at' in row else ', expires_at'", "''"),
    ("oneslot/runtime/stores/dynamodb.py", "elif self._retention_seconds is not None:", "elif False:"),
    (
        "oneslot/runtime/stores/dynamodb.py",
        "return {} if self._retention_seconds is None else",
        "return {} if True else",
    ),
)
SLOTS, REQUESTS = 40, 60
FOREIGN = {"schema": 2, "note": "of a release to come"}


@dataclass(frozen=True)
class Stack:
    """A deployed stack of a test's own, with one client for each service."""

    deployment: Deployment
    sqs: Any
    dynamodb: Any

    @property
    def connection(self) -> Connection:
        return self.deployment.connection

    @property
    def outputs(self) -> Mapping[str, str]:
        return self.deployment.outputs

    def seed(self, slots: int) -> None:
        """Put this many free slots of the kit's practice into the table."""
        for number in range(slots):
            self.dynamodb.put_item(TableName=self.outputs["SlotsTableName"], Item=to_attributes(slot_item(number)))

    def send(self, bodies: Iterable[Mapping[str, Any]]) -> set[str]:
        """Send messages, ten at a time; return their message ids."""
        waiting = list(bodies)
        for start in range(0, len(waiting), 10):
            entries: Any = [
                {"Id": str(number), "MessageBody": json.dumps(body)}
                for number, body in enumerate(waiting[start : start + 10])
            ]
            answer = self.sqs.send_message_batch(QueueUrl=self.outputs["QueueUrl"], Entries=entries)
            assert len(answer["Successful"]) == len(entries)
        return {body["message_id"] for body in waiting}

    def depth(self) -> int:
        """Return how many messages the queue holds, visible or not."""
        return queue_depth(self.sqs, self.outputs["QueueUrl"]).total

    def rows(self, table: str) -> list[dict[str, Any]]:
        """Return the rows of "ledger", "slots" or "appointments"."""
        attributes = LEDGER_ATTRIBUTES if table == "ledger" else CONSUMER.schema.tables[table].attributes
        return list(scan(self.dynamodb, self.outputs[f"{table.title()}TableName"], attributes))

    def statuses(self, table: str) -> Counter[str]:
        return Counter(row["status"] for row in self.rows(table))

    def dead_letters(self) -> list[str]:
        """Return the reasons of the messages in the dead-letter queue."""
        letters = peek(self.sqs, self.outputs["DeadLetterQueueUrl"])
        return [letter.reason for letter in letters]

    def evidence(self, requests: set[str], logs: Iterable[Path] = ()) -> Evidence:
        """Return the evidence of a stack whose queue is drained."""
        quarantined = {letter.message_id for letter in peek(self.sqs, self.outputs["DeadLetterQueueUrl"])}
        return CONSUMER.evidence(
            requests=requests,
            ledger={row["message_id"]: row for row in self.rows("ledger")},
            slots={(row["practice"], row["slot_id"]): row for row in self.rows("slots")},
            appointments={row["appointment_id"]: row for row in self.rows("appointments")},
            quarantined={message_id for message_id in quarantined if message_id},
            deliveries=list(deliveries(logs)),
            waiting=frozenset(),
            now=time.time_ns() // 1_000_000,
        )


@contextmanager
def deployed_shortened(synthesised: SynthesisedStack, account: Connection, timeout_seconds: int) -> Iterator[Stack]:
    """Deploy the real template with another timeout of its consumer."""
    deployment = deploy(shortened(synthesised, timeout_seconds), account)
    with closing(account.sqs()) as sqs, closing(account.dynamodb()) as dynamodb:
        yield Stack(deployment, sqs, dynamodb)


def deliveries(logs: Iterable[Path]) -> Iterator[dict[str, Any]]:
    """Yield the deliveries in these logs. A killed handler may have left a partial last line."""
    for log in logs:
        for text in log.read_text().splitlines() if log.exists() else ():
            if text.startswith("{") and text.endswith("}") and '"delivery"' in text:
                line = json.loads(text)
                if line.get("message") == "delivery":
                    yield line


def older(code: Path, folder: Path) -> Path:
    """Return a copy of the code as in the older release: one candidate, no answer in the log, rows without expiry."""
    copy = folder / "older"
    shutil.copytree(code, copy)
    for name, now, then in OLDER:
        text = (copy / name).read_text()
        assert text.count(now) == 1, f"{name} no longer has {now!r}; update OLDER"
        (copy / name).write_text(text.replace(now, then))
    return copy


def mapping(stack: Stack, folder: Path) -> EventSourceMapping:
    return EventSourceMapping(stack.connection, stack.outputs["EventSourceMappingId"], folder=folder, processes=1)


def claim_by_newer_release(stack: Stack, body: dict[str, Any]) -> None:
    """Write the claim of a dead consumer of a newer release, with attributes that ours does not know."""
    row = {
        "message_id": body["message_id"],
        "status": "IN_PROGRESS",
        "consumption_count": 1,
        "updated": 1,
        "lease_until": 2,
        "claimed_by": "newer",
        "payload_hash": payload_hash(body),
        **FOREIGN,
    }
    stack.dynamodb.put_item(TableName=stack.outputs["LedgerTableName"], Item=to_attributes(row))


@pytest.mark.slow
def test_two_releases_keep_every_invariant_side_by_side(
    synthesised: SynthesisedStack, account: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old_folder, new_folder = tmp_path / "old", tmp_path / "new"
    old_folder.mkdir()
    new_folder.mkdir()
    bodies = [booking(f"r-{number}") for number in range(REQUESTS)]
    late = [booking(f"late-{number}") for number in range(5)]
    cancellations = [cancellation(f"r-{number}", f"c-{number}") for number in range(0, REQUESTS, 6)]
    with deployed_shortened(synthesised, account, 15) as stack:
        stack.seed(SLOTS)
        for body in bodies[:3]:
            claim_by_newer_release(stack, body)
        old, new = mapping(stack, old_folder), mapping(stack, new_folder)
        with monkeypatch.context() as patch:
            patch.setattr(
                event_source_mapping, "install", lambda url, folder, of: older(install(url, folder, of), old_folder)
            )
            old.start()
        try:
            sent = stack.send(bodies[: REQUESTS // 2])
            wait_for(lambda: old.statistics.deleted > 0, seconds=180, what="the old one works")
            new.start()
            # Every request again, so that each release meets rows of the other, complete and in progress.
            sent |= stack.send([*bodies, *cancellations, *bodies])

            def both_work() -> bool:
                if stack.depth() < 10:  # so that neither starves
                    stack.send(bodies[:10])
                return old.statistics.deleted > 20 and new.statistics.deleted > 20

            wait_for(both_work, seconds=180, what="both generations work")
            old.stop()
            sent |= stack.send([*late, *bodies[: REQUESTS // 2]])
            wait_for(lambda: stack.depth() == 0, seconds=180, what="the queue is empty")
        finally:
            old.stop()
            new.stop()
        logs = [old.log_file, new.log_file]
        assert CONSUMER.check(stack.evidence(sent, logs)) == []
        assert stack.statuses("ledger") == Counter(COMPLETE=REQUESTS + len(late) + len(cancellations))
        assert sum(stack.statuses("appointments").values()) == REQUESTS + len(late)
        assert stack.dead_letters() == []
        of_old, of_new = (list(deliveries([log])) for log in logs)
        assert {"duplicate"} < {line["outcome"] for line in of_new}
        assert {"booked"} <= {line["outcome"] for line in of_old}
        assert not any("answer" in line for line in of_old), "the older release was at work"
        finished_by_old = {line["message_id"] for line in of_old if line["outcome"] in ("booked", "waitlist")}
        met_by_new = {line["message_id"] for line in of_new if line["outcome"] == "duplicate"}
        assert finished_by_old & met_by_new, "the present release answers from the older one's rows"
        for body in bodies[:3]:
            answer = stack.dynamodb.get_item(
                TableName=stack.outputs["LedgerTableName"], Key={"message_id": {"S": body["message_id"]}}
            )
            assert answer["Item"]["schema"] == {"N": "2"}, "what a newer release wrote is kept"
