"""The nightly audit as a state machine: export the tables, wait, run the job, read its verdict, notify.

Everything is derived from one moment, the end of the day before. Exports, folders and window all name the same day, so a
second start for a day repeats nothing and finds the first one's verdict. JSONata throughout, as plain text.
"""

from __future__ import annotations

from oneslot.cdk.numbers import HOUR
from stacks.audit.export_states import export_tables
from stacks.audit.plan import AuditPlan
from stacks.audit.tasks import DATE, DAY_MS, RETRY, State, caught, s3_task
from stacks.audit.verdict_states import look_for_earlier_audit, look_for_verdict, measure, notify, read_verdict

NOT_STARTED = (
    "AWSGlueException",  # as Step Functions reports a throttled start: its cause is "Rate exceeded"
    "ThrottlingException",
    "ResourceNumberLimitExceededException",
    "InternalServiceException",
    "OperationTimeoutException",
)
"""The errors of a start that Glue throttled, or had no capacity for. A run that fails has another: States.TaskFailed."""

JOB_AROUND_SECONDS = HOUR  # Glue counts the job's timeout while it runs: it must start before, and stop after


def definition(plan: AuditPlan) -> State:
    """Return the definition in the Amazon States Language."""
    return {
        "Comment": "Export the tables as they were at midnight UTC, audit them, and tell people about a bad verdict",
        "QueryLanguage": "JSONata",
        "TimeoutSeconds": plan.timeout_seconds,
        "StartAt": "ChooseDay",
        "States": {
            "ChooseDay": _choose_day(plan),
            "LookForVerdict": look_for_verdict(plan),
            "IsFullDue": {
                "Type": "Choice",
                "Choices": [{"Condition": "{% $full %}", "Next": "ExportTables"}],
                "Default": "LookForEarlierAudit",
            },
            "LookForEarlierAudit": look_for_earlier_audit(plan),
            "ExportTables": export_tables(plan),
            "WriteContext": _write_context(plan),
            "Audit": _audit(plan),
            "ReadVerdict": read_verdict(plan),
            "Measure": measure(plan),
            "IsSound": {
                "Type": "Choice",
                "Choices": [{"Condition": "{% $verdict.sound %}", "Next": "Sound"}],
                "Default": "NotifyBadVerdict",
            },
            "Sound": {"Type": "Succeed", "Output": "{% {'day': $day, 'sound': true} %}"},
            "NotifyBadVerdict": notify(plan, "bad verdict", "$verdict.sentence", "invariant-violated", "BadVerdict"),
            # The execution succeeded: notification, metric and alarm report the bad verdict.
            "BadVerdict": {"Type": "Succeed", "Output": "{% {'day': $day, 'sound': false} %}"},
            "NotifyNotAudited": notify(plan, "could not run", "$problem", "audit-missing", "NotAudited"),
            "NotAudited": {"Type": "Fail", "Error": "NotAudited", "Cause": "{% $problem %}"},
        },
    }


def _choose_day(plan: AuditPlan) -> State:
    day, picture = DAY_MS, DATE
    start = "$exists($states.input.scheduled) ? $states.input.scheduled : $states.context.Execution.StartTime"
    # Every expression of an Assign sees the variables as they were before, so each computes the midnight again.
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


def _write_context(plan: AuditPlan) -> State:
    kept, before = plan.ledger_retention_seconds, plan.ledger_forgotten_before
    # A word rather than null, because CDK leaves a null out of the template.
    memory = {"ledger_retention": "forever"} if kept is None else {"ledger_retention_seconds": kept}
    arguments = {
        "Bucket": plan.bucket,
        "Key": "{% 'history/' & $day & '/context.json' %}",
        "Body": {**memory, "ledger_forgotten_before": before} if before else memory,
        "ContentType": "application/json",
    }
    put = s3_task(plan, "putObject", arguments)
    return {**put, "Retry": RETRY, "Catch": caught("NotifyNotAudited"), "Next": "Audit"}


def _audit(plan: AuditPlan) -> State:
    """Return the state that runs the job. A failed job may have written its verdict, so the verdict is read next."""
    # A night that exports changes continues the one before, which must have kept its rows for that.
    continued = " '--continue': 'true'," if plan.full_every_days > 1 else ""
    job = (
        f"{{% $merge([{{'--history': 's3://{plan.bucket}/history/' & $day,"
        f" '--output': 's3://{plan.bucket}/audits/' & $day,{continued} '--patience-seconds': '{plan.patience_seconds}',"
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
            },
            # 15 minutes in all, so both retries together end within the hour that `AUDIT_HOURS_AROUND` leaves them.
            {
                "ErrorEquals": [f"Glue.{error}" for error in NOT_STARTED],
                "IntervalSeconds": 60,
                "MaxAttempts": 4,
                "BackoffRate": 2,
                "JitterStrategy": "FULL",
            },
        ],
        "TimeoutSeconds": plan.job_seconds + JOB_AROUND_SECONDS,
        "Catch": [
            {
                "ErrorEquals": ["States.Timeout"],
                "Assign": {"problem": f"The job did not end within {plan.job_seconds // HOUR} hours."},
                "Next": "ReadVerdict",
            },
            *caught("ReadVerdict"),
        ],
        "Next": "ReadVerdict",
    }


def _other_deliveries(plan: AuditPlan) -> str:
    """Return the folders of the delivery log beside the day's own, separated by commas (JSONata).

    Firehose names a file's day after its oldest line. A line from just after midnight can be in the folder of the day
    before, and one that arrives late in the folder of the day after. A full audit sees rows of all days, and reads the
    delivery log of all of them.
    """
    days_back = f"$full ? $append([-1], [1..{plan.delivery_days}]) : [-1, 1]"
    name = f"$fromMillis($toMillis($from) - $back * {DAY_MS}, {DATE})"
    folder = f"function($back) {{ 's3://{plan.bucket}/history/' & {name} & '/deliveries' }}"
    return f"$join($map({days_back}, {folder}), ',')"
