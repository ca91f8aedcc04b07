"""The ledger's own laws: one list for every consumer, and for the explorer, the simulation, the local check and the audit.

Laws about calls and interleavings have no `breaches`, because no history shows them: the explorer checks those, and the
simulation those named Q and M. A consumer's own laws join this list by their names.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from oneslot.laws.evidence import IN_PROGRESS, Evidence, Law, result_of
from oneslot.laws.schema import is_answer, text_of
from oneslot.runtime.consumer.delivery_log import LONGEST_OUTCOME


def _nothing_lost(evidence: Evidence) -> Iterator[tuple[str, str]]:
    if evidence.requests is None or evidence.waiting is None:
        return
    for message_id in evidence.requests:
        held = message_id in evidence.quarantined or message_id in evidence.waiting
        if not evidence.complete(message_id) and not held and not evidence.forgotten(message_id):
            yield message_id, "accepted by the queue, and now nowhere: no result, not waiting, not quarantined"


def _done_means_complete(evidence: Evidence) -> Iterator[tuple[str, str]]:
    for table, key, (request, _, deed) in evidence.effects():
        if not evidence.complete(request) and not evidence.forgotten(request):
            yield request or text_of(key), f"{deed} the row {text_of(key)} of {table.name}, and has no COMPLETE row"


def _complete_stays(evidence: Evidence) -> Iterator[tuple[str, str]]:
    completed = {
        line["message_id"]
        for line in evidence.deliveries
        if is_answer(line["outcome"]) or line["outcome"] == "duplicate"
    }
    for message_id in completed:
        if not evidence.complete(message_id) and not evidence.forgotten(message_id):
            yield message_id, "a delivery completed it, and its row no longer says so"


def _same_answer(evidence: Evidence) -> Iterator[tuple[str, str]]:
    answers, outcomes = defaultdict(set), defaultdict(set)
    for line in evidence.remembered():
        if line.get("answer"):
            answers[line["message_id"]].add(line["answer"])
        if is_answer(line["outcome"]):
            outcomes[line["message_id"]].add(line["outcome"])
    broken = {
        message_id: f"its deliveries were given {len(given)} different answers"
        for message_id, given in answers.items()
        if len(given) > 1
    }
    for message_id, said in outcomes.items():
        kept = _kept(evidence, message_id)
        if kept is not None and said != {kept}:
            broken.setdefault(
                message_id, f"answered {', '.join(sorted(said))}, and its row keeps {kept} for duplicates"
            )
    yield from broken.items()


def _kept(evidence: Evidence, message_id: str) -> str | None:
    """Return the outcome that the row keeps; None without one, and where the row holds another request's answer."""
    result = result_of(evidence.ledger[message_id]) if evidence.complete(message_id) else {}
    kept = str(result.get("outcome", "complete"))[:LONGEST_OUTCOME] if result else None
    known = evidence.schema.outcomes
    if kept is None or not known:
        return kept
    if kept not in known or (known[kept].request and result.get(known[kept].request or "") != message_id):
        return None
    return kept


def _nothing_stuck(evidence: Evidence) -> Iterator[tuple[str, str]]:
    if evidence.waiting is None:
        return
    for message_id, row in evidence.ledger.items():
        over = row["status"] == IN_PROGRESS and row["lease_until"] < evidence.now
        if over and message_id not in evidence.waiting and message_id not in evidence.quarantined:
            yield message_id, "IN_PROGRESS, its lease long over, and nothing in a queue will wake it"


def _claims_counted(evidence: Evidence) -> Iterator[tuple[str, str]]:
    claims = defaultdict(set)
    counted: dict[str, int] = defaultdict(int)
    for line in evidence.remembered():
        if count := line.get("consumption_count"):
            counted[line["message_id"]] = max(counted[line["message_id"]], count)
        if line.get("claimed_by"):
            claims[line["message_id"]].add(line["claimed_by"])
    for message_id, row in evidence.ledger.items():
        if row["consumption_count"] < max(1, len(claims[message_id]), counted[message_id]):
            yield message_id, f"consumption_count {row['consumption_count']}, below the claims that were granted"


def _quarantined_means_not_done(evidence: Evidence) -> Iterator[tuple[str, str]]:
    done = {effect.request for _, _, effect in evidence.effects()}
    for message_id in evidence.quarantined:
        if message_id in done and not evidence.complete(message_id) and not evidence.forgotten(message_id):
            yield message_id, "in the dead-letter queue with an effect, and its row is not COMPLETE"


