"""One run of the soak: deploy the real stack, start hosts and load, kill and freeze processes, drain, judge.

`python -m lab.soak.run SECONDS MESSAGES SEED FOLDER` ends with exit status 1 if an invariant is broken.
"""

from __future__ import annotations

import copy
import json
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from demo.generator import Mix, RequestGenerator, utc_now
from demo.plan import make_plan
from demo.seeding import seed
from lab.soak.hosts import Host
from oneslot.errors import OneslotError
from oneslot.local.aws.cloud_assembly import SynthesisedStack, read_stack
from oneslot.local.aws.connection import Connection
from oneslot.local.aws.deployment import deploy
from oneslot.local.aws.embedded_aws import EmbeddedAws
from oneslot.local.aws.synthesis import synthesise
from oneslot.local.state import LocalState
from oneslot.operator.evidence.gathering import gather
from oneslot.operator.evidence.verdict import CheckVerdict, judge
from oneslot.operator.sending.archive import Archive
from oneslot.operator.sending.sender import BatchSender
from oneslot.runtime.sqs.queue_depth import queue_depth
from oneslot.target import ARCHIVE_FILE, format_command, local_target

MESSAGES_PER_SECOND = 100
"""The slots are seeded for this rate. Two cores reached 49 over half an hour beside other work."""
BACKLOG = 600
"""More messages than the hosts hold at once, so that no fault finds them idle, and few enough to drain within two leases."""
BEYOND_THE_LEASE_SECONDS = 1.0
"""A frozen host sleeps this far past the lease, so that another may have taken over and be at work."""
KILLED, FROZEN = "handler killed", "host frozen"
FROZEN_SHARE = 0.2
LONGEST_WAIT_SECONDS = 600.0
HOME = Path("build/soak")
QUEUE, FUNCTION, MAPPING = "AWS::SQS::Queue", "AWS::Lambda::Function", "AWS::Lambda::EventSourceMapping"


@dataclass(frozen=True)
class Settings:
    """Settings of a run.

    Attributes:
        seconds, messages: send at least that long, and that many, copies included.
        seed: of every choice.
        lease_seconds: the function's timeout, which is the longest lease.
        hosts, handlers: pollers, and handler processes of each.
        gap_seconds: the mean time between two faults.
    """

    seconds: float
    messages: int
    seed: int
    lease_seconds: int = 6
    hosts: int = 2
    handlers: int = 2
    gap_seconds: float = 4.0


def shortened(stack: SynthesisedStack, timeout_seconds: int) -> SynthesisedStack:
    """Return the stack with another consumer timeout, and its queue's visibility timeout in the same ratio.

    Only the mapping's concurrency changes besides. A lease of seconds shows in minutes what the deployed one shows in hours.
    """
    template: dict[str, Any] = copy.deepcopy(stack.template)
    (mapping,) = (one["Properties"] for one in template["Resources"].values() if one["Type"] == MAPPING)

    def named(kind: str, reference: Any) -> Any:
        resources = template["Resources"].items()
        text = json.dumps(reference)
        (found,) = (one["Properties"] for name, one in resources if one["Type"] == kind and f'"{name}"' in text)
        return found

    function, queue = named(FUNCTION, mapping["FunctionName"]), named(QUEUE, mapping["EventSourceArn"])
    queue["VisibilityTimeout"] = queue["VisibilityTimeout"] // function["Timeout"] * timeout_seconds
    function["Timeout"] = timeout_seconds
    mapping["ScalingConfig"] = {"MaximumConcurrency": 64}
    return replace(stack, template=template)


