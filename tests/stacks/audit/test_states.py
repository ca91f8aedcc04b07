"""The nightly state machine, executed on every path of the deployed definition."""

import json
import re
from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import pytest

from oneslot.audit.conclusion import VERSION
from oneslot.audit.settings import parse_arguments
from stacks.audit.storage import HISTORY_DAYS
from tests.kits.stacks import Stage
from tests.stacks.audit.night import BAD, CHANGES, EARLIER, FULL, SOUND, World, definition
from tests.stacks.audit.state_machine import NeverAnswered, StateFailure


@pytest.fixture(scope="module")
def full(audit: Stage) -> World:
    """A sound night with full exports, after it."""
    world = World(definition(audit), verdict=SOUND)
    world.run(FULL)
    return world


@pytest.fixture(scope="module")
def changes(audit: Stage) -> World:
    """A sound night with the changes of a day, after it."""
    world = World(definition(audit), {"audits/2026-11-22/audit.json": EARLIER}, SOUND)
    world.run(CHANGES)
    return world


def test_sound_night_notifies_no_one(full: World) -> None:
    assert full.called("publish") == []
    (measure,) = full.called("putMetricData")
    assert [point["Value"] for point in measure["MetricData"]] == [0]


def test_full_night_exports_all_tables_at_one_midnight(full: World) -> None:
    exports = full.called("exportTableToPointInTime")
    assert {(each["ExportType"], each["ExportTime"], each["S3SseAlgorithm"]) for each in exports} == {
        ("FULL_EXPORT", "2026-11-26T00:00:00.000Z", "KMS")
    }
    assert {export["S3Prefix"]: export["TableArn"].rpartition("/")[2] for export in exports} == {
        "history/2026-11-25/ledger": "<LedgerTableName>",
        "history/2026-11-25/slots": "<SlotsTableName>",
        "history/2026-11-25/appointments": "<AppointmentsTableName>",
    }
    assert len({export["ClientToken"] for export in exports}) == 3
    assert [asked["Key"] for asked in full.called("headObject")] == ["audits/2026-11-25/audit.json"]


def test_night_exports_one_day_of_changes_when_it_is_not_full(changes: World) -> None:
    for export in changes.called("exportTableToPointInTime"):
        assert export["ExportType"] == "INCREMENTAL_EXPORT"
        assert export["IncrementalExportSpecification"] == {
            "ExportFromTime": "2026-11-23T00:00:00.000Z",
            "ExportToTime": "2026-11-24T00:00:00.000Z",
            "ExportViewType": "NEW_AND_OLD_IMAGES",
        }
    (job,) = changes.called("startJobRun.sync")
    assert job["Arguments"]["--previous"].endswith("/audits/2026-11-22")


@pytest.mark.parametrize(("night", "day", "days"), [("full", "2026-11-25", HISTORY_DAYS), ("changes", "2026-11-23", 2)])
def test_job_parses_its_arguments(
    request: pytest.FixtureRequest, audit: Stage, night: str, day: str, days: int
) -> None:
    world: World = request.getfixturevalue(night)
    (job,) = world.called("startJobRun.sync")
    given = [word for pair in job["Arguments"].items() for word in pair]
    settings, _ = parse_arguments([*given, "--JOB_NAME", "whatever", "--enable-continuous-cloudwatch-log", "true"])
    (bucket,) = world.buckets
    assert settings.history == f"s3://{bucket}/history/{day}"
    assert settings.output == f"s3://{bucket}/audits/{day}"
    assert settings.patience_seconds == audit.settings.queue_retention_seconds
    assert (settings.previous is None) is (night == "full")
    assert len(settings.deliveries) == days
    assert job["Arguments"]["--dead-letter-queue"] == "<DeadLetterQueueUrl>"
    assert job["Arguments"]["--content-based"] == "false"


def delivery_days(world: World) -> list[str]:
    """Return the days whose delivery logs the job gets beside its history's own."""
    (job,) = world.called("startJobRun.sync")
    history = re.escape(job["Arguments"]["--history"].rpartition("/")[0])
    folders = job["Arguments"]["--deliveries"].split(",")
    found = [re.fullmatch(rf"{history}/([0-9-]+)/deliveries", folder) for folder in folders]
    return sorted(folder[1] for folder in found if folder)


def test_job_reads_the_days_beside_when_it_audits_changes_and_every_kept_day_when_the_night_is_full(
    full: World, changes: World
) -> None:
    assert delivery_days(changes) == ["2026-11-22", "2026-11-24"]
    kept = {str(date(2026, 11, 26) - timedelta(days=back)) for back in range(HISTORY_DAYS + 1)}
    assert delivery_days(full) == sorted(kept - {"2026-11-25"}), "that is in the folder of the history"


