"""Findings and repair lists: the requests, and other rows, that an operator must look at."""

import json
from collections.abc import Mapping
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from oneslot.audit.files import json_lines, write_text
from oneslot.audit.judged import SubjectKind
from oneslot.audit.read.blocks import hashed
from oneslot.audit.write.tables import write_rows
from oneslot.declaration.declaration import Declaration
from oneslot.laws.form import ROW_PREFIX
from oneslot.laws.request import RequestVerdict

RESEND = "send the request again with the same message_id"
CORRECT = "correct or delete its row, which rejects.jsonl locates"
WITHHELD = "withheld-"
COLUMNS = dict.fromkeys(("subject", "id", "verdict", "invariant", "detail"), "string")
RESENT = (RequestVerdict.LOST, RequestVerdict.STUCK)


def shown_id(declaration: Declaration, key: str, subject: str = SubjectKind.REQUEST) -> str:
    """Return a key for display: without its prefix, and as a hash if it holds what the consumer declares as private."""
    prefixed = key.startswith(ROW_PREFIX) or subject in (SubjectKind.FILE, SubjectKind.UNIDENTIFIED)
    shown = key[1:] if prefixed else key
    if not declaration.is_private(shown):
        return shown
    (number,) = hashed(pa.array([key], pa.string())).view(np.uint64)
    return f"{WITHHELD}{int(number):016x}"


def write_findings(
    wrong: pa.Table, folder: str, declaration: Declaration, *, dead_letters_known: bool
) -> list[dict[str, Any]]:
    """Write the findings and the repair lists of the subjects that are wrong. Return the findings.

    If the dead-letter queue was not listed, a lost or stuck message may be in it, and may be redriven from there.
    """
    findings, redrive, look = [], [], []
    for row in chain.from_iterable(batch.to_pylist() for batch in wrong.to_batches(10_000)):
        shown = {
            "subject": row["subject"],
            "id": shown_id(declaration, row["key"], row["subject"]),
            "verdict": row["verdict"],
        }
        details = json.loads(row["details"])
        for name in row["violations"].split():
            detail = WITHHELD.rstrip("-") if declaration.is_private(details[name]) else details[name]
            findings.append({**shown, "invariant": name, "detail": detail})
        resend = row["verdict"] in RESENT
        perhaps_there = resend and not dead_letters_known
        # A withheld id finds no message.
        if (perhaps_there or _exhausted(row)) and not shown["id"].startswith(WITHHELD):
            redrive.append({"message_id": shown["id"], "verdict": row["verdict"], "action": "redrive"})
        if resend or row["violations"] or row["verdict"] == RequestVerdict.UNREADABLE:
            action = f"redrive it from the dead-letter queue; if it is not there, {RESEND}" if perhaps_there else RESEND
            if not resend:
                action = CORRECT if row["verdict"] == RequestVerdict.UNREADABLE else "compare the rows"
            look.append({**shown, "violations": row["violations"], "action": action})
    findings.sort(key=lambda row: (row["invariant"], row["subject"], row["id"]))
    write_rows(f"{folder}/findings", findings, COLUMNS)
    redrive.sort(key=lambda row: row["message_id"])
    write_text(f"{folder}/repair/redrive.jsonl", json_lines(redrive, sort=False))
    look.sort(key=lambda row: (row["subject"], row["id"]))
    write_text(f"{folder}/repair/look-at.jsonl", json_lines(look, sort=False))
    return findings


def _exhausted(row: Mapping[str, Any]) -> bool:
    """Return whether a quarantined message ran out of receives, and so may succeed now.

    One that the consumer quarantined cannot succeed unchanged, unless it was redriven after its quarantine: its row is newer.
    """
    at = row["quarantined_at"]
    again = at is None or at < (row["ledger_resting_since"] or 0)
    return bool(row["verdict"] == RequestVerdict.QUARANTINED and row["dead_letters"] and again)