def run(
    settings: Settings, stack: SynthesisedStack, connection: Connection, folder: Path
) -> tuple[dict[str, Any], CheckVerdict]:
    """Deploy the stack into the account of `connection`, run the soak, and return its figures and the verdict.

    folder: an empty one for logs and the archive. Raises `OneslotError` if a host ends, or the queue does not drain.
    """
    done: Counter[str] = Counter()
    stopping = threading.Event()
    with ExitStack() as things:
        deployment = deploy(shortened(stack, settings.lease_seconds), connection)
        queue, mapping = deployment.outputs["QueueUrl"], deployment.outputs["EventSourceMappingId"]
        sqs = things.enter_context(closing(connection.sqs()))
        dynamodb = things.enter_context(closing(connection.dynamodb()))
        # Slots for most of the messages, so that many are booked and the rest goes on the waiting list.
        expected = max(settings.messages, round(settings.seconds * MESSAGES_PER_SECOND))
        plan = make_plan(max(2, expected // 250), max(200, round(0.6 * expected)), settings.seed)
        seed(plan.items(), dynamodb, deployment.outputs["SlotsTableName"])
        hosts = [
            things.enter_context(closing(Host(connection, mapping, folder / f"host-{number}", settings.handlers)))
            for number in range(settings.hosts)
        ]

        def wait_below(most: int) -> None:
            deadline = time.monotonic() + LONGEST_WAIT_SECONDS
            while (depth := queue_depth(sqs, queue).total) > most:
                if time.monotonic() > deadline:
                    raise OneslotError(
                        f"The queue held more than {most:,} messages for {LONGEST_WAIT_SECONDS:.0f} s, now {depth:,}: "
                        "no host consumes it, or redelivery does not converge. See the logs in the run's folder."
                    )
                time.sleep(0.2)

        def send() -> int:
            sent, sender, archive = 0, BatchSender(sqs, queue), Archive(folder / ARCHIVE_FILE)
            # The time ends the stream, not this number: no machine can send as many.
            mix = Mix(max(10 * settings.messages, int(settings.seconds * 5_000), 1_000))
            messages = RequestGenerator(plan, mix, settings.seed, utc_now()).messages()
            ends = time.monotonic() + settings.seconds
            while time.monotonic() < ends or sent < settings.messages:
                wait_below(BACKLOG)
                for answer in sender.send(list(islice(messages, 10))):
                    archive.accepted((entry.message, sqs_message_id) for entry, sqs_message_id in answer.accepted)
                    sent += len(answer.accepted)
            return sent

        began = time.monotonic()
        with ThreadPoolExecutor(1) as executor:
            injecting = executor.submit(inject, hosts, settings, stopping, done)
            try:
                sent = send()
            finally:
                stopping.set()
            injecting.result()
        wait_below(0)
        seconds = time.monotonic() - began
        log = folder / "consumer.jsonl"
        # A killed handler may have left its last line unfinished.
        log.write_bytes(b"\n".join(host.log_file.read_bytes() for host in hosts))
        target = local_target(LocalState.of(deployment, log), folder)
        for client in (target.sqs, target.dynamodb, target.functions):
            things.enter_context(closing(client))
        gathered = gather(target)
        verdict = judge(gathered, lambda verb: format_command(verb, None))
        figures = {
            "seed": settings.seed,
            "messages": sent,
            "seconds": round(seconds, 1),
            "faults": done.total(),
            "faults_by_kind": dict(done),
            "deliveries": dict(Counter(line["outcome"] for line in gathered.evidence.deliveries)),
            "claimed_more_than_once": sum(row["consumption_count"] > 1 for row in gathered.evidence.ledger.values()),
            "violations": len(verdict.breaches),
        }
        return {**figures, **verdict.document()}, verdict


def inject(hosts: Sequence[Host], settings: Settings, stopping: threading.Event, done: Counter[str]) -> None:
    """Inject faults, with random gaps between them, until `stopping` is set. `done` counts them by kind.

    Raises `OneslotError` if a host has ended: a soak without faults proves nothing.
    """
    chance = random.Random(f"{settings.seed}:processes")
    while not stopping.wait(chance.expovariate(1 / settings.gap_seconds)):
        host = chance.choice(hosts)
        host.check()
        if chance.random() < FROZEN_SHARE:
            host.freeze(settings.lease_seconds + BEYOND_THE_LEASE_SECONDS)
            done[FROZEN] += 1
        else:
            done[KILLED] += host.kill_handler(chance.random())


def main(seconds: str, messages: str, seed: str, folder: str) -> int:
    """Run the soak in build/soak, and write its figures to the folder."""
    shutil.rmtree(HOME, ignore_errors=True)
    HOME.mkdir(parents=True)
    with EmbeddedAws(HOME) as aws:
        stack = read_stack(synthesise(HOME / "cdk.out", context={"stage": "dev"}), "Oneslot-dev")
        settings = Settings(float(seconds), int(messages), int(seed))
        figures, verdict = run(settings, stack, aws.connection(), HOME.resolve())
    command = ["/usr/bin/env", "git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    document = {"commit": commit, "cores": os.cpu_count(), **figures}
    (Path(folder) / "soak.json").write_text(json.dumps(document, indent=2) + "\n")
    sys.stdout.write(f"{figures['messages']:,} messages, {figures['faults_by_kind']}. {verdict.sentence}\n")
    return 0 if verdict.holds else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
