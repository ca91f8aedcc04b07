"""The embedded AWS: ministack as a child process on loopback. It needs no Docker, no account and no network.

Ministack pins botocore to one version, so beside a project's packages it would choose the project's boto3. It runs in this
Python where that has the pinned ministack, else in an environment of its own.
"""

import contextlib
import hashlib
import http.client
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Self

from oneslot.errors import EmbeddedAwsFailed
from oneslot.local.aws.connection import LOCAL_ACCOUNT, REGION, Connection
from oneslot.local.state import tail

SERVER = Path(__file__).with_name("embedded_server.py")
LIBRARY = Path(__file__).resolve().parents[2]
PINNED = Path(__file__).with_name("emulator.txt")
"""What `make lock` resolved and hashed from pyproject.toml."""
HOST = "127.0.0.1"
START_SECONDS = 120.0  # measured: 0.3-1 s; a busy build machine gets the rest
STOP_SECONDS = 5.0  # measured: up to 2 s
PORT_ATTEMPTS = 5
# Only these are inherited: others leak into the functions that it runs (LOG_LEVEL once silenced Powertools).
_INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "VIRTUAL_ENV")


class EmbeddedAws:
    """One ministack. `with EmbeddedAws(folder) as aws: aws.connection().dynamodb()`."""

    def __init__(self, folder: Path, *, progress: Callable[[str], None] = lambda _: None) -> None:
        """folder: for its log (`embedded-aws.log`) and temporary files. It is created if missing.

        progress: called with a sentence if the emulator has to be installed.
        """
        self._folder = folder
        self._progress = progress
        self._port = 0
        self._session_token = secrets.token_urlsafe(32)
        self._process: subprocess.Popen[bytes] | None = None
        self._temporary: tempfile.TemporaryDirectory[str] | None = None

    @property
    def log_file(self) -> Path:
        """Its own log."""
        return self._folder / "embedded-aws.log"

    @property
    def endpoint_url(self) -> str:
        """`http://127.0.0.1:<port>`; only while it runs."""
        return f"http://{HOST}:{self._port}"

    @property
    def pid(self) -> int | None:
        """Its process id; None if it does not run."""
        return None if self._process is None else self._process.pid

    @property
    def alive(self) -> bool:
        """Whether its process runs."""
        return self._process is not None and self._process.poll() is None

    def connection(self, account: str = LOCAL_ACCOUNT) -> Connection:
        """Return a connection to one account (12 digits). Accounts are isolated from each other."""
        return Connection(self.endpoint_url, access_key_id=account, session_token=self._session_token)

    def start(self) -> None:
        """Start it and wait until it answers. Raises `EmbeddedAwsFailed` with the end of its log if it does not."""
        python = emulator_python(self._progress)
        self._folder.mkdir(parents=True, exist_ok=True)
        for attempt in range(1, PORT_ATTEMPTS + 1):
            # Short, and outside of the state folder: the emulator names sockets and PID files there.
            self._temporary = tempfile.TemporaryDirectory(prefix="oneslot-")
            with socket.socket() as probe:
                probe.bind((HOST, 0))
                self._port = probe.getsockname()[1]
            self._launch(python)
            try:
                self._wait_until_ready()
            except EmbeddedAwsFailed:
                # Another process may take the port between the choice and the bind.
                port_taken = not self.alive and "in use" in tail(self.log_file)
                self.stop()
                if not port_taken or attempt == PORT_ATTEMPTS:
                    raise
            except BaseException:  # Ctrl-C too
                self.stop()
                raise
            else:
                return

    def stop(self) -> None:
        """End it and wait for it: SIGTERM, a bounded wait, SIGKILL. Do nothing if it does not run."""
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdin is not None:
                process.stdin.close()
        if self._temporary is not None:
            self._temporary.cleanup()
            self._temporary = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _environment(self) -> dict[str, str]:
        assert self._temporary is not None  # noqa: S101  made by start()
        nowhere = str(Path(self._temporary.name) / "nothing")
        return {
            **{name: os.environ[name] for name in _INHERITED if name in os.environ},
            "TMPDIR": self._temporary.name,
            "BIND_HOST": HOST,  # the default is every interface
            "MINISTACK_HOST": HOST,  # for the host in its URLs, so that no name is resolved
            "GATEWAY_PORT": str(self._port),
            "MINISTACK_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_SESSION_TOKEN": self._session_token,  # what it asks for, and gives to the functions that it runs
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": nowhere,
            "AWS_SHARED_CREDENTIALS_FILE": nowhere,
            "DOCKER_HOST": f"unix://{nowhere}",  # it must not use a daemon on this machine
            "IOT_MTLS_ENABLED": "0",  # a second listener, on a fixed port
            "SFTP_ENABLED": "0",
            "LOG_LEVEL": "WARNING",
        }

    def _launch(self, python: Path) -> None:
        assert self._temporary is not None  # noqa: S101  made by start()
        library = Path(self._temporary.name, "library")
        library.mkdir()
        (library / LIBRARY.name).symlink_to(LIBRARY)  # of this environment the server sees nothing else
        with self.log_file.open("wb") as log:
            self._process = subprocess.Popen(
                # -P: the script's folder must not come first in the search path, because its modules have common names
                [python, "-P", SERVER],
                stdin=subprocess.PIPE,  # never written: its end tells the emulator that its parent is gone
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**self._environment(), "PYTHONPATH": str(library)},
                cwd=self._folder,
                start_new_session=True,  # Ctrl-C must reach only us, so that the poller stops before its AWS
                bufsize=0,
            )

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while self.alive:
            link = http.client.HTTPConnection(HOST, self._port, timeout=1)
            with contextlib.suppress(OSError, http.client.HTTPException), contextlib.closing(link):
                link.request("GET", "/_ministack/ready", headers={"X-Amz-Security-Token": self._session_token})
                if link.getresponse().status == http.HTTPStatus.OK:
                    return
            if time.monotonic() > deadline:
                raise EmbeddedAwsFailed(
                    f"The embedded AWS did not answer within {START_SECONDS:.0f} s. The end of its log:\n{tail(self.log_file)}"
                )
            time.sleep(0.02)
        raise EmbeddedAwsFailed(f"The embedded AWS ended while it started. The end of its log:\n{tail(self.log_file)}")


