"""When the appointments' own laws say nothing of a subject, over the columns of a whole chunk."""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from appointments.allocation import APPOINTMENTS, SLOTS
from appointments.invariants import PLACE, TIMES
from appointments.statuses import BOOKED, BUSY, FREE, WAITLIST
from oneslot.audit.judge.columns import RESULT, CarriedColumns, Keys, Mask, Plain, lacks, same
from oneslot.laws.form import ROW_PREFIX


def silent(carried: CarriedColumns) -> Mask:
    """Return the subjects of which I1, I3, I4 and I5 say nothing, and whose appointment is not cancelled."""
    clean = np.zeros(len(carried.names), bool)
    slots, appointments = carried.count[SLOTS], carried.count[APPOINTMENTS]
    cases = {(1, 1): _held, (1, 0): _free, (0, 1): _waiting, (0, 0): _refused}
    for (slot, appointment), case in cases.items():
        keys = np.flatnonzero((slots == slot) & (appointments == appointment))
        clean[keys] = case(carried, keys)
    return clean


def _held(carried: CarriedColumns, keys: Keys) -> Mask:
    """Return where a booked appointment and its busy slot name each other; for a request also what was answered."""
    slot, appointment, result = (partial(_of, carried, source, keys) for source in (SLOTS, APPOINTMENTS, RESULT))
    good = same(slot("status"), BUSY) & same(appointment("status"), BOOKED)
    good &= same(slot("appointment_id"), appointment("appointment_id"))
    answered = same(result("outcome"), "booked")
    for name in PLACE:
        good &= same(slot(name), appointment(name))
        answered &= same(result(name), appointment(name))
    return good & (answered | pc.starts_with(carried.named(keys), ROW_PREFIX).to_numpy(zero_copy_only=False))


def _free(carried: CarriedColumns, keys: Keys) -> Mask:
    """Return where a free slot names no appointment and is found as what it is."""
    slot = partial(_of, carried, SLOTS, keys)
    parts = (slot(name) for name in ("delivery_channel", "service_type", *TIMES, "slot_id"))
    good = same(slot("free_key"), pc.binary_join_element_wise(*parts, "#"))
    return good & same(slot("status"), FREE) & lacks(slot("appointment_id"))


def _waiting(carried: CarriedColumns, keys: Keys) -> Mask:
    """Return where the request's own appointment waits at the practice that was answered."""
    appointment, result = (partial(_of, carried, source, keys) for source in (APPOINTMENTS, RESULT))
    good = same(appointment("status"), WAITLIST) & same(appointment("appointment_id"), carried.named(keys))
    good &= same(result("outcome"), "waitlist")
    good &= same(result("practice"), appointment("practice"))
    for name in ("slot_id", *TIMES):
        good &= lacks(appointment(name)) & lacks(result(name))
    return good


def _refused(carried: CarriedColumns, keys: Keys) -> Mask:
    return same(carried.of(RESULT, "outcome", keys), "refused")


def _of(carried: CarriedColumns, source: str, keys: Keys, name: str) -> pa.Array:
    return carried.of(source, name, keys)


PLAIN = Plain(PLACE, silent)
