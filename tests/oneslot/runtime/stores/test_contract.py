"""One contract for every store: whoever keeps the ledger's rows, the verbs answer and write the same."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, cast

import numpy
import pytest
import redis
from boto3.dynamodb.conditions import Attr

from lab.simulation.systems.valkey import Valkey, ValkeyClient
from oneslot.runtime.effects import (
    Check,
    Delete,
    Effects,
    InvalidContent,
    InvalidEffects,
    Once,
    Put,
    Raw,
    Send,
    Update,
)
from oneslot.runtime.protocol import (
    ANY_CONTENT,
    Busy,
    Claim,
    CommitRefused,
    Committed,
    Conflict,
    Duplicate,
    Exists,
    Fenced,
    Taken,
)
from tests.kits.consumer import Clock
from tests.kits.stores import KEY, RETENTION_SECONDS, TABLE, TARGET, InMemory, InValkey, Kept, in_dynamodb

LEASE = 30_000


@pytest.fixture(params=["memory", "dynamodb", "simulated valkey", pytest.param("valkey", marks=pytest.mark.valkey)])
def kept(request: pytest.FixtureRequest) -> Iterator[Kept]:
    match request.param:
        case "memory":
            yield InMemory()
        case "dynamodb":
            with in_dynamodb() as made:
                yield made
        case "simulated valkey":
            yield InValkey(cast("redis.Redis", ValkeyClient(Valkey(Clock()))))
        case "valkey":
            yield InValkey(request.getfixturevalue("valkey"))


def claim(kept: Kept, message_id: str = "m", payload_hash: str = "h") -> Claim:
    granted = kept.ledger().claim(message_id, payload_hash, kept.clock() + LEASE)
    assert isinstance(granted, Claim)
    return granted


def taken_over(kept: Kept) -> tuple[Claim, Claim]:
    """Two claims of one message, the second made after the first one's lease."""
    first = claim(kept)
    kept.clock.now += LEASE + 1
    return first, claim(kept)


PUT = Put(TABLE, {KEY: "a", "state": "new", "amount": 5}, key=KEY)


def change(expected: object, new: object = "new") -> Update:
    return Update(TABLE, {KEY: "b"}, expect={"state": expected}, set={"state": new}, remove=("mark",))


def test_a_claim_writes_a_row_in_progress(kept: Kept) -> None:
    granted = claim(kept)
    assert granted == Claim("m", granted.claimed_by, 1, kept.clock() + LEASE)
    assert kept.row("m") == {
        "message_id": "m",
        "status": "IN_PROGRESS",
        "consumption_count": 1,
        "updated": kept.clock(),
        "lease_until": kept.clock() + LEASE,
        "claimed_by": granted.claimed_by,
        "payload_hash": "h",
    }


@pytest.mark.parametrize(("lease", "passed"), [(LEASE, 12_000), (LEASE, LEASE), (900_000, 899_999), (86_400_000, 0)])
def test_claimed_message_is_busy_for_the_rest_of_its_lease(kept: Kept, lease: int, passed: int) -> None:
    kept.ledger().claim("m", "h", kept.clock() + lease)
    before = kept.row("m")
    kept.clock.now += passed
    assert kept.ledger().claim("m", "h", kept.clock() + LEASE) == Busy(lease - passed)
    assert kept.row("m") == before


def test_lease_is_taken_over_after_its_end(kept: Kept) -> None:
    first, second = taken_over(kept)
    assert (second.consumption_count, second.claimed_by == first.claimed_by) == (2, False)
    row = kept.row("m")
    assert row is not None
    assert (row["consumption_count"], row["claimed_by"]) == (2, second.claimed_by)


@pytest.mark.parametrize(("complete", "passed"), [(True, LEASE + 1), (False, LEASE + 1), (False, 0)])
def test_another_content_is_a_conflict_and_changes_nothing(kept: Kept, complete: bool, passed: int) -> None:
    """And nothing to wait for: it would be one at the end of the lease, too."""
    first = claim(kept)
    if complete:
        kept.ledger().commit(first, Effects({}))
    kept.clock.now += passed
    before = kept.row("m")
    assert kept.ledger().claim("m", "other", kept.clock() + LEASE) == Conflict()
    assert kept.row("m") == before