def _exactly_its_rows(evidence: Evidence) -> Iterator[tuple[str, str]]:
    named: dict[tuple[str, str], int] = defaultdict(int)
    for table, _, effect in evidence.effects():
        named[table.name, effect.request] += 1
    for table in evidence.schema.effect_tables:
        if table.rows is None:
            continue
        for (name, request), count in named.items():
            if name == table.name and request and count > table.rows:
                yield request, f"{count} rows of {table.name} name it, and one effect has {table.rows}"
        if not table.outcomes:
            continue
        for message_id in evidence.ledger:
            outcome = _kept(evidence, message_id)
            due = table.rows if outcome in table.outcomes else 0
            count = named[table.name, message_id]
            if outcome is not None and count != due and count <= table.rows:
                yield message_id, f"COMPLETE with outcome {outcome}, and {count} of {due} rows of {table.name} name it"


EFFECT_ROWS = Law(
    "I12", "A request has its effect's rows exactly once, and none without the outcome.", _exactly_its_rows
)
"""Only for a consumer that declares how many rows an effect has."""

LEDGER_LAWS = (
    Law("I2", "An acknowledged request has a recorded answer.", _nothing_lost),
    Law("I5r", "An effect's request has a COMPLETE row.", _done_means_complete),
    Law("I6", "COMPLETE never reverts and never disappears.", _complete_stays),
    Law("I7", "Duplicates get the original's answer.", _same_answer),
    Law("I8", "Nothing is acknowledged after an exception.", None),
    Law("I9", "Once faults stop, redelivery brings every request to its end.", _nothing_stuck),
    Law("I10", "consumption_count counts every claim that was granted.", _claims_counted),
    Law("I11", "A message in the dead-letter queue took no effect, or is COMPLETE.", _quarantined_means_not_done),
    Law("E1", "One delivery with one transient fault of a write finishes within that delivery.", None),
    Law("E2", "A live lease is never taken over.", None),
    Law("E3", "A duplicate of a finished request costs one call.", None),
    Law("Q1", "A request is committed once at most, counted where DynamoDB performs the writes.", None),
    Law("Q2", "Without a fault, each message is received once.", None),
    Law(
        "Q3",
        "b crashes cost a message 2b + 1 receives, its short waits, and one for each request that lands after its process "
        "died. They send it to no dead-letter queue if it has as many.",
        None,
    ),
    Law("Q4", "Messages of a FIFO group are sent, begun and committed in their order.", None),
    Law("Q5", "A worker has no more messages at work than threads, and asks for no more than are idle.", None),
    Law("Q6", "The queue drains soon after the last fault: the longest lease, a visibility timeout, 5 s.", None),
    Law("Q7", "The archive holds every message of which an ended sender knows that it was accepted.", None),
    Law("Q8", "Every dead letter has its reason.", None),
    Law("Q9", "No thread dies.", None),
    Law("Q10", "A redrive ends, however often it is killed and resumed.", None),
    Law("Q11", "A redrive sends each message as its producer did, and nothing again that its journal has.", None),
    Law("Q12", "An operator's change is in the operator log before it is made.", None),
    Law("Q13", "The archive holds nothing that the queue did not accept.", None),
    Law("Q14", "A producer gives one result for each message, also for one that it is given twice.", None),
    Law("Q15", "Every sender and every backfill ends.", None),
    Law("Q16", "A backfill that succeeds has handed over or counted each row.", None),
    Law("Q17", "A redelivery of a request that a backfill entered is not quarantined.", None),
    Law("Q18", "A renewed lease never ends later than its claim asked for.", None),
    Law("Q19", "A renewed claim is not taken over while its process lives and its calls are answered.", None),
    Law(
        "Q20",
        "In the history of Valkey that survives, each request takes effect once, whole, and by its claim's holder.",
        None,
    ),
    Law("Q21", "A request in Valkey is lost only if a failover lost its commit.", None),
    Law("M1", "A mapping keeps the limits of its function: environments, batch size, payload.", None),
    Law("M2", "A mapping offers no message that is visible in its queue again.", None),
    Law("M3", "A mapping that stops has accounted for every message that it received.", None),
)


def join_laws(own: Sequence[Law]) -> tuple[Law, ...]:
    """Return the ledger's laws and a consumer's own in one list: by the letter of the name, then by its number."""
    letters = dict.fromkeys(law.name[0] for law in (*LEDGER_LAWS, *own))
    order = {letter: place for place, letter in enumerate(letters)}

    def place(law: Law) -> tuple[int, int, str]:
        found = re.fullmatch(r"[A-Z]([0-9]+)([a-z]*)", law.name)
        return (order[law.name[0]], int(found[1]), found[2]) if found else (len(order), 0, "")

    return tuple(sorted((*LEDGER_LAWS, *own), key=place))
