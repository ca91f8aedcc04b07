"""`oneslot watch` of a stack whose consumer is paused."""

from __future__ import annotations

from tests.kits.moto_stack import MotoStack, document, invoke


def test_watch_says_paused_when_the_mapping_is_off(moto_stack: MotoStack) -> None:
    document(invoke("pause", "--reason", "INC-12", "--yes", "--json"))
    told = invoke("watch", "--timeout", "0.1", "--interval", "0.1")
    watched = document(invoke("watch", "--timeout", "0.1", "--interval", "0.1", "--json"))

    assert told.stderr.startswith("PAUSED; queue 0 waiting")
    assert told.stdout.startswith("PAUSED since ")
    assert (watched["mapping"]["paused"], watched["mapping"]["reason"]) == (True, "INC-12")

    document(invoke("resume", "--yes", "--json"))
    assert "PAUSED" not in invoke("watch", "--timeout", "0.1", "--interval", "0.1").output
