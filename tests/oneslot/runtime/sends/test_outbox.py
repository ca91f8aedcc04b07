"""A row keeps what a decision sends, in both DynamoDBs; what no target takes is refused before anything is written."""

import json
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, cast

import pytest

from oneslot.runtime.consumer.group_commit import Decided, GroupCommit
from oneslot.runtime.effects import MAXIMUM_SENDS, Effects, InvalidContent, InvalidEffects, Once, Put, Send
from oneslot.runtime.lambda_consumer import ledger_from_environment
from oneslot.runtime.protocol import Committed, Exists
from oneslot.runtime.sends.outbox import Unsent, kind_of, region_of, unsent
from oneslot.runtime.stores.dynamodb import DynamoDBLedger
from oneslot.runtime.stores.memory import MemoryLedger
from oneslot.runtime.values import from_attributes
from tests.kits.consumer import Clock, surroundings
from tests.kits.stores import KEYS, claim, found, in_either

TARGETS = {
    "mails": "https://sqs.eu-west-2.amazonaws.com/123456789012/mails",
    "orders": "https://sqs.eu-west-2.amazonaws.com/123456789012/orders.fifo",
    "lines": "arn:aws:sns:eu-west-2:123456789012:lines.fifo",
    "news": "arn:aws:sns:eu-west-2:123456789012:news",
    "events": "arn:aws:events:eu-west-2:123456789012:event-bus/shop",
}


@pytest.fixture(params=["memory", "moto"])
def ledger(request: pytest.FixtureRequest) -> Iterator[MemoryLedger | DynamoDBLedger]:
    with in_either(request.param, TARGETS) as made:
        yield made


def row(ledger: Any, message_id: str = "m-1") -> dict[str, Any]:
    return found(ledger, "ledger", message_id=message_id) or {}


def test_row_keeps_what_is_sent_and_does_not_expire_when_effects_are_committed(ledger: Any) -> None:
    body = {"to": "c", "price": Decimal("12.50"), "text": "é"}
    effects = Effects({}, [Put("stock", {"sku": "m-1"})], sends=[Send("mails", body), Send("orders", ["a"], group="c")])

    assert ledger.commit(claim(ledger), effects) == Committed({})

    first, second = unsent(row(ledger))
    assert (first.to, json.loads(first.body), first.group) == ("mails", {"to": "c", "price": 12.5, "text": "é"}, "")
    assert second == Unsent(second.id, "orders", '["a"]', "c")
    assert (row(ledger)["unsent"], "expires_at" in row(ledger)) == (2, False)


def ids(*sends: Send, message_id: str = "m-1", table: str = "ledger") -> list[str]:
    """Return the id of each send of a decision."""
    ledger: Any = DynamoDBLedger(
        MemoryLedger().client, table, retention_seconds=None, sends=TARGETS, surroundings=surroundings(Clock())
    )
    recorded, _ = ledger.completed(message_id, Effects({}, sends=sends), 0)
    return [each.id for each in unsent(from_attributes(recorded))]


def test_ids_are_the_same_when_the_message_is_decided_again() -> None:
    first, second = ids(Send("mails", 1), Send("mails", 1))
    assert all(re.fullmatch("[0-9a-f]{32}", each) for each in (first, second))
    assert ids(Send("mails", 1), Send("mails", 1)) == [first, second]
    others = {*ids(Send("mails", 1), message_id="m-2"), *ids(Send("mails", 1), table="another ledger")}
    assert len({first, second, *others}) == 4, "two consumers may share a queue"


def test_id_is_the_same_when_equal_content_has_another_order() -> None:
    """The ledger takes both orders for one request, too."""
    assert ids(Send("mails", {"a": 1, "b": {"c": 2, "d": 3}})) == ids(Send("mails", {"b": {"d": 3, "c": 2}, "a": 1}))


@pytest.mark.parametrize(
    "other", [Send("orders", {"n": 2}, group="a"), Send("orders", {"n": 1}, group="b"), Send("lines", {"n": 1}, "a")]
)
def test_id_is_another_when_the_message_is_decided_again_and_sends_something_else(other: Send) -> None:
    """A receiver that drops repeats by their id must not drop it."""
    assert ids(Send("orders", {"n": 1}, group="a")) != ids(other)


