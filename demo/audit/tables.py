"""The appointments' own operations tables.

Columns are named as in the NHS publication "Appointments in General Practice" where it has them.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any

from oneslot.audit.judged import Judged
from oneslot.audit.operations import (
    DAY_MS,
    DEMAND_COUNTS,
    LATENCY,
    Cell,
    OperationsTable,
    Summary,
    date_of,
    days,
    demand,
    share,
    totals,
)
from oneslot.audit.vocabulary import SubjectKind
from oneslot.audit.write.rows import Rows

BOOKED_AHEAD = {1: "1 Day", 7: "2 to 7 Days", 14: "8 to 14 Days", 21: "15 to 21 Days", 28: "22 to 28 Days"}
"""The publication's words for the days between booking and appointment, by the last day of each."""
MODES = {"In-person": "Face-to-Face", "Telephone": "Telephone", "Video": "Video"}
ANSWERS = ("booked", "waitlist", "cancelled", "refused")
COUNTED = (*DEMAND_COUNTS, "COUNT_OF_DID_NOT_FIT", "BOOKED", "WAITLIST")
SLOT_COUNTS = ("COUNT_OF_SLOTS", "COUNT_OF_BUSY_SLOTS")


def _practice(judged: Judged) -> str:
    return str(judged.rows.get("appointments", {}).get("practice", ""))


def _did_not_fit(judged: Judged) -> int:
    """Return 1 where no slot was free at the time. WAITLIST counts those that wait today."""
    return int(judged.recorded == "waitlist")


def _has_verdict(judged: Judged, verdict: str) -> int:
    return int(judged.verdict == verdict)


def _appointment(judged: Judged) -> Cell | None:
    row = judged.rows.get("appointments", {})
    if not row.get("practice"):  # a cancellation that came before its booking
        return None
    starts = _epoch_ms(row.get("start", ""))
    mode = MODES.get(row.get("delivery_channel", ""), "Unknown")
    place = (_practice(judged), row["status"].capitalize(), mode)
    if starts is None:
        return ("", *place, ""), (1,)
    return (date_of(starts), *place, booked_ahead(starts // DAY_MS - row["created"] // DAY_MS)), (1,)


def _epoch_ms(moment: str) -> int | None:
    try:
        read = datetime.fromisoformat(moment)
    except ValueError:
        return None
    return round((read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp() * 1000)


def booked_ahead(days: int) -> str:
    """Return the publication's words for a number of whole days."""
    if days <= 0:
        return "Same Day"
    return next((word for last, word in BOOKED_AHEAD.items() if days <= last), "More than 28 Days")


def _slot(judged: Judged) -> Cell | None:
    slot = judged.rows.get("slots")
    if slot is None or judged.subject == SubjectKind.GONE:
        return None
    return (slot["start"][:10].replace("-", ""), slot["practice"]), (1, int(slot["status"] == "busy"))


def practices(tables: Mapping[str, Rows]) -> list[dict[str, Any]]:
    """Return for each practice the demand beside its slots."""
    asked = [row for row in tables["demand"].sums(("GP_CODE",), COUNTED) if row["GP_CODE"]]
    found: dict[str, dict[str, Any]] = {}
    for row in (*asked, *tables["utilisation"].sums(("GP_CODE",), SLOT_COUNTS)):
        found.setdefault(row["GP_CODE"], dict.fromkeys((*COUNTED, *SLOT_COUNTS), 0)).update(row)
    for row in found.values():
        row["DUPLICATE_RATE"] = share(row["COUNT_OF_DUPLICATES"], row["COUNT_OF_DELIVERIES"])
        row["UTILISATION"] = share(row["COUNT_OF_BUSY_SLOTS"], row["COUNT_OF_SLOTS"])
    return [found[code] for code in sorted(found)]


TOTALS = totals(("ledger_rows", "appointment_rows", "slot_rows"))
DEMAND = demand(
    {"GP_CODE": _practice},
    {
        "COUNT_OF_DID_NOT_FIT": _did_not_fit,
        **{word.upper(): partial(_has_verdict, verdict=word) for word in ANSWERS},
    },
)
APPOINTMENTS = OperationsTable(
    "appointments",
    ("APPOINTMENT_DATE", "GP_CODE", "APPT_STATUS", "APPT_MODE", "TIME_BETWEEN_BOOK_AND_APPT"),
    ("COUNT_OF_APPOINTMENTS",),
    None,
    _appointment,
)
UTILISATION = OperationsTable("utilisation", ("SLOT_DATE", "GP_CODE"), SLOT_COUNTS, None, _slot)
TABLES = (TOTALS, DEMAND, LATENCY, APPOINTMENTS, UTILISATION)
PRACTICES = Summary(
    "practices",
    {
        "GP_CODE": "string",
        **dict.fromkeys((*COUNTED, *SLOT_COUNTS), "bigint"),
        **dict.fromkeys(("DUPLICATE_RATE", "UTILISATION"), "double"),
    },
    practices,
)
SUMMARIES = (days(COUNTED), PRACTICES)
