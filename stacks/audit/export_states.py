"""The states that export the tables, all three at once: start each export, and poll until it ends."""

from __future__ import annotations

from oneslot.cdk.numbers import HOUR
from stacks.audit.plan import AuditPlan
from stacks.audit.tasks import CALL_SECONDS, NOW, RETRY, State, caught, sdk

POLL_SECONDS = 60  # an export takes minutes to an hour; each poll costs one state transition


def export_tables(plan: AuditPlan) -> State:
    """Return the state that exports each table, whole or its changes of a day, as `$full` says."""
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
                    "Resource": sdk(plan, "dynamodb:describeExport"),
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
                        # Only tasks and executions have a timeout, so the loop looks at the clock.
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
        "Catch": caught("NotifyNotAudited"),
        "Next": "WriteContext",
    }


def _export(plan: AuditPlan, what: State) -> State:
    return {
        "Type": "Task",
        "Resource": sdk(plan, "dynamodb:exportTableToPointInTime"),
        "Arguments": {
            "TableArn": "{% $table.arn %}",
            # One execution always sends the same token, so a retried call starts no second export.
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
