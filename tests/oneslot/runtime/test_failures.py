"""What a log says of an error: where it was raised, and no text that may quote a value."""

from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from oneslot.runtime.attempt import attempt
from oneslot.runtime.effects import Effects, InvalidContent, InvalidEffects, Put, Unprocessable
from oneslot.runtime.failures import name_of, own_text, place_of
from oneslot.runtime.handlers import LockLost
from oneslot.runtime.stores.memory import MemoryLedger
from oneslot.runtime.typed import JsonMessage
from tests.kits.consumer import NHS_NUMBER


def raised(body: Any) -> Exception:
    """Decide a message with this body, and return what is raised."""
    ledger = MemoryLedger()

    def decide(message: JsonMessage) -> Effects:
        number = message.body["number"]
        price = json.loads(message.body["price"])
        return Effects({}, (Put("orders", {"id": "m", "price": price, "number": int(number)}, key="id"),))

    with pytest.raises(Exception) as error:  # noqa: PT011 - the parameters say which
        attempt(ledger, JsonMessage("m", "h", body), decide, ledger.surroundings.now_ms() + 30_000)
    return error.value


FIRST = raised.__code__.co_firstlineno + 5


@pytest.mark.parametrize(
    ("body", "line", "name"),
    [
        ({}, FIRST, "KeyError"),
        ({"number": NHS_NUMBER, "price": "{"}, FIRST + 1, "JSONDecodeError"),  # which json raises, deeper
        ({"number": f"patient {NHS_NUMBER}", "price": "1"}, FIRST + 2, "ValueError"),
    ],
)
def test_place_is_the_line_of_the_decision_when_it_fails_there_or_deeper(body: Any, line: int, name: str) -> None:
    error = raised(body)
    assert (name_of(error), place_of(error), own_text(error)) == (name, f"{__file__}:{line}", None)


def test_place_is_the_call_when_no_line_of_the_consumers_failed() -> None:
    library = {"__name__": "botocore.client"}
    exec("def call(error): raise error", library)  # noqa: S102 - a frame that is a library's
    with pytest.raises(ClientError) as error:
        library["call"](ClientError({"Error": {"Code": "Throttled"}}, "TransactWriteItems"))  # type: ignore[operator]
    of_this_test = error.value.__traceback__
    assert of_this_test is not None
    assert place_of(error.value.with_traceback(of_this_test.tb_next)) == "TransactWriteItems"


class Own(InvalidEffects):
    """A class of the consumer's, whose text is the consumer's."""


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (LockLost("raise it"), "raise it"),
        (LockLost(), None),
        (Own(NHS_NUMBER), None),
        (Unprocessable("bad", NHS_NUMBER), None),
        (InvalidContent("in the dead letter"), None),
        (ValueError(NHS_NUMBER), None),
        (ClientError({"Error": {"Code": "Throttled", "Message": NHS_NUMBER}}, "GetItem"), None),
    ],
)
def test_text_is_withheld_when_it_is_not_oneslots_own(error: Exception, text: str | None) -> None:
    assert own_text(error) == text
    assert place_of(error) is None
