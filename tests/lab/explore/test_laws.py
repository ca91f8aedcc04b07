"""What the defects of `lab.mutants`, which break each law, do not show: the last state, and a scenario's premise."""

from __future__ import annotations

import json

from appointments.allocation import choose
from appointments.messages import BookRequest, parse_message
from lab.explore.laws import OurLaws
from lab.explore.practice import TABLES, free_slots
from lab.explore.scenarios import BOOKING, SAME_WISH
from oneslot.dynamodb_in_memory.contents import Contents
from oneslot.explorer.world import World


def test_final_state_must_be_the_scenarios() -> None:
    world = World.of(Contents({name: {} for name in TABLES}), {}, {})
    assert list(OurLaws().at_last(world, ())) == []
    assert len(list(OurLaws().at_last(world, ("booked",)))) == 1


def test_requests_with_the_same_wish_choose_one_slot() -> None:
    keys = [slot["free_key"] for slot in free_slots(2)]
    requests = [parse_message(message_id, "hash", json.loads(BOOKING.body)) for message_id in SAME_WISH]
    assert len({choose(request, keys) for request in requests if isinstance(request, BookRequest)}) == 1
