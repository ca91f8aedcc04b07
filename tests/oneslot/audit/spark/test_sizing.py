"""The size of an audit is known before it begins, from the manifests alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from oneslot.audit.errors import AuditRefused
from oneslot.audit.spark.session import DECIDING, SessionSettings, options, set_options
from oneslot.audit.spark.sizing import Sizing, prepare

ITEMS_PER_REQUEST = 2.94  # of the benchmark's histories


class Conf(dict[str, str]):
    """The settings of a session."""

    def set(self, name: str, value: str) -> None:
        self[name] = value


def session(master: str = "local[2]", **given: str) -> Any:
    """Return a session with these settings."""
    context = SimpleNamespace(master=master, getConf=lambda: {"spark.local.dir": "/scratch"})
    return SimpleNamespace(conf=Conf({"spark.sql.shuffle.partitions": "8", **given}), sparkContext=context)


@pytest.mark.parametrize(
    ("requests", "expected"),
    [
        (2_000, (1, 0, 2, "0.1", "0.09")),
        (100_000_000, (196, 93, 5, "0.5", "1.15")),
        (1_000_000_000, (1_960, 926, 39, "0.5", "9.32")),
    ],
)
def test_plan_follows_the_items(requests: int, expected: tuple[int, int, int, str, str]) -> None:
    plan = Sizing(round(requests * ITEMS_PER_REQUEST))
    found = (plan.parts, round(plan.disk_gb), plan.workers, f"{plan.hours:.1f}", f"{plan.dollars:.2f}")
    assert found == expected


def test_sentence_names_workers_and_price() -> None:
    assert Sizing(2_940_000_000).sentence == (
        "2,940,000,000 items: 39,200 chunks, about 926 GB on the executors' disks. That takes 39 G.1X workers or more; "
        "with 39, about 0.5 hours and $9.32."
    )


def test_audit_is_refused_when_the_disk_is_too_small(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def usage(folder: str) -> Any:
        asked.append(folder)
        return SimpleNamespace(free=4.8e9)

    monkeypatch.setattr("shutil.disk_usage", usage)
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    with pytest.raises(
        AuditRefused, match=r"needs about 4.9 GB for temporary files, and /scratch has 4.8 GB free\. Name a"
    ):
        prepare(session(), Sizing(15_600_000))
    prepare(session(), Sizing(15_200_000))
    prepare(session("yarn"), Sizing(15_600_000))
    monkeypatch.setenv("SPARK_LOCAL_DIRS", "/other,/more")
    prepare(session(), Sizing(1))
    assert asked == ["/scratch", "/scratch", "/other"]


def test_given_session_has_what_verdicts_and_bytes_need() -> None:
    """As Glue prepares it: with options of its own, and without those of Parquet."""
    made = session("glue", **{"spark.sql.session.timeZone": "Europe/London", "spark.sql.shuffle.partitions": "300"})
    set_options(made, options(SessionSettings()), kept=set(made.conf))
    assert made.conf["spark.sql.shuffle.partitions"] == "300"
    assert {name: made.conf[name.removeprefix("spark.hadoop.")] for name in DECIDING} == DECIDING
    assert not any(name.startswith(("spark.driver", "spark.ui", "spark.hadoop")) for name in made.conf)