def emulator_python(progress: Callable[[str], None] = lambda _: None) -> Path:
    """Return the Python to run the emulator with. On first use, install it for this user.

    Raises `EmbeddedAwsFailed` if that fails.
    """
    text = PINNED.read_text(encoding="utf-8")
    with contextlib.suppress(PackageNotFoundError):
        if f"ministack=={version('ministack')} " in text:
            return Path(sys.executable)
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    environment = cache_folder() / f"emulator-{digest}-{sys.implementation.cache_tag}"
    python = environment / "bin" / "python"
    if not python.exists():
        progress(f"Installing the embedded AWS, once, into {environment} (10 s)...")
        _install(environment)
    return python


def cache_folder() -> Path:
    """Return this user's folder for what can be made again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "oneslot"


def _install(environment: Path) -> None:
    environment.parent.mkdir(parents=True, exist_ok=True)
    # Made beside it and moved, so that an interrupted installation leaves nothing that looks complete.
    with tempfile.TemporaryDirectory(prefix="making-", dir=environment.parent) as folder:
        made = Path(folder, "environment")
        _run(sys.executable, "-m", "venv", made)
        _run(
            *(made / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"),
            *("--only-binary=:all:", "--require-hashes", "--requirement", PINNED),
        )
        shutil.rmtree(environment, ignore_errors=True)  # its Python is gone
        made.rename(environment)


def _run(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = [line for line in re.split(r"\n+", f"{done.stdout}\n{done.stderr}") if line.strip()] or ["no reason"]
        # pip's last error, or the first line of `venv`, such as that the system's package python3-venv is missing.
        reason = next((line for line in reversed(said) if line.startswith(("ERROR: ", "Error: "))), said[0])
        raise EmbeddedAwsFailed(
            f"The embedded AWS is installed on first use, and that failed: {reason.partition(': ')[2] or reason} "
            f"Connect to the network and repeat the command, or run: pip install --require-hashes -r {PINNED}"
        )
