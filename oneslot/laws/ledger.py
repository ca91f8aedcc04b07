"""The ledger's own laws: one list for every consumer, and for the explorer, the simulation, the local check and the audit.

Each is a function of one request, except for I8, of which no history shows a breach. A consumer's own laws join this list by
their names.
"""

import re
from collections.abc import Sequence

from oneslot.laws.evidence import Law
from oneslot.laws.request import Request
from oneslot.laws.schema import text_of

SENT_WITHIN_MS = 3_600_000
"""For so long a relay retries. What it sets aside then waits for a person."""


def _nothing_lost(request: Request) -> str | None:
    if not request.complete and (request.lost or request.left_begun) and not request.forgotten:
        return "accepted by the queue, and now nowhere: no result, not waiting, not quarantined"
    return None


def _done_means_complete(request: Request) -> str | None:
    for table, key, _, effect in request.made:
        if not (request.complete and effect.request) and not request.excused:
            return f"{effect.deed} the row {text_of(key)} of {table.name}, and has no COMPLETE row"
    return None


def _complete_stays(request: Request) -> str | None:
    if not request.complete and request.done and not request.excused:
        return "a delivery completed it, and its row no longer says so"
    return None


def _same_answer(request: Request) -> str | None:
    if not request.lines:
        return None
    answers = {line["answer"] for line in request.lines if line.get("answer")}
    if len(answers) > 1 and not request.answered_again:
        return f"its deliveries were given {len(answers)} different answers"
    kept = request.kept
    if kept is None or request.answered <= {kept} or request.renewed:
        return None
    return f"answered {', '.join(sorted(request.answered))}, and its row keeps {kept} for duplicates"


def _nothing_stuck(request: Request) -> str | None:
    return "IN_PROGRESS, its lease long over, and nothing in a queue will wake it" if request.stuck else None


def _claims_counted(request: Request) -> str | None:
    if request.row is None:
        return None
    count = request.row["consumption_count"]
    if count >= max(1, request.counted, len(request.lines)):
        return None
    claims = {line["claimed_by"] for line in request.lines if line.get("claimed_by")}
    # A request that comes again after its row expired gets a new row, whose count starts at 1.
    if count >= (1 if request.renewed else max(1, request.counted, len(claims))):
        return None
    return f"consumption_count {count}, below the claims that were granted"


def _quarantined_means_not_done(request: Request) -> str | None:
    if not request.complete and (request.dead or request.dropped) and request.own and not request.excused:
        return "in the dead-letter queue with an effect, and its row is not COMPLETE"
    return None


def _exactly_its_rows(request: Request) -> str | None:
    for table in request.evidence.schema.effect_tables:
        if table.rows is None:
            continue
        count = request.rows_of(table)
        if count > table.rows:
            return f"{count} rows of {table.name} name it, and one effect has {table.rows}"
        due = table.rows if request.kept in table.outcomes else 0
        if table.outcomes and request.kept is not None and count != due:
            return f"COMPLETE with outcome {request.kept}, and {count} of {due} rows of {table.name} name it"
    return None


def _sends_follow(request: Request) -> str | None:
    row = request.row or {}
    if row.get("unsent") and row.get("updated", 0) + SENT_WITHIN_MS < request.evidence.now:
        return f"committed over an hour ago, and {row['unsent']} of its messages are not marked as sent"
    return None


EFFECT_ROWS = Law(
    "I12",
    "A request has its effect's rows exactly once, and none without the outcome.",
    of_request=_exactly_its_rows,
)
"""Only for a consumer that declares how many rows an effect has."""

LEDGER_LAWS = (
    Law("I2", "An acknowledged request has a recorded answer.", of_request=_nothing_lost),
    Law("I5r", "An effect's request has a COMPLETE row.", of_request=_done_means_complete),
    Law("I6", "COMPLETE never reverts and never disappears.", of_request=_complete_stays),
    Law("I7", "Duplicates get the original's answer.", of_request=_same_answer),
    Law("I8", "Nothing is acknowledged after an exception."),
    Law("I9", "Once faults stop, redelivery brings every request to its end.", of_request=_nothing_stuck),
    Law("I10", "consumption_count counts every claim that was granted.", of_request=_claims_counted),
    Law(
        "I11",
        "A message in the dead-letter queue took no effect, or is COMPLETE.",
        of_request=_quarantined_means_not_done,
    ),
    Law("I13", "The messages that follow a commit are sent.", of_request=_sends_follow),
)


def join_laws(own: Sequence[Law]) -> tuple[Law, ...]:
    """Return the ledger's laws and a consumer's own in one list: by the letter of the name, then by its number."""
    letters = dict.fromkeys(law.name[0] for law in (*LEDGER_LAWS, *own))
    order = {letter: place for place, letter in enumerate(letters)}

    def place(law: Law) -> tuple[int, int, str]:
        found = re.fullmatch(r"[A-Z]([0-9]+)([a-z]*)", law.name)
        return (order[law.name[0]], int(found[1]), found[2]) if found else (len(order), 0, "")

    return tuple(sorted((*LEDGER_LAWS, *own), key=place))
