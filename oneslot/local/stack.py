"""A whole local stack in this process: the embedded AWS, the deployed template, and a poller for the real handler."""

import fcntl
import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from botocore.exceptions import BotoCoreError, ClientError

from oneslot.declaration.reading import declared
from oneslot.errors import AlreadyRunning, DeploymentFailed, HandlerFailed, LocalStackFailed, OneslotError
from oneslot.local.aws.cloud_assembly import SynthesisedStack, read_stack
from oneslot.local.aws.deployment import deploy
from oneslot.local.aws.embedded_aws import EmbeddedAws
from oneslot.local.aws.synthesis import app_command, synthesise
from oneslot.local.mapping.event_source_mapping import (
    ASKED,
    DEFAULT_PROCESSES,
    RESTART,
    STARTED,
    EventSourceMapping,
    unstarted,
)
from oneslot.local.mapping.stream_mapping import stream_mapping
from oneslot.local.state import (
    STATE_FILE,
    STATISTICS_FILE,
    LocalState,
    prepare_home,
    private_folder,
    tail,
    write_atomically,
)

FOLLOW_SECONDS = 0.5  # between two writes of `statistics.json`, and looks at whether the consumer is paused or updated
RESTART_SECONDS = 120.0  # an update waits for the batches in hand, which is at most the function's timeout
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
            raise HandlerFailed(unstarted(error.error_type, self.poller.log_file))


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
            connection = aws.connection()
            stack = _read(home, assembly, stage, context or {}, progress)
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
            state = LocalState.of(deployment, poller.log_file, stage=stage, context=dict(context or {}))
            poller.log_file.touch(mode=0o600)
            relays = ExitStack()

            def relay() -> None:
                """Start the relay as it is deployed now, in place of one that runs."""
                relays.close()
                if function := state.outputs.get(consumer.output("RelayFunctionName")):
                    relays.enter_context(stream_mapping(connection, function, folder=home))

            def write() -> None:
                """Write the poller's numbers to a file, for commands in other processes."""
                write_atomically(home / STATISTICS_FILE, json.dumps(asdict(poller.statistics)))

            def follow() -> None:
                """Let poller and relay follow `oneslot pause`, `resume` and `up` of other processes, also after an error."""
                with suppress(BotoCoreError, ClientError, OneslotError, OSError):
                    write()
                    poller.follow(relay)

            try:
                with relays, _repeated(follow, FOLLOW_SECONDS):
                    relay()
                    state.write(home)
                    yield LocalStack(state, poller, aws)
            finally:
                (home / STATE_FILE).unlink(missing_ok=True)
                poller.stop()
                write()


def _read(
    home: Path, assembly: Path | None, stage: str, context: Mapping[str, str], progress: Callable[[str], None]
) -> SynthesisedStack:
    """Return a stack of the assembly, or of the app as it is synthesised now."""
    consumer = declared()
    if assembly is None:
        progress("Synthesising the CDK app (about 5 s)...")
        settings = {**context, **WITHOUT, "stage": stage}
        assembly = synthesise(home / "cdk.out", context=settings, app=consumer.folder)
    stack = read_stack(assembly, consumer.stack_of(stage))
    for warning in stack.warnings:
        progress(f"Warning: {warning}")
    return stack


def update(
    home: Path,
    state: LocalState,
    *,
    progress: Callable[[str], None],
    context: Mapping[str, str] | None = None,
    assembly: Path | None = None,
) -> LocalState:
    """Deploy the app as it is now into the running stack, and wait until the poller runs what changed. Return the new state.

    What queues and tables hold stays, and so do settings that are not given. Raises `DeploymentFailed` for a change that
    would lose something, and `HandlerFailed` for a function that does not start.
    """
    settings = {**state.context, **(context or {})}
    deployment = deploy(_read(home, assembly, state.stage, settings, progress), state.connection, update=True)
    progress(f"Updated {', '.join(deployment.changed) or 'nothing: the app is as it was deployed'}.")
    new = replace(state, outputs=deployment.outputs, context=settings)
    new.write(home)
    mapping_id = new.outputs[declared().output("EventSourceMappingId")]
    with closing(state.connection.functions()) as functions:
        arn = functions.get_event_source_mapping(UUID=mapping_id)["EventSourceMappingArn"]
        said = functions.list_tags(Resource=arn).get("Tags", {}).get(RESTART, STARTED)
        if deployment.changed or said != STARTED:
            functions.tag_resource(Resource=arn, Tags={RESTART: (said := ASKED)})
        deadline = time.monotonic() + RESTART_SECONDS
        while said == ASKED and time.monotonic() < deadline:
            time.sleep(FOLLOW_SECONDS)
            said = functions.list_tags(Resource=arn)["Tags"][RESTART]
    if said == ASKED:
        raise HandlerFailed(f"The updated function did not start within {RESTART_SECONDS:.0f} s. Repeat oneslot up.")
    if said != STARTED:
        raise HandlerFailed(unstarted(said, state.log_file))
    return new


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
def _repeated(act: Callable[[], None], seconds: float) -> Iterator[None]:
    """Act again and again in a thread, until the end of the block."""
    ended = threading.Event()

    def run() -> None:
        while not ended.wait(seconds):
            act()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