def test_id_follows_the_body_when_the_row_was_forgotten(ledger: Any) -> None:
    sent = []
    for seats in (1, 2, 1):
        ledger.commit(claim(ledger), Effects({}, sends=[Send("mails", {"seats": seats})]))
        sent.extend(unsent(row(ledger)))
        ledger.client.delete_item(TableName="ledger", Key={"message_id": {"S": "m-1"}})

    first, other, again = sent
    assert first.id == again.id != other.id


def test_nothing_is_sent_again_when_once_exists(ledger: Any) -> None:
    effects = Effects({}, sends=[Send("mails", {})], once=Once(Put("stock", {"sku": "a"})))
    ledger.commit(claim(ledger), effects)

    copy = claim(ledger, "a copy")
    assert ledger.commit(copy, effects) == Exists({"sku": "a"})
    ledger.commit(copy, Effects({}))

    assert unsent(row(ledger, "a copy")) == []


def test_group_commit_keeps_what_is_sent_when_it_commits_first(ledger: Any) -> None:
    group: GroupCommit[Any] = GroupCommit(getattr(ledger, "_ledger", ledger), lambda *_: [])
    decided = [Decided(name, "h", Effects({}, sends=[Send("mails", name)])) for name in ("a", "b")]

    assert {*group.commit_first(decided)} == {"a", "b"}

    assert [[each.body for each in unsent(row(ledger, name))] for name in ("a", "b")] == [['"a"'], ['"b"']]
    assert (row(ledger, "a")["unsent"], "expires_at" in row(ledger, "a")) == (1, False)


REFUSED: list[tuple[Send, type[InvalidEffects], str]] = [
    (
        Send("letters", {}),
        InvalidEffects,
        "the target 'letters' is unknown; name it in `sends`, or in ONESLOT_",
    ),
    (Send("orders", {}), InvalidEffects, "a send to 'orders' has no group, and its target is FIFO"),
    (Send("events", {}, group="c"), InvalidEffects, "a send to 'events' has a group, and its target is an event bus"),
    (Send("orders", {}, group="c 1"), InvalidContent, "the group of a send to 'orders' must have 1 to 128 ASCII"),
    (Send("orders", {}, group="c" * 129), InvalidContent, "the group of a send to 'orders' must have 1 to 128 ASCII"),
    *[
        (
            Send(to, {}, group=cast("Any", group)),
            InvalidEffects,
            f"the group of a send to '{to}' is of type int; write str",
        )
        for to, group in (("orders", 7), ("mails", 0))
    ],
    (Send("news", {"a": "\ud800"}), InvalidContent, "the body for 'news' has half a surrogate pair, which is not text"),
    (Send("news", "é" * 130_000), InvalidContent, "the body for 'news' has 260,002 bytes, more than 260,000"),
    (Send("events", ["a"]), InvalidEffects, "the body for 'events' must be a mapping"),
    (Send("news", float("nan")), InvalidEffects, "the body for 'news' cannot be written as JSON"),
]


@pytest.mark.parametrize(("send", "error", "text"), REFUSED)
def test_send_is_refused_before_any_write_when_its_target_cannot_take_it(
    send: Send, error: type[InvalidEffects], text: str
) -> None:
    ledger = MemoryLedger(keys=KEYS, sends=TARGETS)
    mine = claim(ledger)
    before = row(ledger)
    with pytest.raises(InvalidEffects, match=text) as refused:
        ledger.commit(mine, Effects({}, [Put("stock", {"sku": "m-1"})], sends=[send]))
    assert type(refused.value) is error
    assert row(ledger) == before
    assert found(ledger, "stock", sku="m-1") is None


@pytest.mark.parametrize("sends", [1, MAXIMUM_SENDS, MAXIMUM_SENDS + 1])
def test_sends_of_one_commit_are_bounded(sends: int) -> None:
    """A relay sends a whole row within one invocation."""
    ledger = MemoryLedger(sends=TARGETS)
    mine, effects = claim(ledger), Effects({}, sends=[Send("mails", number) for number in range(sends)])
    if sends <= MAXIMUM_SENDS:
        assert ledger.commit(mine, effects) == Committed({})
        return
    with pytest.raises(InvalidContent, match="101 sends, more than 100 with one commit; split the message"):
        ledger.commit(mine, effects)
    assert "sends" not in row(ledger)


