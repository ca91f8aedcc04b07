"""What every ledger refuses before it sends anything: each limit holds to its last byte."""

from collections.abc import Callable
from functools import partial

import pytest
from boto3.dynamodb.conditions import Attr

from oneslot.runtime.effects import Check, Effects, InvalidContent, InvalidEffects, Put, Update, Write
from oneslot.runtime.stores.limits import require_retention
from oneslot.runtime.stores.transaction import compiled

compiled_for_ever = partial(compiled, for_ever=True)
TABLE, KEY = "things", "id"
ITEM = 409_600
TRANSACTION = 4 * 1_048_576


def item(size: int, name: str = "a") -> Put:
    """An item of this many bytes: two names, the key's value, and a text."""
    return Put(TABLE, {KEY: name, "text": "x" * (size - len(f"{KEY}{name}text"))}, key=KEY)


def keyed(partition: int, sort: int) -> Update:
    """An update whose key has parts of these many bytes."""
    return Update(TABLE, {"partition": "é" * (partition // 2), "sort": "k" * sort}, {"a": 1}, {"b": 1})


def changing(named: int) -> Update:
    """An update of 101 attributes that removes `named` others. With 399 its expression has 4,096 characters."""
    sets = {f"set-{number}": number for number in range(101)}
    return Update(TABLE, {KEY: "a"}, {"a": 1}, sets, tuple(f"removed-{number}" for number in range(named)))


def updated(size: int) -> Update:
    """An update that leaves this many bytes: key, name and text."""
    return Update(TABLE, {KEY: "a"}, {"b": 1}, {"text": "x" * (size - len(KEY) - 1 - len("text"))})


def appended(size: int) -> Update:
    """An update that appends so much text to a list: a list takes three bytes, and one for each element."""
    text = "x" * (size - len(KEY) - 1 - len("list") - 4)
    return Update(TABLE, {KEY: "a"}, Attr("list").not_exists(), append={"list": [text]})


def added(size: int) -> Update:
    """An update that adds so much text to a set."""
    return Update(TABLE, {KEY: "a"}, {"b": 1}, add={"names": {"x" * (size - len(KEY) - 1 - len("names"))}})


@pytest.mark.parametrize(
    ("fits", "exceeds", "text"),
    [
        (appended(ITEM), appended(ITEM + 1), "an item for 'things' has 409,601 bytes, more than 400 KB"),
        (added(ITEM), added(ITEM + 1), "an item for 'things' has 409,601 bytes, more than 400 KB"),
        (updated(ITEM), updated(ITEM + 1), "an item for 'things' has 409,601 bytes, more than 400 KB"),
        (item(ITEM), item(ITEM + 1), "an item for 'things' has 409,601 bytes, more than 400 KB"),
        (keyed(2_048, 9), keyed(2_050, 9), "the key 'partition' .* has more than 2,048 bytes"),
        (keyed(2_048, 1_024), keyed(2_048, 1_025), "the key 'sort' .* has more than 1,024 bytes"),
        (changing(399), changing(400), "changes and expects more attributes than DynamoDB's expression of 4 KB names"),
    ],
)
def test_write_is_refused_when_it_exceeds_a_limit_by_a_byte(fits: Write, exceeds: Write, text: str) -> None:
    assert compiled_for_ever(Effects({}, (fits,))).recorded == {"result": "{}"}
    with pytest.raises(InvalidContent, match=text):
        compiled_for_ever(Effects({}, (exceeds,)))


TEN = tuple(item(ITEM, name) for name in "abcdefghij")
REST = TRANSACTION - 10 * ITEM - len("{}")


@pytest.mark.parametrize(
    ("last", "rest"),
    [
        (lambda size: item(size, "k"), REST),
        (lambda size: Check(TABLE, {KEY: "k"}, {"text": "x" * size}), REST - len(KEY) - 1 - len("text")),
    ],
    ids=["by what they write", "by what they expect"],
)
def test_writes_are_refused_when_they_exceed_a_transaction_by_a_byte(last: Callable[[int], Write], rest: int) -> None:
    assert compiled_for_ever(Effects({}, (*TEN, last(rest)))).recorded == {"result": "{}"}
    with pytest.raises(InvalidContent, match="the writes have 4,194,305 bytes, more than 4 MB in one transaction"):
        compiled_for_ever(Effects({}, (*TEN, last(rest + 1))))


def test_write_is_refused_when_it_could_repeat_and_the_message_has_no_id() -> None:
    with pytest.raises(InvalidEffects, match="would repeat it"):
        compiled(Effects({}, (item(100), Update(TABLE, {KEY: "b"}, set={"a": 1}))))


def test_write_is_refused_when_its_table_has_no_name() -> None:
    effects = Effects({}, (item(100),))
    assert compiled(effects, {TABLE: "real"}).recorded == {"result": "{}"}
    with pytest.raises(InvalidEffects, match="there is no table 'things'; name it in `tables`"):
        compiled(effects, {"others": "real"})


LONGEST = 100 * 366 * 86_400


@pytest.mark.parametrize("seconds", [None, 1, LONGEST])
def test_retention_is_taken_when_it_is_none_or_at_a_limit(seconds: int | None) -> None:
    require_retention(seconds)


@pytest.mark.parametrize("seconds", [0, -1, 0.9, LONGEST + 1, float("inf"), float("nan")])
def test_retention_is_refused_when_it_is_beyond_a_limit(seconds: float) -> None:
    with pytest.raises(ValueError, match=f"from 1 second to 100 years, not {seconds}; None keeps rows for ever"):
        require_retention(seconds)
