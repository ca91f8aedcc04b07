"""The peers and their laws: fewer than ours, only those that their own documentation promises."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from lab.explore.ours import OURS
from lab.explore.practice import LEDGER, SLOTS
from lab.peers import ledgers, powertools
from oneslot.explorer.execution.process import HandlerEnd
from oneslot.explorer.laws import Laws
from oneslot.explorer.scenario import ExploredSubject, Run
from oneslot.explorer.world import ApiCall, SqsMessage, World

COMPLETED = ("COMPLETE", "COMPLETED")


class PromisedLaws(Laws):
    """I1, I2, I6 and I9, as any exactly-once handler promises them."""

    def in_state(self, world: World, waiting: Collection[str], requests: Collection[str], now: int) -> Iterator[str]:
        """See `oneslot.explorer.laws.Laws`."""
        held = Counter(slot.get("appointment_id") for slot in world.rows[SLOTS].values())
        for message_id in requests:
            if held[message_id] > 1:
                yield f"I1 {message_id}: holds {held[message_id]} slots"

    def at_write(self, before: World, after: World, request: ApiCall, now: int, sender: str | None) -> Iterator[str]:
        """See `oneslot.explorer.laws.Laws`."""
        for key, row in before.rows[LEDGER].items():
            if row["status"] in COMPLETED and after.rows[LEDGER].get(key, {}).get("status") not in COMPLETED:
                yield "I6 its row: COMPLETE reverted or was deleted"

    def at_end(self, world: World, messages: Sequence[SqsMessage], outcome: HandlerEnd) -> Iterator[str]:
        """See `oneslot.explorer.laws.Laws`."""
        if outcome.error == "endless":
            yield "I9: the invocation makes call after call and never ends"

    def of_duplicate(
        self, before: World, message: SqsMessage, calls: Sequence[ApiCall], outcome: HandlerEnd
    ) -> Iterator[str]:
        """See `oneslot.explorer.laws.Laws`. A request without a slot in the final world never gets one."""
        if not any(slot.get("appointment_id") == message.message_id for slot in before.rows[SLOTS].values()):
            yield f"I2 {message.message_id}: acknowledged, and no slot was ever taken for it"


@dataclass(frozen=True)
class Peer:
    """A handler, and the names of the laws that the explorer must find broken, and no others."""

    subject: ExploredSubject
    breaks: frozenset[str]


def _peer(name: str, run: Run, *breaks: str) -> Peer:
    return Peer(ExploredSubject(name, run, PromisedLaws()), frozenset(breaks))


PEERS = (
    # A ledger with status, count and time stamp, read before it is written.
    _peer("get, then put", ledgers.get_then_put, "I1", "I6"),
    # The same ledger, each write on condition that the row is as it was read.
    _peer("get, then put, with conditions", ledgers.get_then_put_with_conditions, "I1", "I6"),
    # A lock library's three verbs; a message that cannot be acquired counts as a duplicate.
    _peer("acquire, mark, release", ledgers.acquire_mark_release, "I1", "I2", "I6"),
    # Powertools for AWS Lambda 3.37, idempotency with its DynamoDB layer, around an update.
    _peer("Powertools, plain effect", powertools.around_plain_effect, "I1", "I6"),
    # The same layer around a transaction that can take effect only once.
    _peer("Powertools, transaction", powertools.around_transaction, "I6"),
)

COMPARED = (*PEERS, Peer(ExploredSubject("Oneslot, one transaction", OURS.run, OURS.laws), frozenset()))
"""The peers, and our handler in their budget as the control: it must break nothing."""