def test_row_without_content_answers_every_copy_when_it_is_complete(kept: Kept) -> None:
    """docs/do/send.md puts such a row for what another system has handled."""
    first = claim(kept, payload_hash=ANY_CONTENT)
    assert kept.ledger().claim("m", "h", kept.clock() + LEASE) == Conflict()
    kept.ledger().commit(first, Effects({"outcome": "before"}))
    assert kept.ledger().claim("m", "h", kept.clock() + LEASE) == Duplicate({"outcome": "before"}, 1, first.claimed_by)


def test_a_complete_row_answers_every_claim_with_its_result(kept: Kept) -> None:
    first = claim(kept)
    result = {"text": "é", "list": [1, {"deep": None}], "empty": [], "no": False}
    kept.clock.now += 5_000
    assert kept.ledger().commit(first, Effects(result)) == Committed(result)
    assert kept.row("m") == {
        "message_id": "m",
        "status": "COMPLETE",
        "consumption_count": 1,
        "updated": kept.clock(),
        "claimed_by": first.claimed_by,
        "payload_hash": "h",
        "result": '{"empty":[],"list":[1,{"deep":null}],"no":false,"text":"\\u00e9"}',
    }
    kept.clock.now += 10 * LEASE
    assert kept.ledger().claim("m", "h", kept.clock() + LEASE) == Duplicate(result, 1, first.claimed_by)


def test_a_commit_answers_as_every_duplicate_is_answered(kept: Kept) -> None:
    """JSON has no tuples, and names are text in it: the digests in the delivery log would differ, and so would callers."""
    result = {"seats": (1, 2), "by_row": {9: "nine", 10: "ten"}}
    mine = claim(kept)
    answer = kept.ledger().commit(mine, Effects(result))
    assert answer == Committed({"seats": [1, 2], "by_row": {"9": "nine", "10": "ten"}})
    assert kept.ledger().claim("m", "h", kept.clock() + LEASE) == Duplicate(answer.result, 1, mine.claimed_by)


def test_a_commit_performs_every_write(kept: Kept) -> None:
    kept.keep({KEY: "b", "state": "old", "mark": True})
    effects = Effects({"done": 1}, (change("old"),), once=Once(PUT, dict))
    assert kept.ledger().commit(claim(kept), effects) == Committed({"done": 1})
    assert kept.thing("a") == {KEY: "a", "state": "new", "amount": 5}
    assert kept.thing("b") == {KEY: "b", "state": "new"}


@pytest.mark.parametrize("found", [{KEY: "b", "state": "other"}, {KEY: "b"}, None])
def test_failed_condition_is_taken_and_writes_nothing(kept: Kept, found: dict[str, str] | None) -> None:
    if found:
        kept.keep(found)
    mine = claim(kept)
    before = kept.row("m")
    assert kept.ledger().commit(mine, Effects({}, (PUT, change("old")))) == Taken()
    assert (kept.thing("a"), kept.thing("b"), kept.row("m")) == (None, found, before)
    assert kept.ledger().commit(mine, Effects({"again": True})) == Committed({"again": True})


@pytest.mark.parametrize(("stored", "asked"), [("1", 1), (1, "1"), (True, "true")])
def test_an_expected_value_is_compared_with_its_type(kept: Kept, stored: object, asked: object) -> None:
    kept.keep({KEY: "b", "state": stored})
    mine = claim(kept)
    assert kept.ledger().commit(mine, Effects({}, (change(asked),))) == Taken()
    assert kept.ledger().commit(mine, Effects({}, (change(stored),))) == Committed({})


def test_exists_wins_over_another_failed_condition(kept: Kept) -> None:
    kept.keep({KEY: "a", "state": "first"})
    answer = kept.ledger().commit(claim(kept), Effects({}, (change("old"),), once=Once(PUT, dict)))
    assert answer == Exists({KEY: "a", "state": "first"})


