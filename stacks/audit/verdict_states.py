"""The states around a verdict: look for an earlier one, read tonight's, measure it, and notify."""

from __future__ import annotations

from stacks.audit.plan import AUDIT_VERSION, VERDICT_FILE, AuditPlan
from stacks.audit.tasks import CALL_SECONDS, RETRY, State, s3_task, sdk
from stacks.shared.measures import VIOLATIONS_METRIC, namespace
from stacks.shared.topics import RUNBOOKS


def look_for_verdict(plan: AuditPlan) -> State:
    """Return the state that ends early if the day has a verdict: a scheduler may start a night twice."""
    return {
        **s3_task(plan, "headObject", {"Bucket": plan.bucket, "Key": f"{{% 'audits/' & $day & '/{VERDICT_FILE}' %}}"}),
        "Catch": [{"ErrorEquals": ["States.ALL"], "Next": "IsFullDue"}],
        "Next": "ReadVerdict",
    }


def look_for_earlier_audit(plan: AuditPlan) -> State:
    """Return the state that decides whether the job can add a day's changes to the audit of the day before.

    The night is a full one if that audit is missing or failed, has another version, or judged by another retention.
    """
    kept, before = plan.ledger_retention_seconds, plan.ledger_forgotten_before
    same = {
        "version": AUDIT_VERSION,
        "retention_ms": "null" if kept is None else kept * 1000,
        "forgotten_before": f"$toMillis('{before}')" if before else 0,
    }
    goes_on = " and ".join(f"$earlier.{name} = {value}" for name, value in same.items())
    return {
        **s3_task(
            plan, "getObject", {"Bucket": plan.bucket, "Key": f"{{% 'audits/' & $dayBefore & '/{VERDICT_FILE}' %}}"}
        ),
        "Assign": {"full": f"{{% ($earlier := $parse($states.result.Body); $not({goes_on})) %}}"},
        "Catch": [{"ErrorEquals": ["States.ALL"], "Assign": {"full": True}, "Next": "ExportTables"}],
        "Next": "ExportTables",
    }


def read_verdict(plan: AuditPlan) -> State:
    """Return the state that reads the verdict file into `$verdict`."""
    arguments = {"Bucket": plan.bucket, "Key": f"{{% 'audits/' & $day & '/{VERDICT_FILE}' %}}"}
    # The job's own problem says more than "there is no verdict".
    earlier = "$problem != '' ? $problem : 'There is no verdict: ' & $states.errorOutput.Error"
    return {
        **s3_task(plan, "getObject", arguments),
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


def measure(plan: AuditPlan) -> State:
    """Return the state that puts the number of violations: 0 for a sound verdict, else at least 1."""
    counted = "$sum($each($verdict.violations, function($count) { $count }))"
    return {
        "Type": "Task",
        "Resource": sdk(plan, "cloudwatch:putMetricData"),
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
        # A lost metric must not hold up the notification.
        "Catch": [{"ErrorEquals": ["States.ALL"], "Next": "IsSound"}],
        "Next": "IsSound",
    }


def notify(plan: AuditPlan, what: str, sentence: str, alarm: str, then: str) -> State:
    """Return the state that publishes a sentence (JSONata) to the topic, with the alarm's runbook."""
    text = (
        f"{{% 'Audit of ' & $day & ', stage {plan.stage}: ' & {sentence} & '\\n\\nWhat to do: {RUNBOOKS}#{alarm}"
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
