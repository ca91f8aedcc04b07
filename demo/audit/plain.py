"""When the appointments' own laws say nothing of a subject, over the columns of a whole chunk."""

from functools import partial

import numpy as np
import pyarrow.compute as pc

from appointments.allocation import APPOINTMENTS, SLOTS
from appointments.invariants import PLACE, TIMES
from appointments.statuses import BOOKED, BUSY, CANCELLED, FREE, WAITLIST
from oneslot.audit.judge.columns import ABOUT, RESULT, CarriedColumns, Keys, Mask, Plain, lacks, same, sure
from oneslot.laws.form import ROW_PREFIX


def silent(carried: CarriedColumns, _: object) -> tuple[Mask, Mask]:
    """Return the subjects of which I1, I3, I4 and I5 say nothing, and those of them whose appointment was cancelled."""
    clean, cancelled = np.zeros((2, len(carried.names)), bool)
    slots, appointments = carried.count[SLOTS], carried.count[APPOINTMENTS]
    cases = {(1, 1): (_held, _free), (1, 0): (_free,), (0, 1): (_waiting, _cancellation), (0, 0): (_refused,)}
    for (slot, appointment), several in cases.items():
        keys = np.flatnonzero((slots == slot) & (appointments == appointment) & (carried.count[ABOUT] == 0))
        for case in several:
            clean[keys] |= case(carried, keys)
    keys = np.flatnonzero((slots == 0) & (appointments == 1))
    cancelled[keys] = _withdrawn(carried, keys)
    return clean | cancelled, cancelled


def _held(carried: CarriedColumns, keys: Keys) -> Mask:
    """Return where a booked appointment and its busy slot name each other; for a request also what was answered."""
    slot, appointment, result = (partial(carried.of, source, keys=keys) for source in (SLOTS, APPOINTMENTS, RESULT))
    good = same(slot("status"), BUSY) & same(appointment("status"), BOOKED)
    good &= same(slot("appointment_id"), appointment("appointment_id"))
    answered = same(result("outcome"), "booked")
    for name in PLACE:
        good &= same(slot(name), appointment(name))
        answered &= same(result(name), appointment(name))
    return good & (answered | pc.starts_with(carried.named(keys), ROW_PREFIX).to_numpy(zero_copy_only=False))


def _free(carried: CarriedColumns, keys: Keys) -> Mask:
    """Return where a free slot names no appointment and is found as what it is. One may have been cancelled there."""
    slot = partial(carried.of, SLOTS, keys=keys)
    parts = (slot(name) for name in ("delivery_channel", "service_type", *TIMES, "slot_id"))
    good = same(slot("free_key"), pc.binary_join_element_wise(*parts, "#"))
    return good & same(slot("status"), FREE) & lacks(slot("appointment_id"))


def _waiting(carried: CarriedColumns, keys: Keys) -> Mask:
    waits = same(carried.of(APPOINTMENTS, "status", keys), WAITLIST)
    return waits & same(carried.of(RESULT, "outcome", keys), "waitlist") & _as_answered(carried, keys)


def _withdrawn(carried: CarriedColumns, keys: Keys) -> Mask:
    """Return where a request's own appointment was cancelled by another request."""
    canceller, outcome = carried.of(APPOINTMENTS, "cancelled_by", keys), carried.of(RESULT, "outcome", keys)
    others = sure(pc.and_(pc.not_equal(canceller, ""), pc.not_equal(canceller, carried.named(keys))))
    others &= same(outcome, "booked") | same(outcome, "waitlist")
    return others & same(carried.of(APPOINTMENTS, "status", keys), CANCELLED) & _as_answered(carried, keys)


def _as_answered(carried: CarriedColumns, keys: Keys) -> Mask:
    """Return where the appointment is the request's own, at the place that was answered, which may be none."""
    appointment, result = (partial(carried.of, source, keys=keys) for source in (APPOINTMENTS, RESULT))
    good = same(appointment("appointment_id"), carried.named(keys))
    for name in PLACE:
        good &= same(appointment(name), result(name)) | (lacks(appointment(name)) & lacks(result(name)))
    return good


def _cancellation(carried: CarriedColumns, keys: Keys) -> Mask:
    """Return where a request cancelled the appointment of its answer. The laws ask of the other request whether it is."""
    # An appointment under another key than its own names that request as its canceller; any other answer has its own id.
    appointment = carried.of(APPOINTMENTS, "appointment_id", keys)
    return same(carried.of(RESULT, "appointment_id", keys), appointment) & ~same(appointment, carried.named(keys))


def _refused(carried: CarriedColumns, keys: Keys) -> Mask:
    return same(carried.of(RESULT, "outcome", keys), "refused")


PLAIN = Plain((*PLACE, "appointment_id"), silent, CANCELLED)