def test_the_same_commit_twice_is_one(kept: Kept) -> None:
    mine = claim(kept)
    effects = Effects({"done": 1}, once=Once(PUT, dict))
    assert kept.ledger().commit(mine, effects) == Committed({"done": 1})
    kept.clock.now += 5
    assert kept.ledger().commit(mine, effects) == Committed({"done": 1})


def test_second_commit_of_a_claim_gets_the_first_result(kept: Kept) -> None:
    """The first one lands late, when its owner has decided again: what is recorded is the answer, not what came last."""
    mine = claim(kept)
    assert kept.ledger().commit(mine, Effects({"decided": "first"}, (PUT,))) == Committed({"decided": "first"})
    before = kept.row("m")
    again = Effects({"decided": "last"}, (Put(TABLE, {KEY: "other"}, key=KEY),))
    assert kept.ledger().commit(mine, again) == Committed({"decided": "first"})
    assert (kept.row("m"), kept.thing("other")) == (before, None)


def test_b_commit_is_fenced_when_another_works_after_the_lease(kept: Kept) -> None:
    first, _ = taken_over(kept)
    before = kept.row("m")
    assert kept.ledger().commit(first, Effects({}, (PUT,))) == Fenced(first)
    assert (kept.row("m"), kept.thing("a")) == (before, None)


def test_b_frozen_past_the_lease_gets_the_winners_answer(kept: Kept) -> None:
    first, second = taken_over(kept)
    kept.ledger().commit(second, Effects({"by": "second"}))
    before = kept.row("m")
    answer = kept.ledger().commit(first, Effects({"by": "first"}, (PUT,)))
    assert answer == Duplicate({"by": "second"}, 2, second.claimed_by)
    assert (kept.row("m"), kept.thing("a")) == (before, None)


def test_b2_release_after_a_takeover_changes_nothing(kept: Kept) -> None:
    first, second = taken_over(kept)
    before = kept.row("m")
    assert not kept.ledger().release(first)
    assert not kept.ledger().extend(first, kept.clock() + 10 * LEASE)
    assert kept.row("m") == before
    kept.ledger().commit(second, Effects({}))
    before = kept.row("m")
    assert not kept.ledger().release(second)
    assert not kept.ledger().extend(second, kept.clock() + 10 * LEASE)
    assert kept.row("m") == before


def test_a_commit_without_a_row_is_fenced(kept: Kept) -> None:
    never = Claim("nobody", "x", 1, kept.clock() + LEASE)
    assert kept.ledger().commit(never, Effects({}, (PUT,))) == Fenced(never)
    assert (kept.row("nobody"), kept.thing("a")) == (None, None)
    assert not kept.ledger().release(never)
    assert kept.row("nobody") is None


def test_an_extended_lease_holds_and_its_commit_counts(kept: Kept) -> None:
    first = claim(kept)
    kept.clock.now += LEASE - 1
    assert kept.ledger().extend(first, kept.clock() + LEASE)
    kept.clock.now += LEASE - 1
    assert kept.ledger().claim("m", "h", kept.clock() + LEASE) == Busy(1)
    assert kept.ledger().commit(first, Effects({})) == Committed({})


def test_an_extension_never_shortens_a_lease(kept: Kept) -> None:
    """One that lands late, or a heartbeat beside a longer one: the claim is held, to the later end."""
    first = claim(kept)
    begun = kept.clock()
    for end in (begun + 5 * LEASE, begun + 5 * LEASE, begun + 5 * LEASE - 1, begun + LEASE, begun + 1):
        assert kept.ledger().extend(first, end)
    kept.clock.now = begun + 5 * LEASE - 1
    assert kept.ledger().claim("m", "h", kept.clock() + LEASE) == Busy(1)
    kept.clock.now += 2
    second = claim(kept)
    assert not kept.ledger().extend(first, begun), "of another's lease it says nothing"
    assert kept.ledger().commit(second, Effects({})) == Committed({})
    assert not kept.ledger().extend(second, begun), "nor of one that is over"


