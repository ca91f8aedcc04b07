"""The exhibits, and what they are held to: less than ours, only what their own documentation promises."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from oneslot.explorer.process import Outcome
from oneslot.explorer.scenario import OURS, Subject
from oneslot.explorer.world import LEDGER, Request, World
from verification.peers import ledgers, powertools
from verification.scenarios.messages import SqsMessage

COMPLETED = ("COMPLETE", "COMPLETED")


class PromisedLaws:
    """I1, I2, I6 and I9, with the meaning that any exactly-once handler gives them."""

    def in_state(self, world: World, waiting: Collection[str], requests: Collection[str], now: int) -> Iterator[str]:
        """See `verification.scenarios.laws.Laws`."""
        held = Counter(slot.get("appointment_id") for slot in world.rows["slots"].values())
        for message_id in requests:
            if held[message_id] > 1:
                yield f"I1 {message_id}: holds {held[message_id]} slots"

    def at_write(self, before: World, after: World, request: Request, now: int, sender: str | None) -> Iterator[str]:
        """See `verification.scenarios.laws.Laws`."""
        for key, row in before.rows[LEDGER].items():
            if row["status"] in COMPLETED and after.rows[LEDGER].get(key, {}).get("status") not in COMPLETED:
                yield "I6 its row: COMPLETE reverted or was deleted"

    def at_end(self, world: World, messages: Sequence[SqsMessage], outcome: Outcome) -> Iterator[str]:
        """See `verification.scenarios.laws.Laws`."""
        if outcome.error == "endless":
            yield "I9: the invocation makes call after call and never ends"

    def at_last(self, world: World, wanted: Sequence[str]) -> Iterator[str]:
        """See `verification.scenarios.laws.Laws`. Their tables are not ours."""
        yield from ()

    def of_duplicate(
        self, before: World, message: SqsMessage, calls: Sequence[Request], outcome: Outcome
    ) -> Iterator[str]:
        """See `verification.scenarios.laws.Laws`. Everything is over by then: what has no slot now will never have one."""
        if not any(slot.get("appointment_id") == message.message_id for slot in before.rows["slots"].values()):
            yield f"I2 {message.message_id}: acknowledged, and no slot was ever taken for it"


@dataclass(frozen=True)
class Exhibit:
    """A handler, where its pattern comes from, and the laws that the prover must find broken, each by its name."""

    subject: Subject
    origin: str
    breaks: frozenset[str]


_LAWS = PromisedLaws()

EXHIBITS = (
    Exhibit(
        Subject("get, then put", ledgers.get_then_put, _LAWS),
        "a ledger with status, count and time stamp, read before it is written",
        frozenset({"I1", "I6"}),
    ),
    Exhibit(
        Subject("get, then put, with conditions", ledgers.get_then_put_with_conditions, _LAWS),
        "the same, each write on condition that the row is as it was read",
        frozenset({"I1", "I6"}),
    ),
    Exhibit(
        Subject("acquire, mark, release", ledgers.acquire_mark_release, _LAWS),
        "a lock library's three verbs: what cannot be acquired is taken for a duplicate",
        frozenset({"I1", "I2", "I6"}),
    ),
    Exhibit(
        Subject("Powertools, plain effect", powertools.around_plain_effect, _LAWS),
        "Powertools for AWS Lambda 3.37, idempotency with its DynamoDB layer, around an update",
        frozenset({"I1", "I6"}),
    ),
    Exhibit(
        Subject("Powertools, transaction", powertools.around_transaction, _LAWS),
        "the same around a transaction that can take effect only once",
        frozenset({"I6"}),
    ),
)

OURS_IN_MUSEUM = Subject("Oneslot, one transaction", OURS.run, OURS.laws)
