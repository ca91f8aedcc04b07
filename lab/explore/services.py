"""The services of the practice: the account's, and a count of the claims that they grant, for the laws to compare."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from oneslot.dynamodb_in_memory.contents import TableSchema
from oneslot.explorer.handlers.services import AccountServices
from oneslot.explorer.refusal import NotExplorable
from oneslot.explorer.world import ApiCall, World, from_text, to_text

CLAIMS = "claims"
"""The kind of line that counts granted claims by message id. The code under test never sees it."""


def claims_of(world: World) -> Counter[str]:
    """Return the claims granted, by message id, as the services counted them."""
    return Counter({message_id: count for _, message_id, count in world.lines(CLAIMS)})


@dataclass(frozen=True)
class CountingServices:
    """The services of an account with these tables; see `oneslot.explorer.world.Services`."""

    tables: Mapping[str, TableSchema]

    def __call__(self, world: World, request: ApiCall, now: int, conflict: int | None = None) -> tuple[World, str]:
        """Perform a call. What the stand-ins do not model is raised as it is, so that it counts as a breach."""
        try:
            after, observation = AccountServices(self.tables)(world, request, now, conflict)
        except NotExplorable as error:
            raise error.__cause__ or error from None
        if "error" in from_text(observation):
            return world, observation
        claims, (operation, parameters) = claims_of(world), request.parts
        if parameters.get("ClientRequestToken") not in {token for _, token, _ in world.lines("token")}:
            claims.update(_claimed(operation, parameters))
        counted = [to_text([CLAIMS, "", message_id, count]) for message_id, count in claims.items()]
        return World("\n".join(sorted([*filter(None, after.text.split("\n")), *counted]))), observation


def _claimed(operation: str, parameters: Mapping[str, Any]) -> list[str]:
    """Return the messages that a successful call claims: each write that sets the ledger's fence is a granted claim.

    An update sets the fence, or a transaction puts a row that has one: the commit of a first delivery is its own claim.
    """
    claimed = []
    if operation == "update_item" and "claimed_by = " in parameters["UpdateExpression"]:
        claimed = [parameters["Key"]]
    elif operation == "transact_write_items":
        puts = (action["Put"]["Item"] for action in parameters["TransactItems"] if "Put" in action)
        claimed = [item for item in puts if "claimed_by" in item]
    return [key.get("message_id", {}).get("S", "") for key in claimed]