def test_a_late_extension_does_not_undo_a_release(kept: Kept) -> None:
    first = claim(kept)
    kept.ledger().release(first)
    assert not kept.ledger().extend(first, kept.clock() + LEASE)
    assert claim(kept).consumption_count == 2


def test_row_expires_only_with_a_retention(kept: Kept) -> None:
    for for_ever in (False, True):
        ledger = kept.ledger(for_ever=for_ever)
        granted = ledger.claim(f"m-{for_ever}", "h", kept.clock() + LEASE)
        assert isinstance(granted, Claim)
        expires = not for_ever
        assert (kept.lives_for(f"m-{for_ever}") is not None) is expires
        assert ledger.extend(granted, kept.clock() + LEASE)
        assert (kept.lives_for(f"m-{for_ever}") is not None) is expires
        ledger.commit(granted, Effects({}))
        assert (kept.lives_for(f"m-{for_ever}") is not None) is expires


def test_row_in_progress_loses_its_expiry_with_the_retention(kept: Kept) -> None:
    mine = claim(kept)
    kept.ledger(for_ever=True).commit(mine, Effects({}))
    assert kept.lives_for("m") is None


def test_no_row_is_cleaned_away_under_its_lease(kept: Kept) -> None:
    """Another could claim the message then while the first is at work on it, and neither could commit."""
    mine = kept.ledger().claim("m", "h", kept.clock() + 600_000)
    assert isinstance(mine, Claim)
    assert kept.lives_for("m") == 600 + RETENTION_SECONDS
    assert kept.ledger().extend(mine, kept.clock() + 900_000)
    assert kept.lives_for("m") == 900 + RETENTION_SECONDS
    assert kept.ledger().release(mine)
    assert kept.lives_for("m") == RETENTION_SECONDS
    again = kept.ledger().claim("m", "h", kept.clock() - 1)
    assert isinstance(again, Claim)
    assert kept.lives_for("m") == RETENTION_SECONDS
    kept.clock.now += 5_000
    kept.ledger().commit(again, Effects({}))
    assert kept.lives_for("m") == RETENTION_SECONDS


HELD: dict[str, Any] = {
    "text": "é",
    "empty": "",
    "whole": 10**39,
    "price": Decimal("12.50"),
    "tiny": Decimal("1E-130"),
    "digits": Decimal("-1." + "7" * 37),
    "nothing": None,
    "parts": [1, {"deep": [Decimal("0.1"), None, True]}],
}
"""One of each kind of value that every store keeps."""


def test_item_is_found_as_it_was_when_once_meets_it(kept: Kept) -> None:
    item = {KEY: "a", **HELD}
    effects = Effects({"price": Decimal("0.1"), "ratio": 0.5}, once=Once(Put(TABLE, item, key=KEY)))
    committed = kept.ledger().commit(claim(kept), effects)
    assert committed == Committed({"price": Decimal("0.1"), "ratio": 0.5})
    assert [type(each) for each in (committed.result["price"], committed.result["ratio"])] == [Decimal, float]
    assert kept.thing("a") == item
    assert kept.ledger().commit(claim(kept, "another copy"), effects) == Exists(item)


@pytest.mark.parametrize("name", HELD)
def test_condition_holds_when_the_value_is_the_one_that_is_kept(kept: Kept, name: str) -> None:
    kept.ledger(for_ever=True).commit(claim(kept, "first"), Effects({}, (Put(TABLE, {KEY: "b", **HELD}, key=KEY),)))
    expected = Decimal("12.5") if name == "price" else HELD[name]  # the same number, written shorter
    change = Update(TABLE, {KEY: "b"}, expect={name: expected}, set={"seen": True})
    assert kept.ledger(for_ever=True).commit(claim(kept), Effects({}, (change,))) == Committed({})


ROOT = {KEY: "a"}
LONG = "k" * 2_049
MANY = {f"a{number}": number for number in range(300)}