def test_night_waits_for_every_export(full: World) -> None:
    assert full.way.count("Wait") == 9
    assert full.way.index("Audit") > max(n for n, name in enumerate(full.way) if name == "Look")


@pytest.mark.parametrize(("violations", "measured"), [(BAD["violations"], 3), ({"I1": 0}, 1)])
def test_bad_verdict_is_notified_and_measured(world: World, violations: dict[str, int], measured: int) -> None:
    world.verdict = {**BAD, "violations": violations}
    assert world.run(FULL).output == {"day": "2026-11-25", "sound": False}
    (notice,) = world.called("publish")
    assert notice["Subject"] == "Oneslot-prod: audit bad verdict"
    assert len(notice["Subject"]) <= 100
    assert BAD["sentence"] in notice["Message"]
    assert "oneslot docs runbooks#invariant-violated" in notice["Message"]
    assert "/audits/2026-11-25/" in notice["Message"]
    assert world.called("putMetricData")[0]["MetricData"][0]["Value"] == measured


def test_verdict_counts_when_the_job_fails_after_it(world: World) -> None:
    world.verdict, world.job_fails = BAD, "SystemExit: 1"
    assert world.run(FULL).output == {"day": "2026-11-25", "sound": False}


THROTTLED = {"glue:startJobRun.sync": StateFailure("Glue.AWSGlueException", "Rate exceeded")}
CONFLICT = {"aws-sdk:dynamodb:exportTableToPointInTime": StateFailure("DynamoDb.ExportConflictException", "busy")}


@pytest.mark.parametrize(
    ("trouble", "said", "starts"),
    [
        ({"job_fails": "The exports are not of the same time."}, "The exports are not of the same time.", 1),
        ({}, "There is no verdict", 1),
        ({"exports_fail": True}, "ledger: no such key", 0),
        ({"export_minutes": 10**6}, "not exported within 6 hours", 0),
        ({"job_hangs": True}, "did not end within 12 hours", 1),
        pytest.param(
            {"job_hangs": True, "export_minutes": 359},
            "did not end within 12 hours",
            1,
            marks=pytest.mark.slow,  # interprets 359 looks at each of three exports
        ),
        ({"broken": THROTTLED}, "Rate exceeded", 5),
        ({"broken": CONFLICT}, "DynamoDb.ExportConflictException: busy", 0),
        *(
            ({"broken": {f"aws-sdk:{call}": NeverAnswered()}}, "States.Timeout", 0)
            for call in ("dynamodb:describeExport", "dynamodb:exportTableToPointInTime", "s3:putObject")
        ),
    ],
)
def test_night_notifies_when_it_has_no_verdict(world: World, trouble: dict[str, Any], said: str, starts: int) -> None:
    for name, value in trouble.items():
        setattr(world, name, value)
    ended = world.run(FULL)
    assert ended.failure is not None
    assert ended.failure.error == "NotAudited"
    (notice,) = world.called("publish")
    assert notice["Subject"] == "Oneslot-prod: audit could not run"
    assert said in notice["Message"]
    assert "oneslot docs runbooks#audit-missing" in notice["Message"]
    assert len(world.called("startJobRun.sync")) == starts
    assert world.called("putMetricData") == []
    for name in world.broken:
        assert len(world.called(name)) % 5 == 0, "asked again four times"


def test_longest_export_fits_into_an_executions_history(world: World) -> None:
    """Step Functions ends an execution at 25,000 events: two for each state, three more for a task."""
    world.export_minutes = 10**6
    assert world.run(FULL).failure is not None
    states = world.definition["States"]
    kinds = [{**states, **states["ExportTables"]["ItemProcessor"]["States"]}[name]["Type"] for name in world.way]
    events = 2 * len(kinds) + 3 * kinds.count("Task")
    # The first timed-out export ends the others, so this machine polled one of three, each minute for six hours.
    assert 358 <= world.way.count("Look") <= 362
    assert 3 * events < 25_000


