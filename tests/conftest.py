"""Fixtures for every room, the distribution over processes, and the rule about sockets: loopback only, and marked."""

import fcntl
import gc
import itertools
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from oneslot.local.aws.cloud_assembly import SynthesisedStack, read_stack
from oneslot.local.aws.connection import Connection
from oneslot.local.aws.deployment import Deployment, deploy
from oneslot.local.aws.embedded_aws import EmbeddedAws
from oneslot.local.aws.synthesis import synthesise
from tests.kits.moto_stack import moto_stack, nothing_runs, on_aws  # noqa: F401 - fixtures of the rooms that run commands

# Rooms and files with few, long tests begin first, so that no process works alone at the end.
FIRST = (
    *("oneslot/explorer/handlers/test_ledger_explored.py", "examples/test_tutorial.py", "oneslot/audit", "lab/soak"),
    *("behaviours", "oneslot/test_first_steps.py", "examples", "oneslot/explorer/scan", "stacks"),
    *("lab/explore/test_lambda_handler.py", "oneslot/test_wheel.py"),
)
ALONE = f"tests/{FIRST[0]}"
PIPELINE = "tests/oneslot/audit/"
STACKS = "tests/stacks/"
NEEDS_LOOPBACK = ("embedded_aws", "valkey", "spark", "browser")
_ACCOUNTS = itertools.count(100_000_000_001)

# What the collection of tests makes stays to the end, so no look for garbage begins before it is over.
gc.disable()
# No test asserts on time, so a slow machine fails none.
settings.register_profile("untimed", deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


class Distribution(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """Give each process whole files, in the order of the collection, and start Java once in a process at most.

    Java takes 20 seconds of CPU to start and warm up for Spark. So one process gets all of the pipeline's room. Its slow
    tests would outlast all others, so each process gets a half of them. One process also gets all tests on stacks, whose
    fixtures synthesise each stage once in a process. The longest explorations share nothing: each is on its own.
    """

    def _split_scope(self, nodeid: str) -> str:
        """Return the file of a test, its part of the pipeline's room, or the stacks' room; or a long test itself."""
        if nodeid.startswith(ALONE):
            return nodeid
        if nodeid.startswith(STACKS):
            return STACKS
        if not nodeid.startswith(PIPELINE):
            return str(super()._split_scope(nodeid))
        halved = self.config.option.markexpr == "slow"
        return f"{PIPELINE}read" if halved and nodeid.startswith(f"{PIPELINE}read/") else PIPELINE


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling | None:
    """Return our distribution for `--dist loadfile`."""
    if config.getoption("dist") != "loadfile":
        return None
    config.option.loadscopereorder = False
    return Distribution(config, log)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import no file without a slow test if only those run: in each process, the others take a third of the collection."""
    is_test = collection_path.match("test_*.py") and config.option.markexpr.startswith("slow")
    return True if is_test and "slow" not in collection_path.read_text(encoding="utf-8") else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort what is long and the large files first. Let a test reach loopback only if a marker names the reason."""
    tests_in = Counter(item.path for item in items)
    rooms = [Path(__file__).parent / room for room in FIRST]
    order = {
        path: (next((at for at, room in enumerate(rooms) if path.is_relative_to(room)), len(rooms)), -tests, str(path))
        for path, tests in tests_in.items()
    }
    items.sort(key=lambda item: order[item.path])
    for item in items:
        if any(item.get_closest_marker(name) for name in NEEDS_LOOPBACK):
            item.add_marker(pytest.mark.allow_hosts(["127.0.0.1", "::1"]))
        else:
            item.add_marker(pytest.mark.disable_socket)


def pytest_collection_finish() -> None:
    """Look for garbage from now on, among newer objects only, and seldom: it takes a tenth of the time at Python's pace."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


def pytest_sessionfinish() -> None:
    """Let the interpreter's end collect all: some libraries in C complain of what it leaves."""
    gc.unfreeze()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
    """Say last how many tests were skipped for each reason. A reason names the command that brings what they need."""
    yield
    skipped = Counter(report.longrepr[2] for report in terminalreporter.stats.get("skipped", ()))
    for reason, tests in skipped.most_common():
        terminalreporter.write_line(f"{tests} not run. {reason.removeprefix('Skipped: ')}", yellow=True)


@pytest.fixture(scope="session")
def embedded_aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedAws]:
    """One embedded AWS for the session, started for the first test that needs it."""
    with EmbeddedAws(tmp_path_factory.mktemp("embedded-aws")) as aws:
        yield aws


@pytest.fixture
def account(embedded_aws: EmbeddedAws) -> Connection:
    """A new, empty account in the session's embedded AWS, for this test alone."""
    return embedded_aws.connection(str(next(_ACCOUNTS)))


@pytest.fixture(scope="session")
def assembly(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """The cloud assembly of stage `dev`. The first process that needs it synthesises it, and the others wait."""
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "assembly"
    with folder.with_name("assembly-is-made").open("a+") as made:
        fcntl.flock(made, fcntl.LOCK_EX)
        if made.seek(0, os.SEEK_END) == 0:
            synthesise(folder, context={"stage": "dev"})
            made.write("yes")
    return folder


@pytest.fixture(scope="session")
def synthesised(assembly: Path) -> SynthesisedStack:
    """The real stack of stage `dev`. `deploy(synthesised, account)` deploys it for one test."""
    return read_stack(assembly, "Oneslot-dev")


@pytest.fixture(scope="session")
def deployed(embedded_aws: EmbeddedAws, synthesised: SynthesisedStack) -> Deployment:
    """The real stack, deployed once for the session in its own account. Tests share its tables: use fresh keys."""
    return deploy(synthesised, embedded_aws.connection(str(next(_ACCOUNTS))))