def put(**item: Any) -> Put:
    return Put(TABLE, {**ROOT, **item}, key=KEY)


def update(key: dict[str, Any] = ROOT, remove: tuple[Any, ...] = (), expect: Any = "old", **change: Any) -> Update:
    return Update(TABLE, key, {"state": expect}, change or {"seen": True}, remove)


def nested(levels: int) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for _ in range(levels):
        result = {"deeper": result}
    return result


NO_KEY = "the key 'thing_id' of a write to 'things' must be text, a number or bytes, and not empty"
A_KEY = "a key that is not text but int"
OWN_KEY = "changes its key, or sets and removes one attribute"
LEDGERS = Put("ledger", {"message_id": "another", "status": "COMPLETE"}, key="message_id")
INVALID_WRITES: list[tuple[Any, type[InvalidEffects], str]] = [
    (put(price=1.5), InvalidEffects, r"'price' in 'things' is a float.*Decimal\(str\(value\)\)"),
    (update(expect=1.5), InvalidEffects, "'state' in 'things' is a float"),
    (update(price=1.5), InvalidEffects, "'price' in 'things' is a float"),
    (put(parts=[{"price": 1.5}]), InvalidEffects, r"'parts\[0\]\.price' in 'things' is a float"),
    (put(parts=[{"a": {None: 1}}]), InvalidEffects, r"'parts\[0\].a' in 'things' has a key that is not text"),
    (put(at=datetime(2026, 1, 1, tzinfo=UTC)), InvalidEffects, "'at' in 'things' is a datetime"),
    (put(number=10**39 + 1), InvalidContent, "'number' in 'things' has more than 38 digits"),
    (put(text="é" * 204_800), InvalidContent, "an item for 'things' has 409,6.* bytes, more than 400 KB"),
    (put(**{"": 1}), InvalidContent, "a write to 'things' has an empty key"),
    (put(parts={"": 1}), InvalidContent, "'parts' in 'things' has an empty key, which DynamoDB refuses"),
    (put(parts=[{"deep": {"": "text"}}]), InvalidContent, r"'parts\[0\]\.deep' in 'things' has an empty key"),
    (put(sure=numpy.bool_(True)), InvalidEffects, r"'sure' in 'things' is a numpy\.bool, .* value\.item\(\)"),
    (Update(TABLE, ROOT, {"a": 1}, MANY), InvalidContent, "changes and expects more attributes than"),
    (Update(TABLE, ROOT, MANY, {"a": 1}), InvalidContent, "changes and expects more attributes than"),
    (Put(TABLE, cast("Any", {**ROOT, 7: 1}), key=KEY), InvalidEffects, f"a write to 'things' has {A_KEY}"),
    (update(remove=("",)), InvalidContent, "has an empty key"),
    (update(remove=(7,)), InvalidEffects, A_KEY),
    (put(**{KEY: LONG}), InvalidContent, "the key 'thing_id' of a write to 'things' has more than 2,048"),
    (update(key={KEY: "a", "sort": "b"}), InvalidEffects, "under the key sort and thing_id, and its key is thing_id"),
    (put(**{KEY: ""}), InvalidContent, NO_KEY),
    *(
        (write, InvalidEffects, NO_KEY)
        for key in (True, None, ["a"])
        for write in (put(**{KEY: key}), update(key={KEY: key}))
    ),
    (update(key={}), InvalidEffects, "has no key"),
    (update(thing_id="c"), InvalidEffects, OWN_KEY),
    (update(remove=(KEY,)), InvalidEffects, OWN_KEY),
    (update(mark=True, remove=("mark",)), InvalidEffects, OWN_KEY),
    (LEDGERS, InvalidEffects, "another name"),
    (Update("ledger", {"message_id": "m"}, {"a": 1}, {"status": "COMPLETE"}), InvalidEffects, "another name"),
]
"""A write that no store keeps, and how the error says so."""

