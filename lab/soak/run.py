"""The soak: deploy the real stack, start hosts and load, kill and freeze processes, drain, judge.

`python -m lab.soak.run MESSAGES SEED FOLDER` ends with exit status 1 if an invariant is broken.
A host is one poller with its warm handlers, in a process of its own.
"""

import copy
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from demo.generator import Mix, RequestGenerator, utc_now
from demo.plan import make_plan
from demo.seeding import seed
from oneslot.errors import OneslotError
from oneslot.local.aws.cloud_assembly import SynthesisedStack, read_stack
from oneslot.local.aws.connection import Connection
from oneslot.local.aws.deployment import deploy
from oneslot.local.aws.embedded_aws import EmbeddedAws
from oneslot.local.aws.synthesis import synthesise
from oneslot.local.mapping.event_source_mapping import EventSourceMapping
from oneslot.local.state import LocalState
from oneslot.operator.evidence.gathering import gather
from oneslot.operator.evidence.verdict import CheckVerdict, judge
from oneslot.operator.sending.archive import Archive
from oneslot.operator.sending.sender import BatchSender, send_all
from oneslot.operator.target import ARCHIVE_FILE, format_command, local_target
from oneslot.runtime.sqs.queue import queue_depth

HOSTS, HANDLERS = 2, 2  # handlers of each host
POLL = "import sys; from lab.soak.run import poll; poll(*sys.argv[1:])"
HEAD_START_SECONDS = 0.3
"""The handlers of a thawed host run this long before its poller wakes and kills those past their deadline."""
STOP_SECONDS = 30.0
"""A host finishes the batches in its hands first."""
BACKLOG = 200
"""Faults end when the queue holds as few: more than the hosts hold at once, so that no fault finds them idle."""
BEYOND_THE_LEASE_SECONDS = 1.0
"""A frozen host sleeps this far past the lease, so that another may have taken over and be at work."""
KILLED, FROZEN = "handler killed", "host frozen"
FROZEN_SHARE = 0.2
DRAINED_WITHIN_SECONDS = 7_200.0


class Host:
    """One host. `folder` is for the unpacked function, the logs, and the delivery log of all of its handlers."""

    def __init__(self, connection: Connection, mapping_id: str, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.log_file = folder / "consumer.jsonl"
        self._errors = folder / "host.log"
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-c", POLL, mapping_id, str(folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=Path(__file__).resolve().parents[2],
                env={**os.environ, **connection.variables, "PYTHONDONTWRITEBYTECODE": "1"},
                start_new_session=True,  # Ctrl-C must reach only the run, which then stops its hosts
            )
        if self._process.stdout is None or self._process.stdout.readline() != b"ready\n":
            self.close()
            raise OneslotError(f"A host did not start. See the end of {self._errors}.")

    def handlers(self) -> list[int]:
        """Return the process ids of its handlers. Raises `OneslotError` if the host has ended."""
        if self._process.poll() is not None:
            raise OneslotError(f"A host has ended. See the end of {self._errors}.")
        threads = Path(f"/proc/{self._process.pid}/task").glob("*/children")
        return sorted(int(pid) for thread in threads for pid in thread.read_text().split())

    def kill_handler(self, chance: random.Random) -> bool:
        """SIGKILL one handler; False if there is none."""
        handlers = self.handlers()
        if handlers:
            _signal([chance.choice(handlers)], signal.SIGKILL)
        return bool(handlers)

    def freeze(self, seconds: float) -> None:
        """Stop poller and handlers together, like a suspended host, and continue them later."""
        handlers = self.handlers()
        try:
            _signal([self._process.pid, *handlers], signal.SIGSTOP)
            time.sleep(seconds)
        finally:
            _signal(handlers, signal.SIGCONT)
            time.sleep(HEAD_START_SECONDS)
            _signal([self._process.pid], signal.SIGCONT)

    def close(self) -> None:
        """Finish the batches in hand, and end; a host that takes longer than `STOP_SECONDS` is killed."""
        with self._process as process:
            if process.stdin is not None:
                process.stdin.close()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()


