"""The nightly audit as a state machine's definition: export the tables, wait, run the job, read its verdict, tell people.

Everything is derived from one moment, the end of the day before: exports, folders and window all name the same day, so a
second start for the same day repeats nothing and finds the first one's verdict. JSONata throughout, as plain text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from stacks.settings import DAY, HOUR
from stacks.shared.measures import VIOLATIONS_METRIC, namespace
from stacks.shared.runbooks import runbook

State = dict[str, Any]

POLL_SECONDS = 60  # an export takes minutes to an hour; each look costs one state transition
CALL_SECONDS = 60  # a call that only asks or starts something answers in less, or is asked again
JOB_AROUND_SECONDS = HOUR  # Glue counts the job's timeout from when it runs: it must start before, and stop after
VERDICT_FILE = "audit.json"  # oneslot.pipeline.write.finished.DESCRIPTION; a test compares them
AUDIT_VERSION = 5  # oneslot.pipeline.judge.conclusion.VERSION; a test compares them

DAY_MS = DAY * 1000
DATE = "'[Y0001]-[M01]-[D01]'"
"""How a folder is named after its day (JSONata)."""
NOW = "$toMillis($states.context.State.EnteredTime)"
"""When the state that asks was entered, epoch milliseconds (JSONata)."""

# A throttled or momentarily failing service is asked again; what is wrong stays wrong and goes on to Catch.
RETRY = [
    {
        "ErrorEquals": ["States.TaskFailed", "States.Timeout"],
        "IntervalSeconds": 5,
        "MaxAttempts": 4,
        "BackoffRate": 3,
        "JitterStrategy": "FULL",
    }
]


@dataclass(frozen=True, kw_only=True)
class AuditPlan:
    """What the definition must know. The ARNs and names may be CDK tokens.

    Attributes:
        tables: the ARN of each table by the name of its folder in a history.
        full_every_days: full exports on every so many-th day, changes only on the others; 1 is always full.
        content_based: whether the consumer identifies messages without an id by their content.
        ledger_forgotten_before: a moment in UTC as text, or empty; `stacks.settings`.
        delivery_days: how many earlier days of the delivery log a full audit reads beside its own.
        export_seconds: how long the exports may take, together.
        job_seconds: the job's own timeout.
        timeout_seconds: the execution's. Nothing can be told after it, so it leaves the others room to run out before.
    """

    partition: str
    tables: dict[str, str]
    bucket: str
    key_arn: str
    job_name: str
    dead_letter_queue_url: str
    content_based: bool
    topic_arn: str
    stage: str
    full_every_days: int
    delivery_days: int
    ledger_retention_seconds: int | None
    ledger_forgotten_before: str
    patience_seconds: int
    export_seconds: int
    job_seconds: int
    timeout_seconds: int


def definition(plan: AuditPlan) -> State:
    """The definition in the Amazon States Language."""
    return {
        "Comment": "Export the tables as they were at midnight UTC, audit them, and tell people about a bad verdict",
        "QueryLanguage": "JSONata",
        "TimeoutSeconds": plan.timeout_seconds,
        "StartAt": "ChooseDay",
        "States": {
            "ChooseDay": _choose_day(plan),
            "LookForVerdict": _look_for_verdict(plan),
            "IsFullDue": {
                "Type": "Choice",
                "Choices": [{"Condition": "{% $full %}", "Next": "ExportTables"}],
                "Default": "LookForEarlierAudit",
            },
            "LookForEarlierAudit": _look_for_earlier_audit(plan),
            "ExportTables": _export_tables(plan),
            "WriteContext": _write_context(plan),
            "Audit": _audit(plan),
            "ReadVerdict": _read_verdict(plan),
            "Measure": _measure(plan),
            "IsSound": {
                "Type": "Choice",
                "Choices": [{"Condition": "{% $verdict.sound %}", "Next": "Sound"}],
                "Default": "NotifyBadVerdict",
            },
            "Sound": {"Type": "Succeed", "Output": "{% {'day': $day, 'sound': true} %}"},
            "NotifyBadVerdict": _notify(plan, "bad verdict", "$verdict.sentence", "invariant-violated", "BadVerdict"),
            # The audit itself worked. What it found is told by the notification, the metric and its alarm.
            "BadVerdict": {"Type": "Succeed", "Output": "{% {'day': $day, 'sound': false} %}"},
            "NotifyNotAudited": _notify(plan, "could not run", "$problem", "audit-missing", "NotAudited"),
            "NotAudited": {"Type": "Fail", "Error": "NotAudited", "Cause": "{% $problem %}"},
        },
    }


def _choose_day(plan: AuditPlan) -> State:
    day, picture = DAY_MS, DATE
    start = "$exists($states.input.scheduled) ? $states.input.scheduled : $states.context.Execution.StartTime"
    # In an Assign every expression sees the variables as they were before, so each computes the midnight again.
    midnight = f"$floor($toMillis({start}) / {day}) * {day}"
    return {
        "Type": "Pass",
        "Assign": {
            "from": f"{{% $fromMillis({midnight} - {day}) %}}",
            "to": f"{{% $fromMillis({midnight}) %}}",
            "day": f"{{% $fromMillis({midnight} - {day}, {picture}) %}}",
            "dayBefore": f"{{% $fromMillis({midnight} - {2 * day}, {picture}) %}}",
            "full": f"{{% $floor({midnight} / {day}) % {plan.full_every_days} = 0 %}}",
            "problem": "",
        },
        "Next": "LookForVerdict",
    }


def _look_for_verdict(plan: AuditPlan) -> State:
    """A scheduler may start twice, and a person may start again: what was audited is not audited twice."""
    return {
        **_s3(plan, "headObject", {"Bucket": plan.bucket, "Key": f"{{% 'audits/' & $day & '/{VERDICT_FILE}' %}}"}),
        "Catch": [{"ErrorEquals": ["States.ALL"], "Next": "IsFullDue"}],
        "Next": "ReadVerdict",
    }


def _look_for_earlier_audit(plan: AuditPlan) -> State:
    """Changes are added to the audit of the day before, if the job can go on from it.

    Else (the first night, a failed night, another version of the audit or another memory of the ledger) it is a full one.
    """
    kept, before = plan.ledger_retention_seconds, plan.ledger_forgotten_before
    same = {
        "version": AUDIT_VERSION,
        "retention_ms": "null" if kept is None else kept * 1000,
        "forgotten_before": f"$toMillis('{before}')" if before else 0,
    }
    goes_on = " and ".join(f"$earlier.{name} = {value}" for name, value in same.items())
    return {
        **_s3(plan, "getObject", {"Bucket": plan.bucket, "Key": f"{{% 'audits/' & $dayBefore & '/{VERDICT_FILE}' %}}"}),
        "Assign": {"full": f"{{% ($earlier := $parse($states.result.Body); $not({goes_on})) %}}"},
        "Catch": [{"ErrorEquals": ["States.ALL"], "Assign": {"full": True}, "Next": "ExportTables"}],
        "Next": "ExportTables",
    }


def _export_tables(plan: AuditPlan) -> State:
    return {
        "Type": "Map",
        "Items": [{"folder": folder, "arn": arn} for folder, arn in plan.tables.items()],
        "ItemProcessor": {
            "ProcessorConfig": {"Mode": "INLINE"},
            "StartAt": "ChooseTable",
            "States": {
                "ChooseTable": {
                    "Type": "Pass",
                    "Assign": {
                        "table": "{% $states.input %}",
                        "giveUp": f"{{% {NOW} + {plan.export_seconds * 1000} %}}",
                    },
                    "Next": "FullOrChanges",
                },
                "FullOrChanges": {
                    "Type": "Choice",
                    "Choices": [{"Condition": "{% $full %}", "Next": "ExportAll"}],
                    "Default": "ExportChanges",
                },
                "ExportAll": _export(plan, {"ExportType": "FULL_EXPORT", "ExportTime": "{% $to %}"}),
                "ExportChanges": _export(
                    plan,
                    {
                        "ExportType": "INCREMENTAL_EXPORT",
                        "IncrementalExportSpecification": {
                            "ExportFromTime": "{% $from %}",
                            "ExportToTime": "{% $to %}",
                            "ExportViewType": "NEW_AND_OLD_IMAGES",
                        },
                    },
                ),
                "Wait": {"Type": "Wait", "Seconds": POLL_SECONDS, "Next": "Look"},
                "Look": {
                    "Type": "Task",
                    "Resource": _sdk(plan, "dynamodb:describeExport"),
                    "Arguments": {"ExportArn": "{% $export %}"},
                    "Output": "{% $states.result.ExportDescription %}",
                    "TimeoutSeconds": CALL_SECONDS,
                    "Retry": RETRY,
                    "Next": "IsExported",
                },
                "IsExported": {
                    "Type": "Choice",
                    "Choices": [
                        {"Condition": "{% $states.input.ExportStatus = 'COMPLETED' %}", "Next": "Exported"},
                        {"Condition": "{% $states.input.ExportStatus = 'FAILED' %}", "Next": "ExportFailed"},
                        # A timeout is of tasks and executions only: a loop has to look at the clock.
                        {"Condition": f"{{% {NOW} >= $giveUp %}}", "Next": "ExportTimedOut"},
                    ],
                    "Default": "Wait",
                },
                "Exported": {"Type": "Succeed", "Output": "{% $export %}"},
                "ExportFailed": {
                    "Type": "Fail",
                    "Error": "ExportFailed",
                    "Cause": "{% $table.folder & ': ' & $states.input.FailureMessage %}",
                },
                "ExportTimedOut": {
                    "Type": "Fail",
                    "Error": "ExportTimedOut",
                    "Cause": f"{{% $table.folder & ': not exported within {plan.export_seconds // HOUR} hours' %}}",
                },
            },
        },
        "Catch": _caught("NotifyNotAudited"),
        "Next": "WriteContext",
    }


def _export(plan: AuditPlan, what: State) -> State:
    return {
        "Type": "Task",
        "Resource": _sdk(plan, "dynamodb:exportTableToPointInTime"),
        "Arguments": {
            "TableArn": "{% $table.arn %}",
            # The same execution asks with the same token, so a repeated call starts no second export.
            "ClientToken": "{% $substring($states.context.Execution.Name, 0, 40) & '-' & $table.folder %}",
            "S3Bucket": plan.bucket,
            "S3Prefix": "{% 'history/' & $day & '/' & $table.folder %}",
            "S3SseAlgorithm": "KMS",
            "S3SseKmsKeyId": plan.key_arn,
            "ExportFormat": "DYNAMODB_JSON",
            **what,
        },
        "Assign": {"export": "{% $states.result.ExportDescription.ExportArn %}"},
        "TimeoutSeconds": CALL_SECONDS,
        "Retry": RETRY,
        "Next": "Wait",
    }


def _write_context(plan: AuditPlan) -> State:
    kept, before = plan.ledger_retention_seconds, plan.ledger_forgotten_before
    # Without a number the audit expects every row to be there. A null would not do: CDK leaves it out of the template.
    memory = {"ledger_retention": "forever"} if kept is None else {"ledger_retention_seconds": kept}
    arguments = {
        "Bucket": plan.bucket,
        "Key": "{% 'history/' & $day & '/context.json' %}",
        "Body": {**memory, "ledger_forgotten_before": before} if before else memory,
        "ContentType": "application/json",
    }
    put = _s3(plan, "putObject", arguments)
    return {**put, "Retry": RETRY, "Catch": _caught("NotifyNotAudited"), "Next": "Audit"}


def _audit(plan: AuditPlan) -> State:
    """A job that ends badly may have written its verdict all the same: what counts is the verdict, so that is read next."""
    job = (
        f"{{% $merge([{{'--history': 's3://{plan.bucket}/history/' & $day,"
        f" '--output': 's3://{plan.bucket}/audits/' & $day, '--patience-seconds': '{plan.patience_seconds}',"
        f" '--dead-letter-queue': '{plan.dead_letter_queue_url}',"
        f" '--content-based': '{str(plan.content_based).lower()}', '--deliveries': {_other_deliveries(plan)}}},"
        f" $full ? {{}} : {{'--previous': 's3://{plan.bucket}/audits/' & $dayBefore}}]) %}}"
    )
    return {
        "Type": "Task",
        "Resource": f"arn:{plan.partition}:states:::glue:startJobRun.sync",
        "Arguments": {"JobName": plan.job_name, "Arguments": job},
        "Retry": [
            {
                "ErrorEquals": ["Glue.ConcurrentRunsExceededException"],
                "IntervalSeconds": 300,
                "MaxAttempts": 6,
                "BackoffRate": 1,
            }
        ],
        "TimeoutSeconds": plan.job_seconds + JOB_AROUND_SECONDS,
        "Catch": [
            {
                "ErrorEquals": ["States.Timeout"],
                "Assign": {"problem": f"The job did not end within {plan.job_seconds // HOUR} hours."},
                "Next": "ReadVerdict",
            },
            *_caught("ReadVerdict"),
        ],
        "Next": "ReadVerdict",
    }


def _other_deliveries(plan: AuditPlan) -> str:
    """The folders of the delivery log beside the day's own, with commas between them: a job takes an argument once.

    Firehose names the day by the oldest line of a file, so that what finished just after midnight can be in the folder of the
    day before; and what finished just before it may arrive after it, in the folder of the day after. A full audit sees rows
    of all days, and reads what was delivered on them.
    """
    days_back = f"$full ? $append([-1], [1..{plan.delivery_days}]) : [-1, 1]"
    name = f"$fromMillis($toMillis($from) - $back * {DAY_MS}, {DATE})"
    folder = f"function($back) {{ 's3://{plan.bucket}/history/' & {name} & '/deliveries' }}"
    return f"$join($map({days_back}, {folder}), ',')"


def _read_verdict(plan: AuditPlan) -> State:
    arguments = {"Bucket": plan.bucket, "Key": f"{{% 'audits/' & $day & '/{VERDICT_FILE}' %}}"}
    # An earlier problem (the job's own) says more than "there is no verdict".
    earlier = "$problem != '' ? $problem : 'There is no verdict: ' & $states.errorOutput.Error"
    return {
        **_s3(plan, "getObject", arguments),
        "Assign": {"verdict": "{% $parse($states.result.Body) %}"},
        "Catch": [
            {
                "ErrorEquals": ["States.ALL"],
                "Assign": {"problem": f"{{% {earlier} %}}"},
                "Next": "NotifyNotAudited",
            }
        ],
        "Next": "Measure",
    }


def _measure(plan: AuditPlan) -> State:
    """One metric without dimensions. A bad verdict is never 0, whatever made it bad."""
    counted = "$sum($each($verdict.violations, function($count) { $count }))"
    return {
        "Type": "Task",
        "Resource": _sdk(plan, "cloudwatch:putMetricData"),
        "Arguments": {
            "Namespace": namespace(plan.stage),
            "MetricData": [
                {
                    "MetricName": VIOLATIONS_METRIC,
                    "Unit": "Count",
                    "Value": f"{{% $verdict.sound ? 0 : $max([1, {counted}]) %}}",
                }
            ],
        },
        "TimeoutSeconds": CALL_SECONDS,
        "Retry": RETRY,
        # The metric is the second way to people; the notification is not held up by it.
        "Catch": [{"ErrorEquals": ["States.ALL"], "Next": "IsSound"}],
        "Next": "IsSound",
    }


def _notify(plan: AuditPlan, what: str, sentence: str, alarm: str, then: str) -> State:
    text = (
        f"{{% 'Audit of ' & $day & ', stage {plan.stage}: ' & {sentence} & '\\n\\nWhat to do: {runbook(alarm)}"
        f"\\nResult: s3://{plan.bucket}/audits/' & $day & '/' %}}"
    )
    return {
        "Type": "Task",
        "Resource": f"arn:{plan.partition}:states:::sns:publish",
        "Arguments": {
            "TopicArn": plan.topic_arn,
            "Subject": f"Oneslot-{plan.stage}: audit {what}",
            "Message": text,
        },
        "TimeoutSeconds": CALL_SECONDS,
        "Retry": RETRY,
        "Next": then,
    }


def _s3(plan: AuditPlan, action: str, arguments: State) -> State:
    return {
        "Type": "Task",
        "Resource": _sdk(plan, f"s3:{action}"),
        "Arguments": arguments,
        "TimeoutSeconds": CALL_SECONDS,
        "Retry": _but_missing(),
    }


def _but_missing() -> list[State]:
    """S3 says with an error that an object is not there: that is an answer, so only other errors are asked again."""
    missing = {"ErrorEquals": ["S3.NoSuchKeyException", "S3.S3Exception"], "MaxAttempts": 0}
    return [missing, *RETRY]


def _caught(then: str) -> list[State]:
    cause = "$states.errorOutput.Error & ': ' & $substring($string($states.errorOutput.Cause), 0, 2000)"
    return [{"ErrorEquals": ["States.ALL"], "Assign": {"problem": f"{{% {cause} %}}"}, "Next": then}]


def _sdk(plan: AuditPlan, call: str) -> str:
    return f"arn:{plan.partition}:states:::aws-sdk:{call}"
