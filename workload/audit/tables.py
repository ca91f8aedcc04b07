"""The appointments' own operations tables.

Columns are named as in the NHS publication "Appointments in General Practice" where it has them.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from oneslot.pipeline.columns import packed
from oneslot.pipeline.judge.operations import (
    DAY_MS,
    DEMAND_COUNTS,
    LATENCY,
    Summary,
    Table,
    date_of,
    days,
    demand_columns,
    share,
    totals,
    when_verdict,
    words,
)
from oneslot.pipeline.vocabulary import Verdict
from workload.audit.vocabulary import ANSWERS, AppointmentStatus, Channel, Outcome, SlotStatus

BOOKED_AHEAD = {"2 to 7 Days": 7, "8 to 14 Days": 14, "15 to 21 Days": 21, "22 to 28 Days": 28}
"""The publication's words for the days between booking and appointment, with the last day of each."""
COUNTED = (*DEMAND_COUNTS, "COUNT_OF_DID_NOT_FIT", "BOOKED", "WAITLIST")
SLOT_COUNTS = ("COUNT_OF_SLOTS", "COUNT_OF_BUSY_SLOTS")


def _demand() -> tuple[Column, dict[str, Column]]:
    requests, columns = demand_columns()
    return requests, columns | {
        "GP_CODE": F.col("practice"),
        # The decision at the time. WAITLIST counts those that wait today.
        "COUNT_OF_DID_NOT_FIT": F.when(F.col("ledger_outcome") == int(Outcome.WAITLIST), 1).otherwise(0),
        **{word.upper(): when_verdict(word) for word in ANSWERS},
    }


def _appointments() -> tuple[Column, dict[str, Column]]:
    status = F.col("appointment_status")
    days = F.floor(F.col("appointment_start") / DAY_MS) - F.floor(F.col("appointment_created") / DAY_MS)
    made = (F.col("appointment_rows") > 0) & status.isin(
        int(AppointmentStatus.BOOKED), int(AppointmentStatus.WAITLIST), int(AppointmentStatus.CANCELLED)
    )
    held = F.col("appointment_start") > 0
    return made, {
        "APPOINTMENT_DATE": F.when(held, date_of(F.col("appointment_start"))).otherwise(""),
        "GP_CODE": F.col("practice"),
        "APPT_STATUS": words(status, {state.name.capitalize(): state for state in list(AppointmentStatus)[:3]}),
        "APPT_MODE": words(
            F.col("appointment_channel"),
            {"Face-to-Face": Channel.IN_PERSON, "Telephone": Channel.TELEPHONE, "Video": Channel.VIDEO},
            "Unknown",
        ),
        "TIME_BETWEEN_BOOK_AND_APPT": booked_ahead(days, held),
        "COUNT_OF_APPOINTMENTS": F.lit(1),
    }


def booked_ahead(days: Column, held: Column) -> Column:
    """Return the publication's words for a number of whole days; empty where no slot was held."""
    chosen = F.when(~held, "").when(days <= 0, "Same Day").when(days == 1, "1 Day")
    for word, last in BOOKED_AHEAD.items():
        chosen = chosen.when(days <= last, word)
    return chosen.otherwise("More than 28 Days")


def _utilisation() -> tuple[Column, dict[str, Column]]:
    return (F.col("subject") == "slot") & (F.col("slot_rows") > 0), {
        "SLOT_DATE": F.col("slot_date").cast("string"),
        "GP_CODE": packed(F.split_part(F.col("key"), F.lit("#"), F.lit(2))),
        "COUNT_OF_SLOTS": F.lit(1),
        "COUNT_OF_BUSY_SLOTS": F.when(F.col("slot_status") == int(SlotStatus.BUSY), 1).otherwise(0),
    }


def practices(tables: Mapping[str, DataFrame]) -> DataFrame:
    """Return for each practice the demand beside its slots."""
    asked = tables["demand"].groupBy("GP_CODE").agg(*(F.sum(name).alias(name) for name in COUNTED))
    slots = ("COUNT_OF_SLOTS", "COUNT_OF_BUSY_SLOTS")
    offered = tables["utilisation"].groupBy("GP_CODE").agg(*(F.sum(name).alias(name) for name in slots))
    both = asked.where(F.col("GP_CODE") != "").unionByName(offered, allowMissingColumns=True)
    joined = both.groupBy("GP_CODE").agg(*(F.sum(name).alias(name) for name in (*COUNTED, *slots))).fillna(0)
    rates = {
        "DUPLICATE_RATE": share("COUNT_OF_DUPLICATES", "COUNT_OF_DELIVERIES"),
        "UTILISATION": share("COUNT_OF_BUSY_SLOTS", "COUNT_OF_SLOTS"),
    }
    return joined.withColumns(rates).select("GP_CODE", *COUNTED, *slots, *rates).orderBy("GP_CODE")


TOTALS = totals(("ledger_rows", "appointment_rows", "slot_rows"))
DEMAND = Table(
    "demand",
    ("DATE", "QUARTER_HOUR", "GP_CODE"),
    (
        *DEMAND_COUNTS,
        "COUNT_OF_DID_NOT_FIT",
        *(word.upper() for word in ANSWERS),
        *(verdict.value.upper() for verdict in Verdict),
    ),
    "DATE",
    _demand,
    codes=("GP_CODE",),
)
APPOINTMENTS = Table(
    "appointments",
    ("APPOINTMENT_DATE", "GP_CODE", "APPT_STATUS", "APPT_MODE", "TIME_BETWEEN_BOOK_AND_APPT"),
    ("COUNT_OF_APPOINTMENTS",),
    None,
    _appointments,
    codes=("GP_CODE",),
)
UTILISATION = Table("utilisation", ("SLOT_DATE", "GP_CODE"), SLOT_COUNTS, None, _utilisation, codes=("GP_CODE",))
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
