"""One Spark session for all tests of the audit, because starting one takes longer than most of them."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from oneslot.audit.spark.session import SessionSettings, open_session
from tests.kits.histories import System, World, write_history

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from oneslot.audit.conclusion import Conclusion


# PySpark leaves the sockets of its gateway to the garbage collector.
PY4J_SOCKETS = "ignore:unclosed <socket:ResourceWarning"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let tests that use Spark leave its sockets open."""
    for item in items:
        if item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.filterwarnings(PY4J_SOCKETS))


@pytest.fixture(autouse=True)
def _sockets_are_collected_here(request: pytest.FixtureRequest) -> Iterator[None]:
    """Collect PySpark's sockets after each test that uses it, and not during another test."""
    yield
    if request.node.get_closest_marker("spark"):
        gc.collect()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session with two partitions."""
    scratch = tmp_path_factory.mktemp("spark")
    settings = SessionSettings(master="local[2]", memory="1g", scratch=str(scratch))
    session = open_session(settings)
    gc.freeze()  # so that the collection after each test looks only at newer objects
    yield session
    gc.unfreeze()
    with warnings.catch_warnings():
        # Closing the gateway leaves its sockets and pipes to the garbage collector.
        warnings.simplefilter("ignore", ResourceWarning)
        session.stop()


@pytest.fixture(scope="session")
def small_audit(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The finished audit of a few appointments, without tables. Tests that change it copy it first."""
    from oneslot.audit.job import audit
    from oneslot.audit.settings import AuditSettings

    folder = tmp_path_factory.mktemp("small")
    history = write_history(System(62, practices=1).run(10), folder / "history")
    audit(spark, AuditSettings(str(history), str(folder / "audit"), tables=False, keeps=True))
    return folder / "audit"


class Tabled(NamedTuple):
    """A sound world, the folder with its `history` and its `audit` with all tables, and the conclusion."""

    world: World
    folder: Path
    conclusion: Conclusion


@pytest.fixture(scope="session")
def tabled(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Tabled:
    """One audit with tables and report, which no test changes."""
    from oneslot.audit.job import audit
    from oneslot.audit.settings import AuditSettings

    world, folder = System(65, practices=3, slots_per_practice=20).run(100), tmp_path_factory.mktemp("tabled")
    write_history(world, folder / "history")
    settings = AuditSettings(str(folder / "history"), str(folder / "audit"), keeps=True)
    return Tabled(world, folder, audit(spark, settings))


@pytest.fixture
def audited(spark: SparkSession, tmp_path: Path) -> Callable[..., Conclusion]:
    """Return a function that audits a folder or a world; the output is `tmp_path/<name>`."""
    from oneslot.audit.job import audit
    from oneslot.audit.settings import AuditSettings

    def run(
        history: Path | World,
        name: str = "audit",
        *,
        previous: str | None = None,
        tables: bool = False,
        since: World | None = None,
        nightly: bool = False,
        deliveries: tuple[str, ...] = (),
    ) -> Conclusion:
        folder = (
            write_history(history, tmp_path / f"{name}-history", since=since, nightly=nightly)
            if isinstance(history, World)
            else history
        )
        settings = AuditSettings(
            history=str(folder),
            output=str(tmp_path / name),
            previous=str(tmp_path / previous) if previous else None,
            deliveries=tuple(str(tmp_path / f"{other}-history" / "deliveries") for other in deliveries),
            tables=tables,
            keeps=True,
        )
        return audit(spark, settings)

    return run