@pytest.mark.parametrize(
    "send",
    [
        Send("orders", {}, group="!" * 128),
        Send("mails", {}, group="a fair queue's tenant".replace(" ", "-")),
        Send("news", {}, group="tenant"),
        Send("events", {}),
        Send("news", None),
        Send("news", "é" * 129_999),
    ],
    ids=lambda send: f"{send.to} {send.group[:6]}",
)
def test_send_is_accepted_when_its_target_takes_it(send: Send) -> None:
    ledger = MemoryLedger(sends=TARGETS)
    assert ledger.commit(claim(ledger), Effects({}, sends=[send])) == Committed({})


def test_character_that_sqs_refuses_stays_escaped() -> None:
    ledger = MemoryLedger(sends=TARGETS)
    ledger.commit(claim(ledger), Effects({}, sends=[Send("mails", "\ufffe\uffff\x00é")]))
    (message,) = unsent(row(ledger))
    assert message.body == '"\\ufffe\\uffff\\u0000é"'
    assert json.loads(message.body) == "\ufffe\uffff\x00é"


def test_any_target_is_accepted_when_memory_knows_none() -> None:
    ledger = MemoryLedger()
    ledger.commit(claim(ledger), Effects({}, sends=[Send("anywhere", {}), Send("a line", {}, group="c")]))
    assert [each.to for each in unsent(ledger.rows["m-1"])] == ["anywhere", "a line"]


@pytest.mark.parametrize(
    "target",
    [
        "mails",
        "",
        "arn:aws:sqs:eu-west-2:123456789012:mails",
        "https://example.org/hook",
        "arn:aws:events:eu-west-2:123456789012:rule/shop",
        "arn:aws:sns:eu-west-2:123456789012:news:11111111-2222-3333-4444-555555555555",
    ],
)
def test_target_is_refused_at_the_start_when_it_takes_no_message(target: str) -> None:
    environment = {
        "ONESLOT_LEDGER_TABLE": "ledger",
        "ONESLOT_LEDGER_RETENTION_SECONDS": "forever",
        "ONESLOT_SEND_MAILS": target,
    }
    with pytest.raises(ValueError, match=r"the target 'mails' must be .* or in ONESLOT_SEND_MAILS"):
        ledger_from_environment(environment=environment, client=MemoryLedger().client)


@pytest.mark.parametrize(
    ("target", "kind", "region"),
    [
        ("https://sqs.us-east-1.amazonaws.com/123456789012/mails.fifo", "sqs", "us-east-1"),
        ("https://sqs.us-gov-west-1.amazonaws.com/123456789012/mails", "sqs", "us-gov-west-1"),
        ("https://vpce-0a-1b.sqs.eu-west-2.vpce.amazonaws.com/123456789012/mails", "sqs", "eu-west-2"),
        ("http://localhost:4566/000000000000/mails", "sqs", None),
        ("arn:aws-cn:sns:cn-north-1:123456789012:news", "sns", "cn-north-1"),
        ("arn:aws:events:ap-southeast-2:123456789012:event-bus/a/b.c", "events", "ap-southeast-2"),
    ],
)
def test_target_names_its_kind_and_its_region(target: str, kind: str, region: str | None) -> None:
    assert (kind_of(target), region_of(target)) == (kind, region)


def test_targets_are_read_from_the_environment() -> None:
    environment = {"ONESLOT_LEDGER_TABLE": "l", "ONESLOT_LEDGER_RETENTION_SECONDS": "forever"}
    ledger = ledger_from_environment(
        environment={**environment, "ONESLOT_SEND_MAILS": TARGETS["mails"]}, client=MemoryLedger().client
    )
    assert ledger.sends == {"mails": TARGETS["mails"]}


def test_body_is_absent_when_a_send_is_shown() -> None:
    assert "c" not in repr(Send("mails", {"to": "c"})), "a body is in no log"
