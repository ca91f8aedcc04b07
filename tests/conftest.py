"""Fixtures that every room may use, and the rule about sockets: none in a unit test, only loopback in the others."""

from __future__ import annotations

import fcntl
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
from tests.kits.moto_stack import moto_stack, nothing_runs  # noqa: F401 - fixtures of the rooms that run commands

# Few tests that take long: what begins last should end soon.
SLOW_ROOMS = ("oneslot/pipeline", "behaviours", "verification/soak")
NEEDS_LOOPBACK = ("embedded_aws", "valkey", "spark", "browser")
_ACCOUNTS = itertools.count(100_000_000_001)

# A slow machine fails no test: nothing here is asserted on time.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


class Distribution(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """Each process takes whole files, in the order of the collection; and two of them half of the audit's room each.

    Java needs some thirty seconds of CPU to start and warm up for Spark: as much as an ordinary file of that room. One
    process for all of it would still be at work when the others have ended.
    """

    def _split_scope(self, nodeid: str) -> str:
        """What is given to one process: a file, or a half of the audit's room; what takes long is in both halves."""
        if not nodeid.startswith("tests/oneslot/pipeline/"):
            return str(super()._split_scope(nodeid))
        half = "first" if nodeid < "tests/oneslot/pipeline/judge/test_p" else "second"
        return f"tests/oneslot/pipeline, {half} half"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling | None:
    """With `--dist loadfile`, ours."""
    if config.getoption("dist") != "loadfile":
        return None
    config.option.loadscopereorder = False
    return Distribution(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Slow rooms first, then the files with most tests; and a test may reach 127.0.0.1 if its mark says why."""
    in_file = Counter(item.path for item in items)
    rooms = Path(__file__).parent
    slow = {
        path: position
        for path in in_file
        for position, room in enumerate(SLOW_ROOMS)
        if path.is_relative_to(rooms / room)
    }
    items.sort(key=lambda item: (slow.get(item.path, len(SLOW_ROOMS)), -in_file[item.path], item.path))
    for item in items:
        if any(item.get_closest_marker(name) for name in NEEDS_LOOPBACK):
            item.add_marker(pytest.mark.allow_hosts(["127.0.0.1", "::1"]))
        else:
            item.add_marker(pytest.mark.disable_socket)


@pytest.fixture(scope="session")
def embedded_aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedAws]:
    """One embedded AWS for the whole session, started when the first test asks for it."""
    with EmbeddedAws(tmp_path_factory.mktemp("embedded-aws")) as aws:
        yield aws


@pytest.fixture
def account(embedded_aws: EmbeddedAws) -> Connection:
    """An account of the test's own in the session's embedded AWS: empty, and seen by no other test."""
    return embedded_aws.connection(str(next(_ACCOUNTS)))


@pytest.fixture(scope="session")
def assembly(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """The cloud assembly of stage `dev`, synthesised once: `local_stack(home, assembly=assembly, ...)` starts faster.

    Of the processes of one run the first that needs it makes it, and the others wait for it.
    """
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
    """The real stack of stage `dev`. `deploy(synthesised, account)` gives a test one of its own."""
    return read_stack(assembly, "Oneslot-dev")


@pytest.fixture(scope="session")
def deployed(embedded_aws: EmbeddedAws, synthesised: SynthesisedStack) -> Deployment:
    """The real stack deployed once for the session, in an account of its own. Its tables are shared: use fresh keys."""
    return deploy(synthesised, embedded_aws.connection(str(next(_ACCOUNTS))))
