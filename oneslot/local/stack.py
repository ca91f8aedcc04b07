"""A whole local stack in this process: the embedded AWS, the deployed template, and a poller for the real handler."""

from __future__ import annotations

import fcntl
import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

from botocore.exceptions import BotoCoreError, ClientError

from oneslot.declaration.reading import declared
from oneslot.errors import AlreadyRunning, DeploymentFailed, HandlerFailed, LocalStackFailed
from oneslot.local.aws.cloud_assembly import read_stack
from oneslot.local.aws.deployment import deploy
from oneslot.local.aws.embedded_aws import EmbeddedAws
from oneslot.local.aws.synthesis import app_command, synthesise
from oneslot.local.mapping.event_source_mapping import DEFAULT_PROCESSES, EventSourceMapping
from oneslot.local.mapping.stream_mapping import stream_mapping
from oneslot.local.processes import tail
from oneslot.local.state import STATE_FILE, STATISTICS_FILE, LocalState, prepare_home, private_folder, write_atomically

STATISTICS_SECONDS = 0.5  # between two writes of `statistics.json`
PAUSE_SECONDS = 1.0  # between two looks at whether the consumer is paused
_LOCK_FILE = "lock"


@dataclass(frozen=True)
class LocalStack:
    """A deployed stack and the poller of its function. `start` starts the poller."""

    state: LocalState
    poller: EventSourceMapping
    aws: EmbeddedAws

    def start(self) -> None:
        """Start the poller. Raises `HandlerFailed` if the function does not start, so that every delivery would fail."""
        if error := self.poller.start():
            raise HandlerFailed(
                f"The deployed function does not start: {error.error_type}. See the end of {self.poller.log_file}."
            )


WITHOUT = {"gradual_deployment": "false"}
"""Settings whose resources the embedded AWS does not have: CodeDeploy's."""


@contextmanager
def local_stack(
    home: Path,
    *,
    progress: Callable[[str], None],
    processes: int = DEFAULT_PROCESSES,
    stage: str = "dev",
    context: Mapping[str, str] | None = None,
    assembly: Path | None = None,
) -> Iterator[LocalStack]:
    """Start, synthesise and deploy; yield the stack; at the end stop the poller and the AWS, and remove `state.json`.

    home: the state folder, owned by this stack until the end. progress: called with one sentence at each step.
    processes: the number of handler processes at once. stage: as in `cdk deploy -c stage=...`. context: further
    settings, as with `-c name=value`. assembly: the folder of a cloud assembly; None: synthesise now.
    Raises `OneslotError` if a step fails, `AlreadyRunning` if a local stack runs in the folder.
    """
    home = home.resolve()
    private_folder(home)
    consumer = declared()
    with _owned(home):
        prepare_home(home)
        if assembly is None:
            app_command(consumer.folder)  # before the emulator is installed and started
        with EmbeddedAws(home, progress=progress) as aws:
            progress(f"The embedded AWS answers at {aws.endpoint_url}.")
            if assembly is None:
                progress("Synthesising the CDK app (about 5 s)...")
                settings = {**(context or {}), **WITHOUT, "stage": stage}
                assembly = synthesise(home / "cdk.out", context=settings, app=consumer.folder)
            connection = aws.connection()
            stack = read_stack(assembly, consumer.stack_of(stage))
            for warning in stack.warnings:
                progress(f"Warning: {warning}")
            try:
                deployment = deploy(stack, connection)
            except DeploymentFailed as error:
                raise DeploymentFailed(f"{error}\nThe end of the embedded AWS's log:\n{tail(aws.log_file)}") from error
            progress(f"Deployed the stack {deployment.stack_name}.")
            output = consumer.output("EventSourceMappingId")
            if output not in deployment.outputs:
                raise LocalStackFailed(
                    f"The stack {deployment.stack_name} has no output {output}. "
                    "Add it in the CDK app: ExactlyOnceConsumer.add_outputs()."
                )
            poller = EventSourceMapping(connection, deployment.outputs[output], folder=home, processes=processes)
            state = LocalState.of(deployment, poller.log_file)
            poller.log_file.touch(mode=0o600)
            function = deployment.outputs.get(consumer.output("RelayFunctionName"))
            relay = stream_mapping(connection, function, folder=home) if function else nullcontext()

            def write() -> None:
                """Write the poller's numbers to a file, for commands in other processes."""
                write_atomically(home / STATISTICS_FILE, json.dumps(poller.statistics.to_json()))

            def follow() -> None:
                """Let the poller follow `oneslot pause` and `resume`, which run in other processes."""
                with suppress(BotoCoreError, ClientError):  # the embedded AWS is busy, or it has just ended
                    poller.follow()

            try:
                with (
                    _repeated(write, STATISTICS_SECONDS, "statistics"),
                    _repeated(follow, PAUSE_SECONDS, "pauses"),
                    relay,
                ):
                    state.write(home)
                    yield LocalStack(state, poller, aws)
            finally:
                (home / STATE_FILE).unlink(missing_ok=True)
                poller.stop()
                write()


def in_use(home: Path) -> bool:
    """Return whether a live process owns the folder. The system releases the lock when its owner ends, even if killed."""
    if not home.is_dir():
        return False
    try:
        with _owned(home):
            return False
    except AlreadyRunning:
        return True


@contextmanager
def _owned(home: Path) -> Iterator[None]:
    descriptor = os.open(home / _LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AlreadyRunning(
                f"A local stack already runs in {home}. Use it (oneslot status), or end it first: oneslot down."
            ) from None
        yield
    finally:
        os.close(descriptor)


@contextmanager
def _repeated(act: Callable[[], None], seconds: float, name: str) -> Iterator[None]:
    """Act again and again in a thread of this name, until the end of the block."""
    ended = threading.Event()

    def run() -> None:
        while not ended.wait(seconds):
            act()

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
