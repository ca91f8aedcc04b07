"""A session on this machine has its own options; under `spark-submit` it keeps what it was given."""

import json
import os
import shlex
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest

from oneslot.audit.job import find_consumer
from oneslot.audit.settings import AuditSettings
from oneslot.audit.spark import session
from oneslot.audit.spark.session import find_java, launcher_home
from oneslot.errors import BadInput
from stacks.audit.asset import write_zip
from tests.kits.order_histories import ORDERS_FILE, OrderHistory


def test_options_survive_a_folder_of_any_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark splits Java's options as a shell does: a space or an apostrophe in the path ended the audit."""
    monkeypatch.setattr(session, "LOG_CONFIGURATION", tmp_path / "Jörg's work" / "log4j2.properties")
    given = shlex.split(session.options(session.SessionSettings())["spark.driver.extraJavaOptions"])
    assert f"-Dlog4j2.configurationFile={tmp_path.as_uri()}/J%C3%B6rg%27s%20work/log4j2.properties" in given


class Submit:
    """Runs the documented `spark-submit`, without this installation."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.archive = folder / "audit.zip"
        write_zip(self.archive)
        self.python = folder / "python"
        self.python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -S "$@"\n')
        self.python.chmod(0o755)
        (folder / "brought").mkdir()  # boto3 and what mapInArrow needs, which the cluster's Python must have
        boto3 = ("boto3", "botocore", "dateutil", "jmespath", "s3transfer", "urllib3", "six")
        for name in (*boto3, "numpy", "pandas", "pyarrow"):
            found = Path(str(find_spec(name).origin))  # type: ignore[union-attr]
            found = found.parent if found.stem == "__init__" else found
            (folder / "brought" / found.name).symlink_to(found)
        self.events = folder / "events"
        self.events.mkdir()

    def run(self, *arguments: str, packages: Sequence[Path] = ()) -> subprocess.CompletedProcess[str]:
        """Run the job with these arguments and further packages."""
        home = Path(str(find_spec("pyspark").origin)).parent  # type: ignore[union-attr]
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "JAVA_HOME": str(launcher_home(find_java(os.environ), self.folder / "java")),
            "SPARK_HOME": str(home),
            "PYSPARK_PYTHON": str(self.python),
            "PYTHONPATH": str(self.folder / "brought"),
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        settings = {
            "spark.ui.enabled": "false",
            "spark.driver.extraJavaOptions": session.JAVA,
            "spark.eventLog.enabled": "true",
            "spark.eventLog.compress": "false",
            "spark.eventLog.rolling.enabled": "false",
            "spark.eventLog.dir": self.events.as_uri(),
        }
        given = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
        submit = [str(home / "bin" / "spark-submit"), "--master", "local[1]", "--driver-memory", "700m", *given]
        zips = ",".join(map(str, (self.archive, *packages)))
        job = ["--py-files", zips, str(Path(session.__file__).parents[1] / "job.py")]
        return subprocess.run(
            [*submit, *job, *arguments], capture_output=True, text=True, check=False, env=environment, cwd=self.folder
        )


@pytest.mark.slow
@pytest.mark.spark
def test_submitted_job_judges_a_consumer_from_sparks_storage(tmp_path: Path) -> None:
    """As on Glue, from S3: its laws come from a zip, and one of them is broken. The job keeps what `spark-submit` gives."""
    history = OrderHistory()
    history.charge("cheap", pence=-1)
    history.charges.append({**history.charges[0], "pence": 1})
    history.write(tmp_path / "history")
    laws = tmp_path / "laws.zip"
    with zipfile.ZipFile(laws, "w") as packed:
        packed.write(ORDERS_FILE.with_name("order_book.py"), "order_book.py")
    arguments = ["--consumer", ORDERS_FILE.as_uri(), "--history", str(tmp_path / "history")]
    submit = Submit(tmp_path)

    done = submit.run(*arguments, "--output", str(tmp_path / "audit"), packages=[laws])

    assert done.returncode == 1, done.stdout + done.stderr
    assert "Invariants that do not hold: every_order_costs_something (1), S1 (1)." in done.stdout
    report = (tmp_path / "audit" / "report.html").read_text()
    assert "<span>0 lost</span> · <span>1 done twice</span>" in report
    assert "Done twice: stop the consumer" in report
    (log,) = submit.events.iterdir()
    started = [json.loads(line) for line in log.read_text().splitlines()]
    (shown,) = [event["Spark Properties"] for event in started if event["Event"] == "SparkListenerEnvironmentUpdate"]
    assert (shown["spark.master"], shown["spark.driver.memory"]) == ("local[1]", "700m")
    last = [event["Properties"] for event in started if event["Event"] == "SparkListenerJobStart"][-1]
    assert last["spark.sql.session.timeZone"] == "UTC"


def test_consumer_without_a_file_is_refused(tmp_path: Path) -> None:
    settings = AuditSettings("history", "output", consumer=str(tmp_path / "orders.toml"))
    with pytest.raises(BadInput, match=r"The file .*orders\.toml does not exist\. Name the consumer's oneslot\.toml"):
        find_consumer(settings)
