"""How a path is told to a person: calls by what they are for, names of deliveries as letters, times from the start."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from oneslot.explorer.world import APPOINTMENTS, LEDGER, SLOTS, UNANSWERED, Request, World

_OWN_ID = re.compile(r"delivery-(\d+)(?:-(\d+))?")


def lettered(text: str) -> str:
    """Delivery 0 is A, its second id A2."""
    return _OWN_ID.sub(lambda match: f"{chr(65 + int(match[1]))}{match[2] or ''}", text)


def told_call(request: Request) -> str:
    """What a call is for."""
    operation, parameters = request.parts
    match operation:
        case "transact_write_items":
            writes = [_write(kind, write) for action in parameters["TransactItems"] for kind, write in action.items()]
            return f"commit: {', '.join(writes)}"
        case "query":
            return "find free slots" if "IndexName" in parameters else "ask whether the practice has slots"
        case "batch_get_item":
            ((table, wanted),) = parameters["RequestItems"].items()
            return f"look up {len(wanted['Keys'])} in {table}"
        case "change_message_visibility":
            return f"hide the message for {parameters['VisibilityTimeout']} s"
        case "send_message":
            return "send it to the dead-letter queue"
    verb = {"get_item": "read", "put_item": "put", "update_item": "update", "delete_item": "delete"}.get(operation)
    update = parameters.get("UpdateExpression", "")
    if parameters["TableName"] == LEDGER and "claimed_by = " in update:
        verb = "claim in"
    elif parameters["TableName"] == LEDGER and "lease_until = :ended" in update:
        verb = "release in"
    status = parameters.get("Item", {}).get("status", {}).get("S", "")
    return f"{verb or operation} {parameters['TableName']} {_key(parameters)} {status}".rstrip()


def told_observation(text: str) -> str:
    """What a caller saw."""
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


def told_world(world: World, start: int) -> Iterator[str]:
    """What is there, a line for each row; times in seconds from `start` (epoch ms)."""
    for row in world.rows[LEDGER].values():
        lease = row.get("lease_until")
        yield lettered(
            f"ledger {row['message_id']}: {row['status']}"
            + (f", by {row['claimed_by']}" if "claimed_by" in row else "")
            + (f", lease until {_seconds(lease, start)}" if lease else "")
            + (", lease ended" if lease == 0 else "")
            + (f", count {row['consumption_count']}" if "consumption_count" in row else "")
        )
    for row in world.rows[SLOTS].values():
        holder = f", held by {row['appointment_id']}" if row.get("appointment_id") else ""
        yield f"slot {row['slot_id']}: {row['status']}{holder}"
    for row in world.rows[APPOINTMENTS].values():
        slot = f", slot {row['slot_id']}" if "slot_id" in row else ""
        yield f"appointment {row['appointment_id']}: {row.get('status', 'made')}{slot}"
    for letter in world.dead_letters:
        reason = letter["MessageAttributes"].get("QuarantineReason", {}).get("StringValue", "no reason")
        yield f"dead letter: {reason}"


def _seconds(moment: int, start: int) -> str:
    return f"{(moment - start) / 1000:+g} s"


def _write(kind: str, write: Mapping[str, Any]) -> str:
    return f"{kind.lower()} {write['TableName']} {_key(write)}"


def _key(parameters: Mapping[str, Any]) -> str:
    name = {LEDGER: "message_id", SLOTS: "slot_id", APPOINTMENTS: "appointment_id"}.get(parameters["TableName"], "")
    item = parameters.get("Key") or parameters.get("Item", {})
    return str(item.get(name, {}).get("S", ""))[:40]