def _signal(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def poll(mapping_id: str, folder: str) -> None:
    """Poll, in a process that `Host` started, until standard input ends."""
    given = os.environ
    connection = Connection(
        given["AWS_ENDPOINT_URL"], given["AWS_ACCESS_KEY_ID"], session_token=given.get("AWS_SESSION_TOKEN")
    )
    with EventSourceMapping(connection, mapping_id, folder=Path(folder), processes=HANDLERS):
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.read()


def shortened(stack: SynthesisedStack, timeout_seconds: int) -> SynthesisedStack:
    """Return the stack with another consumer timeout, and its queue's visibility timeout in the same ratio.

    Only the mapping's concurrency changes besides. A lease of seconds shows in minutes what the deployed one shows in hours.
    """
    resources: dict[str, Any] = copy.deepcopy(stack.template["Resources"])
    (mapping,) = (one["Properties"] for one in resources.values() if one["Type"] == "AWS::Lambda::EventSourceMapping")
    function = resources[mapping["FunctionName"]["Ref"]]["Properties"]
    queue = resources[mapping["EventSourceArn"]["Fn::GetAtt"][0]]["Properties"]
    queue["VisibilityTimeout"] = queue["VisibilityTimeout"] // function["Timeout"] * timeout_seconds
    function["Timeout"] = timeout_seconds
    mapping["ScalingConfig"] = {"MaximumConcurrency": 64}
    return replace(stack, template={**stack.template, "Resources": resources})


def run(
    messages: int,
    number: int,
    stack: SynthesisedStack,
    connection: Connection,
    folder: Path,
    *,
    lease_seconds: int = 6,
    gap_seconds: float = 4.0,
) -> tuple[dict[str, Any], CheckVerdict]:
    """Deploy the stack into the account of `connection`, run the soak, and return its figures and the verdict.

    messages: without second copies, which come on top. number: the seed of every choice. folder: an empty one, for logs and
    the archive. lease_seconds: the function's timeout, which is the longest lease. gap_seconds: the mean time between two
    faults. Raises `OneslotError` if a host ends, or the queue does not drain.
    """
    with ExitStack() as things:
        deployment = deploy(shortened(stack, lease_seconds), connection)
        log, outputs = folder / "consumer.jsonl", deployment.outputs
        target = local_target(LocalState.of(deployment, log), folder)
        for client in (target.sqs, target.dynamodb, target.functions):
            things.enter_context(closing(client))
        # Slots for most of the messages, so that many are booked and the rest goes on the waiting list.
        plan = make_plan(max(2, messages // 250), max(200, round(0.6 * messages)), number)
        seed(plan.items(), target.dynamodb, outputs["SlotsTableName"])
        hosts = [
            things.enter_context(closing(Host(connection, outputs["EventSourceMappingId"], folder / f"host-{host}")))
            for host in range(HOSTS)
        ]

        def wait_below(most: int) -> None:
            deadline = time.monotonic() + DRAINED_WITHIN_SECONDS
            while (depth := queue_depth(target.sqs, outputs["QueueUrl"]).total) > most:
                if time.monotonic() > deadline:
                    raise OneslotError(f"The queue does not drain, and holds {depth:,}. See the logs in {folder}.")
                time.sleep(0.2)

        stopping, sender = threading.Event(), BatchSender(target.sqs, outputs["QueueUrl"])
        requests = RequestGenerator(plan, Mix(messages), number, utc_now()).messages()
        with ThreadPoolExecutor(1) as executor:
            injecting = executor.submit(inject, hosts, number, gap_seconds, lease_seconds, stopping)
            try:
                sent = send_all(requests, sender, Archive(folder / ARCHIVE_FILE), progress=lambda _: None)
                wait_below(BACKLOG)
            finally:
                stopping.set()
            faults = injecting.result()
        wait_below(0)
        # A killed handler may have left its last line unfinished.
        log.write_bytes(b"\n".join(host.log_file.read_bytes() for host in hosts))
        gathered = gather(target)
        verdict = judge(gathered, lambda verb: format_command(verb, None))
        figures = {
            "seed": number,
            "messages": sent.accepted,
            "faults": faults.total(),
            "faults_by_kind": dict(faults),
            "deliveries": dict(Counter(line["outcome"] for line in gathered.evidence.deliveries)),
            "claimed_more_than_once": sum(row["consumption_count"] > 1 for row in gathered.evidence.ledger.values()),
            "violations": len(verdict.breaches),
        }
        return {**figures, **verdict.document()}, verdict


def inject(
    hosts: Sequence[Host], number: int, gap_seconds: float, lease_seconds: float, stopping: threading.Event
) -> Counter[str]:
    """Inject faults, with random gaps between them, until `stopping` is set. Return their number of each kind.

    Raises `OneslotError` if a host has ended: a soak without faults proves nothing.
    """
    done: Counter[str] = Counter()
    chance = random.Random(f"{number}:processes")
    while not stopping.wait(chance.expovariate(1 / gap_seconds)):
        host = chance.choice(hosts)
        if chance.random() < FROZEN_SHARE:
            host.freeze(lease_seconds + BEYOND_THE_LEASE_SECONDS)
            done[FROZEN] += 1
        else:
            done[KILLED] += host.kill_handler(chance)
    return done


def main(messages: str, number: str, results: str) -> int:
    """Run the soak in build/soak, and write its figures to the folder of results."""
    folder = Path("build/soak").resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with EmbeddedAws(folder) as aws:
        stack = read_stack(synthesise(folder / "cdk.out", context={"stage": "dev"}), "Oneslot-dev")
        figures, verdict = run(int(messages), int(number), stack, aws.connection(), folder)
    commit = subprocess.check_output(["/usr/bin/env", "git", "rev-parse", "--short", "HEAD"], text=True).strip()
    document = {"commit": commit, "cores": os.cpu_count(), **figures}
    (Path(results) / "soak.json").write_text(json.dumps(document, indent=2) + "\n")
    sys.stdout.write(f"{figures['messages']:,} messages, {figures['faults_by_kind']}. {verdict.sentence}\n")
    return 0 if verdict.holds else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
