"""The words of a replay: calls by their purpose, deliveries as letters, times from the start."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from oneslot.dynamodb_in_memory.contents import TableSchema
from oneslot.explorer.world import EFFECT, STATE, UNANSWERED, ApiCall, World

_OWN_ID = re.compile(r"delivery-(\d+)(?:-(\d+))?")
_VERBS = {"get_item": "read", "put_item": "put", "update_item": "update", "delete_item": "delete"}
_LONGEST_KEY = 40


def lettered(text: str) -> str:
    """Return the text with delivery 0 as A, and its second id as A2."""
    return _OWN_ID.sub(lambda match: f"{chr(65 + int(match[1]))}{match[2] or ''}", text)


def describe_call(request: ApiCall, tables: Mapping[str, TableSchema]) -> str:
    """Return the purpose of a call."""
    operation, parameters = request.parts
    match operation:
        case "transact_write_items":
            writes = [
                f"{kind.lower()} {write['TableName']} {_key(write, tables)}"
                for action in parameters["TransactItems"]
                for kind, write in action.items()
            ]
            return f"commit: {', '.join(writes)}"
        case "query":
            index = f" by {parameters['IndexName']}" if "IndexName" in parameters else ""
            return f"query {parameters['TableName']}{index}"
        case "batch_get_item":
            ((table, wanted),) = parameters["RequestItems"].items()
            return f"look up {len(wanted['Keys'])} in {table}"
        case "change_message_visibility":
            return f"hide the message for {parameters['VisibilityTimeout']} s"
        case "send_message":
            return f"send it to {parameters['QueueUrl'].rpartition('/')[2]}"
    update = parameters.get("UpdateExpression", "")
    verb = _VERBS.get(operation, operation)
    if "Bucket" in parameters:
        verb += f" s3://{parameters['Bucket']}/{parameters.get('Key', '')}"
    if "claimed_by = " in update:
        verb = "claim in"
    elif "lease_until = :ended" in update:
        verb = "release in"
    status = parameters.get("Item", {}).get("status", {}).get("S", "")
    if "TableName" in parameters:
        verb += f" {parameters['TableName']} {_key(parameters, tables)} {status}"
    return verb.rstrip()


def describe_observation(text: str) -> str:
    """Return what a caller saw."""
    if text == UNANSWERED:
        return "no answer"
    seen: Mapping[str, Any] = json.loads(text)
    if "error" in seen:
        reasons = [reason["Code"] for reason in seen["error"].get("CancellationReasons", ())]
        return f"{seen['error']['Error']['Code']}{f' ({chr(44).join(reasons)})' if reasons else ''}"
    answer = seen["answer"]
    if "Responses" in answer:
        return f"{sum(map(len, answer['Responses'].values()))} found"
    if "Count" in answer:
        return f"{answer['Count']} found"
    if "Item" in answer:
        return f"found, {answer['Item'].get('status', {}).get('S', 'an item')}"
    return "done"


def describe_world(world: World, tables: Mapping[str, TableSchema], start: int, whole: bool = False) -> Iterator[str]:
    """Yield a line for each row and each sent message; times in seconds from `start` (epoch ms).

    `whole`: show each attribute of a row, not only those of a ledger.
    """
    for name, table in tables.items():
        for row in world.rows[name].values():
            key = "/".join(str(row[part]) for part in table.keys)
            yield lettered(f"{name} {key}: {_attributes(row, table) if whole else _row(row, table, start)}")
    for queue, messages in world.queues.items():
        for message in messages:
            attributes = message.get("MessageAttributes", {}).items()
            said = ", ".join(f"{name} {value.get('StringValue')}" for name, value in attributes)
            yield f"{queue.rpartition('/')[2]}: {said or 'a message'}"
    effects = Counter(effect_name(json.loads(text)) for _, _, text in world.lines(EFFECT))
    yield from (f"{name}: {count} time{'' if count == 1 else 's'}" for name, count in sorted(effects.items()))
    for container, key, _ in world.lines(STATE):
        if container.startswith("s3/"):
            yield f"s3://{container.removeprefix('s3/')}/{key}: an object"


def effect_name(effect: Mapping[str, Any]) -> str:
    """Return an outside effect's call and what it goes to, without the account and region of an ARN or a URL."""
    target = str(effect["target"])
    short = target.rpartition(":")[2] if target.startswith("arn:") else target.rpartition("/")[2]
    return f"{effect['service']}.{effect['operation']}{f' to {short}' if short else ''}"


def _attributes(row: Mapping[str, Any], table: TableSchema) -> str:
    """The attributes beside the key."""
    return ", ".join(f"{name} {row[name]}" for name in sorted(row) if name not in table.keys) or "there"


def _row(row: Mapping[str, Any], table: TableSchema, start: int) -> str:
    """The status, the lease of a ledger's row, and the ids that the row refers to."""
    lease = row.get("lease_until")
    parts = [str(row.get("status", "there"))]
    parts += [f"by {row['claimed_by']}"] if "claimed_by" in row else []
    parts += [f"lease until {(lease - start) / 1000:+g} s"] if lease else []
    parts += ["lease ended"] if lease == 0 else []
    parts += [f"count {row['consumption_count']}"] if "consumption_count" in row else []
    parts += [f"{name} {row[name]}" for name in sorted(row) if name.endswith("_id") and name not in table.keys]
    return ", ".join(parts)


def _key(parameters: Mapping[str, Any], tables: Mapping[str, TableSchema]) -> str:
    item = parameters.get("Key") or parameters.get("Item", {})
    values = (str(*item.get(name, {}).values()) for name in tables[parameters["TableName"]].keys)
    return "/".join(values)[:_LONGEST_KEY]
