"""The size of an audit is known before it begins, from the manifests alone."""

from types import SimpleNamespace
from typing import Any

import pytest

from oneslot.audit.errors import AuditRefused
from oneslot.audit.spark.session import DECIDING, SessionSettings, Sizing, options, prepare, set_options


class Conf(dict[str, str]):
    """The settings of a session."""

    def set(self, name: str, value: str) -> None:
        self[name] = value


def session(master: str = "local[2]", **given: str) -> Any:
    """Return a session with these settings."""
    context = SimpleNamespace(master=master, getConf=lambda: {"spark.local.dir": "/scratch"})
    return SimpleNamespace(conf=Conf({**given}), sparkContext=context)


def test_size_follows_the_items() -> None:
    assert [(each.parts, each.chunks) for each in map(Sizing, (6_000, 294_000_000))] == [(1, 2), (196, 3_920)]
    assert Sizing(2_940_000).sentence == "2,940,000 items: 40 chunks, about 0.7 GB on the executors' disks."


def test_audit_is_refused_when_the_disk_is_too_small(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def usage(folder: str) -> Any:
        asked.append(folder)
        return SimpleNamespace(free=4.8e9)

    monkeypatch.setattr("shutil.disk_usage", usage)
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    with pytest.raises(
        AuditRefused, match=r"needs about 5.0 GB for temporary files, and /scratch has 4.8 GB free\. Name a"
    ):
        prepare(session(), Sizing(20_000_000))
    prepare(session(), Sizing(19_000_000))
    prepare(session("yarn"), Sizing(20_000_000))
    monkeypatch.setenv("SPARK_LOCAL_DIRS", "/other,/more")
    prepare(session(), Sizing(1))
    assert asked == ["/scratch", "/scratch", "/other"]


def test_given_session_has_what_verdicts_and_bytes_need() -> None:
    """As Glue prepares it: with options of its own, and without those of Parquet."""
    made = session("glue", **{"spark.sql.session.timeZone": "Europe/London", "spark.sql.codegen.wholeStage": "true"})
    set_options(made, options(SessionSettings()), kept=set(made.conf))
    assert made.conf["spark.sql.codegen.wholeStage"] == "true"
    assert {name: made.conf[name.removeprefix("spark.hadoop.")] for name in DECIDING} == DECIDING
    assert not any(name.startswith(("spark.driver", "spark.ui", "spark.hadoop")) for name in made.conf)
