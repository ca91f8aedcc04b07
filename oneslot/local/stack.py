"""A whole local stack inside this process: embedded AWS, the real template deployed, the real handler fed."""

from __future__ import annotations

import fcntl
import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from oneslot.local.aws.cloud_assembly import read_stack
from oneslot.local.aws.deployment import deploy
from oneslot.local.aws.embedded_aws import EmbeddedAws
from oneslot.local.aws.synthesis import synthesise
from oneslot.local.errors import AlreadyRunning, HandlerFailed
from oneslot.local.mapping.event_source_mapping import DEFAULT_PROCESSES, EventSourceMapping
from oneslot.local.processes import start_ticks
from oneslot.local.state import STATE_FILE, STATISTICS_FILE, LocalState, prepare_home, usable, write_atomically

STATISTICS_SECONDS = 0.5  # between two writings of `statistics.json`
_LOCK_FILE = "lock"


@dataclass(frozen=True)
class LocalStack:
    """A deployed stack and the poller that feeds its function. The poller is not started yet: `stack.start()`."""

    state: LocalState
    poller: EventSourceMapping
    aws: EmbeddedAws

    def start(self) -> None:
        """Start the poller. Raises `HandlerFailed` if every delivery would fail, because the function does not start."""
        if error := self.poller.start():
            raise HandlerFailed(
                f"The deployed function does not start: {error.error_type}. It says why at the end of {self.poller.log_file}."
            )


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
    """Start, synthesise and deploy; yield the stack; on leaving, stop poller and AWS, and remove `state.json`.

    home: the state folder; it belongs to this stack until the end. progress: called with one sentence at each step.
    processes: how many handler processes may run at once on this machine. stage: as in `cdk deploy -c stage=...`.
    context: further settings, as with `-c name=value`. assembly: the folder of a cloud assembly that was synthesised
    before; None: synthesise now.
    Raises `LocalRunError` (a sentence) if anything of it fails or the folder cannot be used,
    `AlreadyRunning` if a local stack lives in it.
    """
    home = home.resolve()
    with usable(home):
        home.mkdir(parents=True, exist_ok=True)
    with _owned(home):
        with usable(home):
            prepare_home(home)
        with EmbeddedAws(home) as aws:
            progress(f"The embedded AWS answers at {aws.endpoint_url}.")
            if assembly is None:
                progress("Synthesising the CDK app (about 5 s)...")
                assembly = synthesise(home / "cdk.out", context={**(context or {}), "stage": stage})
            connection = aws.connection()
            deployment = deploy(read_stack(assembly, f"Oneslot-{stage}"), connection, progress=progress)
            progress(f"Deployed the stack {deployment.stack_name}.")
            poller = EventSourceMapping(
                connection, deployment.outputs["EventSourceMappingId"], folder=home, processes=processes
            )
            state = LocalState(
                endpoint_url=connection.endpoint_url,
                region=connection.region,
                access_key_id=connection.access_key_id,
                secret_access_key=connection.secret_access_key,
                stack_name=deployment.stack_name,
                outputs=deployment.outputs,
                supervisor_pid=os.getpid(),
                supervisor_start=start_ticks(os.getpid()) or 0,
                log_file=str(poller.log_file),
            )
            with usable(home):
                poller.log_file.touch(mode=0o600)
            try:
                with _statistics_written(home / STATISTICS_FILE, poller):
                    with usable(home):
                        state.write(home)
                    yield LocalStack(state, poller, aws)
            finally:
                (home / STATE_FILE).unlink(missing_ok=True)
                poller.stop()


def in_use(home: Path) -> bool:
    """Whether a living process owns the folder. The system lets go of the lock when its owner ends, however it ends."""
    if not home.is_dir():
        return False
    try:
        with _owned(home):
            return False
    except AlreadyRunning:
        return True


@contextmanager
def _owned(home: Path) -> Iterator[None]:
    with usable(home):
        descriptor = os.open(home / _LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AlreadyRunning(
                f"A local stack already runs in {home}. Use it as it is (oneslot status), or end it first: oneslot down."
            ) from None
        yield
    finally:
        os.close(descriptor)


@contextmanager
def _statistics_written(path: Path, poller: EventSourceMapping) -> Iterator[None]:
    """Write the poller's numbers to a file now and then, for whoever watches from another process."""
    ended = threading.Event()

    def write() -> None:
        last = None
        while True:
            over = ended.wait(STATISTICS_SECONDS)
            if (now := poller.statistics) != last:
                with suppress(OSError):  # a full disk must not stop the poller's watcher
                    write_atomically(path, json.dumps(now.to_json()))
                last = now
            if over:
                return

    thread = threading.Thread(target=write, name="statistics", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
