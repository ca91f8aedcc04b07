"""Parts of the state machine's definition that several states share: tasks, retries, and pieces of JSONata."""

from __future__ import annotations

from typing import Any

from oneslot.cdk.numbers import DAY
from stacks.audit.plan import AuditPlan

State = dict[str, Any]

CALL_SECONDS = 60  # a call that only asks or starts something answers in less, or is retried

DAY_MS = DAY * 1000
DATE = "'[Y0001]-[M01]-[D01]'"
"""The format of a day in a folder's name (JSONata)."""
NOW = "$toMillis($states.context.State.EnteredTime)"
"""The time at which the state was entered, epoch milliseconds (JSONata)."""

# A throttled or briefly failing service is retried; a lasting error stays and goes on to Catch.
RETRY = [
    {
        "ErrorEquals": ["States.TaskFailed", "States.Timeout"],
        "IntervalSeconds": 5,
        "MaxAttempts": 4,
        "BackoffRate": 3,
        "JitterStrategy": "FULL",
    }
]


def s3_task(plan: AuditPlan, action: str, arguments: State) -> State:
    """Return a task that calls S3, e.g. `getObject`."""
    return {
        "Type": "Task",
        "Resource": sdk(plan, f"s3:{action}"),
        "Arguments": arguments,
        "TimeoutSeconds": CALL_SECONDS,
        "Retry": _retry_but_missing(),
    }


def _retry_but_missing() -> list[State]:
    """Return the retries of a call to S3. A missing object is an answer, although S3 reports it as an error."""
    missing = {"ErrorEquals": ["S3.NoSuchKeyException", "S3.S3Exception"], "MaxAttempts": 0}
    return [missing, *RETRY]


def caught(then: str) -> list[State]:
    """Return a catcher that keeps the error as `$problem` and goes on to the state `then`."""
    cause = "$states.errorOutput.Error & ': ' & $substring($string($states.errorOutput.Cause), 0, 2000)"
    return [{"ErrorEquals": ["States.ALL"], "Assign": {"problem": f"{{% {cause} %}}"}, "Next": then}]


def sdk(plan: AuditPlan, call: str) -> str:
    """Return the resource of a call by the AWS SDK, e.g. `s3:getObject`."""
    return f"arn:{plan.partition}:states:::aws-sdk:{call}"
