"""The state folder `.oneslot/`: the connection to a running local stack, its process, and the files that it leaves behind."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from oneslot.errors import LocalStackFailed, StaleState
from oneslot.local.aws.connection import Connection
from oneslot.local.aws.deployment import Deployment
from oneslot.local.mapping.poller import Statistics

_LAST_LINES = 15
STATE_FILE = "state.json"
DELIVERY_LOG = "consumer.jsonl"
STATISTICS_FILE = "statistics.json"
PREVIOUS = "previous"
OF_ONE_STACK = (DELIVERY_LOG, "accepted.jsonl", STATISTICS_FILE, "handler.stderr.log", "embedded-aws.log")


@dataclass(frozen=True)
class LocalState:
    """The connection to a running local stack: the keys of `state.json`."""

    endpoint_url: str
    region: str
    access_key_id: str
    secret_access_key: str
    session_token: str | None
    stack_name: str
    outputs: dict[str, str]  # the stack's outputs, by output id
    supervisor_pid: int
    supervisor_start: int  # the process's start time in clock ticks since boot; 0 without /proc
    log_file: str  # the delivery log: every line the handler wrote
    stage: str = "dev"
    context: dict[str, str] = field(default_factory=dict)  # the settings that were given

    @classmethod
    def of(cls, deployment: Deployment, log_file: Path, **given: Any) -> LocalState:
        """Return the state of a stack that this process has deployed; `given` are its stage and context."""
        return cls(
            **asdict(deployment.connection),
            stack_name=deployment.stack_name,
            outputs=deployment.outputs,
            supervisor_pid=os.getpid(),
            supervisor_start=start_ticks(os.getpid()) or 0,
            log_file=str(log_file),
            **given,
        )

    @property
    def connection(self) -> Connection:
        """The endpoint and credentials, as boto3 clients need them."""
        return Connection(**{each.name: getattr(self, each.name) for each in fields(Connection)})

    @property
    def running(self) -> bool:
        """Whether the process that wrote this state still runs. A reused PID does not count."""
        return start_ticks(self.supervisor_pid) == self.supervisor_start

    def write(self, home: Path) -> None:
        """Write `state.json` atomically."""
        write_atomically(home / STATE_FILE, json.dumps(asdict(self), indent=2) + "\n")


def load_state(home: Path) -> LocalState | None:
    """Read `state.json` even if its process is gone; None if it does not exist. Raises `StaleState` if it is invalid."""
    path = home / STATE_FILE
    try:
        document = json.loads(path.read_text())
        return LocalState(**{each.name: document[each.name] for each in fields(LocalState) if each.name in document})
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise StaleState(f"{path} is not a valid state file. Remove it: oneslot down.") from error


def read_state(home: Path) -> LocalState | None:
    """Return the running local stack's state, or None if there is none. Raises `StaleState` if its process is gone."""
    state = load_state(home)
    if state is None or state.running:
        return state
    raise StaleState(
        f"The local stack of {home} is gone, because its process {state.supervisor_pid} no longer runs. "
        "Clean up with `oneslot down`, then start a new one with `oneslot up`."
    )


def read_statistics(home: Path) -> Statistics | None:
    """Return the poller's numbers as written last: each half second, but not while it starts or stops; None if there are none.

    Raises `LocalStackFailed` if the file is not valid.
    """
    path = home / STATISTICS_FILE
    try:
        return Statistics.from_json(json.loads(path.read_text()))
    except FileNotFoundError:
        return None
    except (ValueError, AttributeError) as error:
        raise LocalStackFailed(
            f"{path} is not a valid statistics file. Remove it; the local stack writes a new one."
        ) from error


def write_atomically(path: Path, text: str) -> None:
    """Replace `path` atomically by a file with this text, readable by its owner only."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
    temporary.replace(path)


def private_folder(folder: Path) -> Path:
    """Create the folder for its owner alone, because its files hold credentials and histories. Return it."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    return folder


def prepare_home(home: Path) -> None:
    """Create the folder, and move the files of the last stack into `previous/`, replacing those of the one before."""
    previous = private_folder(home) / PREVIOUS
    previous.mkdir(exist_ok=True)
    (home / STATE_FILE).unlink(missing_ok=True)
    for name in OF_ONE_STACK:
        (previous / name).unlink(missing_ok=True)
        if (home / name).exists():
            (home / name).rename(previous / name)


def start_ticks(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot; None if it has exited.

    A PID alone can be reused; PID and start time together identify one process. Without /proc the result is 0 for every
    live process.
    """
    if not Path("/proc/self/stat").exists():
        try:
            os.kill(pid, 0)
        except OSError:
            return None
        return 0
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The command name, in parentheses, may contain parentheses: read from behind the last one. man 5 proc:
    # field 3 is the state, field 22 the start time.
    after_name = text.rpartition(")")[2].split()
    state, started = after_name[0], after_name[19]
    return None if state in "ZX" else int(started)


def tail(log: Path) -> str:
    """Return the last lines of a process's log, for an error."""
    with suppress(OSError):
        return "\n".join(log.read_text(errors="replace").splitlines()[-_LAST_LINES:])
    return "(no log)"
