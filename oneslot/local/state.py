"""The state folder `.oneslot/`: the connection to a running local stack, and the files that it leaves behind."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from oneslot.errors import LocalStackFailed, StaleState
from oneslot.local.aws.connection import Connection
from oneslot.local.aws.deployment import Deployment
from oneslot.local.mapping.statistics import Statistics
from oneslot.local.processes import start_ticks

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

    @classmethod
    def of(cls, deployment: Deployment, log_file: Path) -> LocalState:
        """Return the state of a stack that this process has deployed."""
        return cls(
            **asdict(deployment.connection),
            stack_name=deployment.stack_name,
            outputs=deployment.outputs,
            supervisor_pid=os.getpid(),
            supervisor_start=start_ticks(os.getpid()) or 0,
            log_file=str(log_file),
        )

    @property
    def connection(self) -> Connection:
        """The endpoint and credentials, as boto3 clients need them."""
        return Connection(**{field.name: getattr(self, field.name) for field in fields(Connection)})

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
        return LocalState(**{field.name: document[field.name] for field in fields(LocalState)})
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
    """Return the poller's numbers, at most a second old; None if the stack wrote none.

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
