"""The appointments' own operations tables.

Columns are named as in the NHS publication "Appointments in General Practice" where it has them.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oneslot.audit.judged import Subjects
from oneslot.audit.operations import (
    DAY_MS,
    DEMAND_COUNTS,
    LATENCY,
    Columns,
    OperationsTable,
    Summary,
    date_of,
    days,
    demand,
    share,
    totals,
)
from oneslot.audit.write.tables import WrittenTable

BOOKED_AHEAD = {1: "1 Day", 7: "2 to 7 Days", 14: "8 to 14 Days", 21: "15 to 21 Days", 28: "22 to 28 Days"}
"""The publication's words for the days between booking and appointment, by the last day of each."""
MODES = {"In-person": "Face-to-Face", "Telephone": "Telephone", "Video": "Video"}
ANSWERS = ("booked", "waitlist", "cancelled", "refused")
COUNTED = (*DEMAND_COUNTS, "COUNT_OF_DID_NOT_FIT", "BOOKED", "WAITLIST")
SLOT_COUNTS = ("COUNT_OF_SLOTS", "COUNT_OF_BUSY_SLOTS")
READ = {
    "appointments": ("practice", "status", "delivery_channel", "start", "created"),
    "slots": ("practice", "status", "start"),
}
"""The attributes that the tables read of a subject's own rows."""


def _appointments(subjects: Subjects) -> Columns:
    there = pc.not_equal(subjects["appointments.practice"], "")  # null for a cancellation that came before its booking
    made = subjects.where(pc.fill_null(there, False).to_numpy(zero_copy_only=False))
    starts = pa.array([*map(_epoch_ms, made["appointments.start"].to_pylist())], pa.int64())
    known, at = pc.is_valid(starts), pc.fill_null(starts, 0).to_numpy()
    ahead = at // DAY_MS - made.figure("appointments.created") // DAY_MS
    words = pa.array(["Same Day", *BOOKED_AHEAD.values(), "More than 28 Days"])
    band = words.take(pa.array(np.searchsorted([0, *BOOKED_AHEAD], ahead)))
    mode = pa.array([*MODES.values()]).take(pc.index_in(made["appointments.delivery_channel"], pa.array([*MODES])))
    return {
        "APPOINTMENT_DATE": pc.if_else(known, date_of(at), ""),
        "GP_CODE": made["appointments.practice"],
        "APPT_STATUS": pc.utf8_capitalize(made["appointments.status"]),
        "APPT_MODE": pc.fill_null(mode, "Unknown"),
        "TIME_BETWEEN_BOOK_AND_APPT": pc.if_else(known, band, ""),
        "COUNT_OF_APPOINTMENTS": np.ones(len(made), np.int64),
    }


@lru_cache(1 << 16)
def _epoch_ms(moment: str | None) -> int | None:
    """Return an ISO 8601 time in epoch ms. Appointments begin at few different times."""
    if moment is None:
        return None
    read = datetime.fromisoformat(moment)
    return round((read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp() * 1000)


def _slots(subjects: Subjects) -> Columns:
    found = subjects.where_given("slots.start")
    return {
        "SLOT_DATE": pc.replace_substring(pc.utf8_slice_codeunits(found["slots.start"], 0, 10), "-", ""),
        "GP_CODE": found["slots.practice"],
        "COUNT_OF_SLOTS": np.ones(len(found), np.int64),
        "COUNT_OF_BUSY_SLOTS": found.among("slots.status", ("busy",)),
    }


def practices(tables: Mapping[str, WrittenTable]) -> list[dict[str, Any]]:
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
    {"GP_CODE": lambda subjects: pc.fill_null(subjects["appointments.practice"], "")},
    {
        # No slot was free when it was asked; verdicts number the answers from 1. WAITLIST counts those that wait today.
        "COUNT_OF_DID_NOT_FIT": lambda subjects: subjects.figure("ledger_outcome") == 1 + ANSWERS.index("waitlist"),
        **{word.upper(): partial(Subjects.among, name="verdict", words=(word,)) for word in ANSWERS},
    },
)
APPOINTMENTS = OperationsTable(
    "appointments",
    ("APPOINTMENT_DATE", "GP_CODE", "APPT_STATUS", "APPT_MODE", "TIME_BETWEEN_BOOK_AND_APPT"),
    ("COUNT_OF_APPOINTMENTS",),
    None,
    _appointments,
)
UTILISATION = OperationsTable("utilisation", ("SLOT_DATE", "GP_CODE"), SLOT_COUNTS, None, _slots)
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