def test_task_retries_with_jitter_for_minutes(world: World) -> None:
    """The three exports run at once. Jitter spreads their retries."""
    outer = world.definition["States"]
    states = {**outer, **outer["ExportTables"]["ItemProcessor"]["States"]}
    asking = [name for name, state in states.items() if state["Type"] == "Task" and name != "Audit"]
    assert len(asking) == 10
    for name in asking:
        (retry,) = (each for each in states[name]["Retry"] if "States.TaskFailed" in each["ErrorEquals"])
        pauses = [retry["IntervalSeconds"] * retry["BackoffRate"] ** number for number in range(retry["MaxAttempts"])]
        assert (sum(pauses) >= 180, retry["JitterStrategy"]) == (True, "FULL"), name
        assert states[name]["TimeoutSeconds"] == 60, name
    busy, short = states["Audit"]["Retry"]
    assert {"Glue.AWSGlueException", "Glue.ResourceNumberLimitExceededException"} <= set(short["ErrorEquals"])
    assert "States.TaskFailed" not in short["ErrorEquals"], "a run that failed is not run again"
    started = sum(short["IntervalSeconds"] * short["BackoffRate"] ** number for number in range(short["MaxAttempts"]))
    assert 600 <= started <= 3_600 - 1_800
    assert busy["ErrorEquals"] == ["Glue.ConcurrentRunsExceededException"]
    assert busy["IntervalSeconds"] * busy["MaxAttempts"] * busy["BackoffRate"] == 1_800, "another run has half an hour"


def test_job_times_out_before_its_state(world: World, audit: Stage) -> None:
    job = audit.properties("AWS::Glue::Job")["Timeout"] * 60
    assert job == 12 * 3600, "as the sentence says"
    assert job < world.definition["States"]["Audit"]["TimeoutSeconds"] < world.definition["TimeoutSeconds"] < 24 * 3600


def test_night_is_audited_once(world: World) -> None:
    world.objects["audits/2026-11-23/audit.json"] = BAD
    assert world.run(CHANGES).output == {"day": "2026-11-23", "sound": False}
    assert world.called("exportTableToPointInTime") == []
    assert world.called("startJobRun.sync") == []


def test_night_takes_its_own_start_without_input(world: World) -> None:
    world.verdict = SOUND
    assert world.run({}).output == {"day": "2026-11-23", "sound": True}


@pytest.mark.parametrize("error", [NeverAnswered(), StateFailure("CloudWatch.InternalServiceFault")])
def test_night_notifies_when_the_metric_fails(world: World, error: StateFailure | NeverAnswered) -> None:
    world.verdict = BAD
    world.broken["aws-sdk:cloudwatch:putMetricData"] = error
    assert world.run(FULL).output == {"day": "2026-11-25", "sound": False}
    assert len(world.called("publish")) == 1


def test_definition_passes_the_emulators_validation(world: World) -> None:
    """The emulator is a second reader: it parses every JSONata expression and follows every `Next`."""
    from ministack.services import stepfunctions

    assert stepfunctions._validate_definition_jsonata(json.dumps(world.definition)) is None


@pytest.mark.parametrize(
    "objects",
    [
        {},
        {"audits/2026-11-22/audit.json": "{"},
        {"audits/2026-11-22/audit.json": {name: EARLIER[name] for name in EARLIER if name != "forgotten_before"}},
        *(
            {"audits/2026-11-22/audit.json": {**EARLIER, **other}}
            for other in (
                {"version": VERSION - 1},
                {"version": None},
                {"retention_ms": 40 * 86_400_000},
                {"retention_ms": None},
                {"forgotten_before": 1_795_442_400_000},
            )
        ),
    ],
)
def test_night_is_full_when_no_earlier_audit_fits(world: World, objects: dict[str, Any]) -> None:
    """None is there, it is unreadable, or the job would refuse it: after an upgrade, or with another retention."""
    world.objects, world.verdict = dict(objects), SOUND
    world.run(CHANGES)
    assert {export["ExportType"] for export in world.called("exportTableToPointInTime")} == {"FULL_EXPORT"}
    assert "--previous" not in world.called("startJobRun.sync")[0]["Arguments"]


@pytest.mark.parametrize(
    ("earlier", "written"),
    [
        ({}, {"ledger_retention_seconds": 30 * 86_400}),
        (
            {"retention_ms": None, "forgotten_before": 1_795_442_400_000},
            {"ledger_retention": "forever", "ledger_forgotten_before": "2026-11-23T14:00:00Z"},
        ),
    ],
)
def test_retention_is_written_and_compared(
    audit: Stage, keys: Stage, earlier: dict[str, Any], written: dict[str, Any]
) -> None:
    """The next night compares the context that the job wrote."""
    machine = definition(replace(keys, part="-audit") if earlier else audit)
    other = {**EARLIER, "forgotten_before": 1}
    for before, ends in ((other, "FULL_EXPORT"), ({**EARLIER, **earlier}, "INCREMENTAL_EXPORT")):
        one = World(machine, {"audits/2026-11-22/audit.json": before}, SOUND)
        one.run(CHANGES)
        assert {export["ExportType"] for export in one.called("exportTableToPointInTime")} == {ends}
        assert [put["Body"] for put in one.called("putObject")] == [written]