INVALID_RESULTS: tuple[Any, ...] = ({"no": {1, 2}}, {"no": float("nan")}, "done", ["done"], {1: "done"}, None)
LARGE = tuple(Put(TABLE, {KEY: str(number), "text": "x" * 400_000}, key=KEY) for number in range(11))
INVALID_EFFECTS: list[tuple[Any, type[InvalidEffects], str]] = [
    *((Effects({}, (PUT, write)), error, text) for write, error, text in INVALID_WRITES),
    (Effects({}, once=Once(put(price=1.5), dict)), InvalidEffects, "'price' in 'things' is a float"),
    *((Effects(result, (PUT,)), InvalidEffects, "the result") for result in INVALID_RESULTS),
    *(
        (Effects({"list": [{"total": Decimal(number)}]}, (PUT,)), InvalidContent, "a number in the result is")
        for number in ("1E+5000", "1.5E+4400", "-1E-5000", "sNaN")  # Python reads no whole number of 4,300 digits back
    ),
    (Effects({"large": "x" * 400_000}, (PUT,)), InvalidContent, "the result"),
    (Effects(nested(100_000)), InvalidEffects, "at most 100 levels deep"),
    (None, InvalidEffects, "the decision returned a NoneType; return Effects"),
    (Effects({}, (PUT, Put(TABLE, {**PUT.item, "amount": 6}, key=KEY))), InvalidContent, "the same item"),
    (Effects({}, LARGE), InvalidContent, "more than 4 MB in one transaction"),
    (
        Effects({}, tuple(Put(TABLE, {KEY: str(n)}, key=KEY) for n in range(100))),
        InvalidContent,
        "100 writes, more than 99",
    ),
    (
        Effects({}, [PUT], sends=[Send(TARGET, {"at": object()})]),
        InvalidEffects,
        "the body for 'mails' cannot be written as JSON",
    ),
    (
        Effects({}, [PUT], sends=[Send(TARGET, {"at": Decimal("1E+5000")})]),
        InvalidContent,
        "a value in the body for 'mails' is",
    ),
    (
        Effects({}, [PUT], sends=[Send(TARGET, "x" * 259_999)]),
        InvalidContent,
        "the body for 'mails' has 260,001 bytes, more than",
    ),
    (
        Effects({"large": "x" * 131_000}, [PUT], sends=[Send(TARGET, "x" * 259_000)]),
        InvalidContent,
        "the result and the sends have 390... bytes, more than 390000",
    ),
]


def test_commit_is_refused_before_any_write_when_its_effects_are_invalid(kept: Kept) -> None:
    mine = claim(kept)
    before = kept.row("m")
    for effects, error, text in INVALID_EFFECTS:
        with pytest.raises(InvalidEffects, match=text) as refused:
            kept.ledger().commit(mine, effects)
        assert type(refused.value) is error
    assert (kept.row("m"), kept.row("another"), kept.thing("a"), kept.thing("0")) == (before, None, None, None)


