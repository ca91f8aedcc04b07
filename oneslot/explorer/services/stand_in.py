"""The stand-ins for AWS's services, as the explorer of any handler calls them: one function an operation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oneslot.dynamodb_in_memory import InMemoryDynamoDB
from oneslot.dynamodb_in_memory.answers import UnsupportedRequest
from oneslot.explorer.services import objects, outside, values, web, workflows
from oneslot.explorer.services.account import READING, Account, Operation
from oneslot.explorer.services.sqs import explored

OPERATIONS: dict[str, Operation] = {
    **explored.OPERATIONS,
    **outside.OPERATIONS,
    **objects.OPERATIONS,
    **workflows.OPERATIONS,
    **values.OPERATIONS,
}
"""The operations by "service.operation", with the names that boto3 gives them. DynamoDB has a class."""

_TARGETS = ("FunctionName", "TopicArn", "QueueUrl", "Bucket", "Name", "Id")


def perform(account: Account, service: str, operation: str, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Perform a call in the account.

    The order is: the user's answer, the stand-in, a refusal by name. A call that the user answers leaves the account,
    unless it only reads.
    """
    name = f"{service}.{operation}"
    if service == "http":
        return web.request(account, operation, parameters)
    given = account.answers.get(name)
    if given is not None:
        if not operation.startswith(READING):
            target = next((str(parameters[one]) for one in _TARGETS if one in parameters), "")
            account.record(service, operation, target, parameters)
        return given(parameters) if callable(given) else given  # type: ignore[no-any-return]
    if service == "dynamodb":
        dynamodb = InMemoryDynamoDB(lambda: account.now_ms, account.tables, account.contents, account.depends_on_time)
        method = getattr(dynamodb, operation, None)
        if method is not None:
            return method(**parameters)  # type: ignore[no-any-return]
    if name not in OPERATIONS:
        raise UnsupportedRequest(f'it has no stand-in. Give its answer: answers={{"{name}": {{...}}}}')
    return OPERATIONS[name](account, parameters)