@pytest.mark.parametrize(
    ("message_id", "digest", "error", "text"),
    [
        *((unfit, "h", ValueError, "must be text and not empty") for unfit in (None, 7, "")),
        ("é" * 1_024 + "k", "h", ValueError, "the message id has more than 2,048 bytes; use a digest"),
        *(("m", unfit, TypeError, "the digest of the message's content must be text") for unfit in (None, 7, b"h")),
    ],
)
def test_claim_is_refused_when_its_id_or_digest_is_invalid(
    kept: Kept, message_id: Any, digest: Any, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        kept.ledger().claim(message_id, digest, kept.clock() + LEASE)
    assert (kept.row("m"), kept.row("7"), kept.row("")) == (None, None, None)


@pytest.mark.parametrize("value", [b"bytes", {"a", "b"}, [{"deep": {1, 2}}]])
def test_bytes_and_sets_are_kept_or_refused_by_name(kept: Kept, value: Any) -> None:
    """Valkey keeps JSON, which has neither."""
    mine, write = claim(kept), put(value=value)
    if isinstance(kept, InValkey):
        with pytest.raises(
            InvalidEffects, match="'value' in 'things' holds bytes or a set, which Valkey does not keep"
        ):
            kept.ledger().commit(mine, Effects({}, (write,)))
        assert kept.thing("a") is None
    else:
        assert kept.ledger().commit(mine, Effects({}, (write,))) == Committed({})
        assert kept.thing("a") == {**ROOT, "value": value}


WORDS: list[tuple[Any, dict[str, Any] | None]] = [
    (Update(TABLE, ROOT, add={"left": -1}), {**ROOT, "left": 2, "state": "old"}),
    (Update(TABLE, ROOT, {"left": 3}, add={"left": -1, "seen": 1}), {**ROOT, "left": 2, "seen": 1, "state": "old"}),
    (Put(TABLE, {**ROOT, "left": 0}, replace=True), {**ROOT, "left": 0}),
    (Put(TABLE, ROOT, replace=True, expect={"left": 3}), ROOT),
    (Delete(TABLE, ROOT), None),
    (Update(TABLE, ROOT, Attr("left").gte(3), add={"left": -1}), {**ROOT, "left": 2, "state": "old"}),
    (Delete(TABLE, ROOT, {"state": "old"}), None),
    (Delete(TABLE, ROOT, Attr("left").gt(2) & Attr("state").eq("old")), None),
    (Put(TABLE, ROOT, replace=True, expect=Attr("left").lt(4) & Attr("left").lte(3)), ROOT),
    (Check(TABLE, ROOT, {"state": "old"}), {**ROOT, "left": 3, "state": "old"}),
    (Update(TABLE, {KEY: "b"}, set={"made": 1}), {**ROOT, "left": 3, "state": "old"}),
]


@pytest.mark.parametrize(("write", "after"), WORDS)
def test_write_is_performed_as_it_says(kept: Kept, write: Any, after: dict[str, Any] | None) -> None:
    kept.keep({**ROOT, "left": 3, "state": "old"})
    mark = Once(Put(TABLE, {KEY: "mark"}))
    assert kept.ledger().commit(claim(kept), Effects({}, [write], once=mark)) == Committed({})
    assert kept.thing("a") == after
    assert kept.thing("b") == (
        {KEY: "b", "made": 1} if write.table and getattr(write, "key", None) == {KEY: "b"} else None
    )


def test_otherwise_is_given_the_item_when_its_condition_fails(kept: Kept) -> None:
    kept.keep({**ROOT, "left": 0})
    found: list[Any] = []

    def tell(item: Any) -> Effects:
        found.append(item)
        return Effects({"outcome": "none"})

    ours = Check(TABLE, ROOT, {"left": 1}, otherwise=tell)
    outcome = kept.ledger().commit(claim(kept), Effects({}, [ours]))
    assert isinstance(outcome, Taken)
    assert outcome.instead is not None
    assert (outcome.instead(), found) == (Effects({"outcome": "none"}), [{**ROOT, "left": 0}])
    both = Effects({}, [ours, Check(TABLE, {KEY: "b"}, {"left": 1})])
    assert kept.ledger().commit(claim(kept, "another"), both) == Taken(), "one that failed has none"


@pytest.mark.parametrize(
    "expected",
    [
        *(Attr("left").gt(3), Attr("left").gte(4), Attr("left").lt(3), Attr("left").lte(2)),
        *(Attr("gone").lt(9), Attr("left").eq("3"), Attr("left").eq(3) & Attr("left").gt(3)),
    ],
)
def test_condition_of_boto3_refuses_the_write_when_it_does_not_hold(kept: Kept, expected: Any) -> None:
    kept.keep({**ROOT, "left": 3, "state": "old"})
    assert kept.ledger(for_ever=True).commit(claim(kept), Effects({}, [Check(TABLE, ROOT, expected)])) == Taken()
    assert (
        kept.ledger(for_ever=True).commit(claim(kept, "another"), Effects({}, [Delete(TABLE, ROOT, expected)]))
        == Taken()
    )
    assert kept.thing("a") == {**ROOT, "left": 3, "state": "old"}


@pytest.mark.parametrize(
    "write",
    [
        Raw({"Delete": {"TableName": TABLE, "Key": {KEY: {"S": "a"}}}}),
        Update(TABLE, ROOT, {"left": 3}, append={"log": [1]}),
        Update(TABLE, ROOT, {"left": 3}, set={("at", "shelf"): 1}),
        Update(TABLE, ROOT, {"left": 3}, add={"left": Decimal("0.5")}),
        *(
            Check(TABLE, ROOT, expected)
            for expected in (
                *(Attr("left").gte(Decimal("0.5")), Attr("left").gte(2**53), Attr("state").gte("a")),
                *(Attr("left").eq(1) | Attr("left").eq(2), ~Attr("left").eq(1), Attr("left").ne(1)),
                *(Attr("left").exists(), Attr("left").between(1, 2), Attr("at.shelf").eq(1), Attr("lines[0]").eq(1)),
                *(Attr("state").size().gt(1), Attr("left").eq(Attr("right")), Attr("left").gt(Attr("right"))),
            )
        ),
    ],
)
def test_valkey_refuses_by_name_what_it_does_not_keep(write: Any) -> None:
    kept = InValkey(cast("redis.Redis", ValkeyClient(Valkey(Clock()))))
    mine = claim(kept)
    with pytest.raises(InvalidEffects, match="'things' is in words that Valkey does not keep"):
        kept.ledger().commit(mine, Effects({}, [write], once=Once(Put(TABLE, {KEY: "mark"}))))
    assert kept.thing("mark") is None


def test_valkey_refuses_a_send_by_name() -> None:
    kept = InValkey(cast("redis.Redis", ValkeyClient(Valkey(Clock()))))
    mine = claim(kept)
    with pytest.raises(InvalidEffects, match="a send to 'mails' follows DynamoDB's stream, which Valkey lacks"):
        kept.ledger().commit(mine, Effects({}, [PUT], sends=[Send(TARGET, {})]))
    assert kept.thing("a") is None


@pytest.mark.parametrize("there", ["text", Decimal("0.5"), 2**53 - 1, 1 - 2**54])
def test_valkey_refuses_a_sum_that_it_cannot_make(there: Any) -> None:
    kept = InValkey(cast("redis.Redis", ValkeyClient(Valkey(Clock()))))
    kept.ledger().commit(claim(kept, "first"), Effects({}, [Put(TABLE, {**ROOT, "left": there})]))
    add = Effects({}, [Update(TABLE, ROOT, add={"left": 1})], once=Once(Put(TABLE, {KEY: "mark"})))
    with pytest.raises(CommitRefused, match="an `add` or a comparison meets no whole number, or one above"):
        kept.ledger().commit(claim(kept), add)
    assert kept.thing("mark") is None


def test_valkey_finds_text_in_no_comparison_with_a_number() -> None:
    """As DynamoDB does; moto raises."""
    kept = InValkey(cast("redis.Redis", ValkeyClient(Valkey(Clock()))))
    kept.keep({**ROOT, "state": "5"})
    assert (
        kept.ledger(for_ever=True).commit(claim(kept), Effects({}, [Delete(TABLE, ROOT, Attr("state").gte(3))]))
        == Taken()
    )


@pytest.mark.parametrize("there", [Decimal("0.5"), 2**53, -(2**53)])
def test_valkey_refuses_a_comparison_that_it_cannot_make(there: Any) -> None:
    kept = InValkey(cast("redis.Redis", ValkeyClient(Valkey(Clock()))))
    kept.ledger(for_ever=True).commit(claim(kept, "first"), Effects({}, [Put(TABLE, {**ROOT, "left": there})]))
    with pytest.raises(CommitRefused, match="an `add` or a comparison meets no whole number, or one above"):
        kept.ledger(for_ever=True).commit(claim(kept), Effects({}, [Delete(TABLE, ROOT, Attr("left").lt(1))]))
    assert kept.thing("a") == {**ROOT, "left": there}
