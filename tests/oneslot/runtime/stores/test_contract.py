"""One contract for every store: whoever keeps the ledger's rows, the verbs answer and write the same."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, cast

import numpy
import pytest
import redis
from boto3.dynamodb.conditions import Attr

from lab.simulation.systems.valkey import Valkey, ValkeyClient
from oneslot.runtime.effects import Check, Delete, Effects, InvalidContent, InvalidEffects, Once, Put, Raw, Send, Update
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


def in_simulated_valkey() -> InValkey:
    return InValkey(cast("redis.Redis", ValkeyClient(Valkey(Clock()))))


@pytest.fixture(params=["memory", "dynamodb", "simulated valkey", pytest.param("valkey", marks=pytest.mark.valkey)])
def kept(request: pytest.FixtureRequest) -> Iterator[Kept]:
    match request.param:
        case "memory":
            yield InMemory()
        case "dynamodb":
            with in_dynamodb() as made:
                yield made
        case "simulated valkey":
            yield in_simulated_valkey()
        case "valkey":
            yield InValkey(request.getfixturevalue("valkey"))


PUT = Put(TABLE, {KEY: "a", "state": "new", "amount": 5}, key=KEY)
ANOTHER = Put(TABLE, {KEY: "another"}, key=KEY)


def claim(kept: Kept, message_id: str = "m", payload_hash: str = "h") -> Claim:
    granted = kept.ledger().claim(message_id, payload_hash, kept.clock() + LEASE)
    assert isinstance(granted, Claim)
    return granted


def change(expected: object, new: object = "new") -> Update:
    return Update(TABLE, {KEY: "b"}, expect={"state": expected}, set={"state": new}, remove=("mark",))


@dataclass
class Story:
    """What happens to a message: what happened before a step, and the step of the first owner or of a copy."""

    kept: Kept
    claims: list[Claim] = field(default_factory=list)

    @property
    def first(self) -> Claim:
        return self.claims[0] if self.claims else Claim("m", "nobody's", 1, self.kept.clock() + LEASE)

    def nothing(self) -> None:
        """No row."""

    def claimed(self) -> None:
        self.claims.append(claim(self.kept))

    def lease_over(self) -> None:
        self.claimed()
        self.kept.clock.now += LEASE + 1

    def taken_over(self) -> None:
        self.lease_over()
        self.claimed()

    def released(self) -> None:
        self.claimed()
        assert self.kept.ledger().release(self.first)

    def complete(self) -> None:
        self.claimed()
        self.kept.ledger().commit(self.first, Effects({"by": "first"}, (PUT,)))

    def complete_by_another(self) -> None:
        self.taken_over()
        self.kept.ledger().commit(self.claims[1], Effects({"by": "second"}, (PUT,)))

    def claim_again(self) -> object:
        answer = self.kept.ledger().claim("m", "h", self.kept.clock() + LEASE)
        return ("claimed", answer.consumption_count) if isinstance(answer, Claim) else answer

    def claim_with_another_content(self) -> object:
        return self.kept.ledger().claim("m", "other", self.kept.clock() + LEASE)

    def commit(self) -> object:
        return self.kept.ledger().commit(self.first, Effects({"by": "late"}, (ANOTHER,)))

    def release(self) -> bool:
        return self.kept.ledger().release(self.first)

    def extend(self) -> bool:
        return self.kept.ledger().extend(self.first, self.kept.clock() + 10 * LEASE)


def fenced(story: Story) -> Fenced:
    return Fenced(story.first)


def first_answer(story: Story) -> Duplicate:
    return Duplicate({"by": "first"}, 1, story.first.claimed_by)


def second_answer(story: Story) -> Duplicate:
    return Duplicate({"by": "second"}, 2, story.claims[1].claimed_by)


LATE = Committed({"by": "late"})
STEPS: list[tuple[str, str, object]] = [
    ("nothing", "claim_again", ("claimed", 1)),
    ("claimed", "claim_again", Busy(LEASE)),
    ("lease_over", "claim_again", ("claimed", 2)),
    ("taken_over", "claim_again", Busy(LEASE)),
    ("released", "claim_again", ("claimed", 2)),
    ("complete", "claim_again", first_answer),
    ("complete_by_another", "claim_again", second_answer),
    # At the end of the lease it would be a conflict, too, so there is nothing to wait for.
    ("claimed", "claim_with_another_content", Conflict()),
    ("lease_over", "claim_with_another_content", Conflict()),
    ("released", "claim_with_another_content", Conflict()),
    ("complete", "claim_with_another_content", Conflict()),
    ("nothing", "commit", fenced),
    ("claimed", "commit", LATE),
    ("lease_over", "commit", LATE),
    ("taken_over", "commit", fenced),
    # The first commit lands late, when its owner has decided again: what is recorded is the answer.
    ("complete", "commit", Committed({"by": "first"})),
    ("complete_by_another", "commit", second_answer),
    ("nothing", "release", False),
    ("claimed", "release", True),
    ("taken_over", "release", False),
    ("complete", "release", False),
    ("complete_by_another", "release", False),
    ("nothing", "extend", False),
    ("claimed", "extend", True),
    ("taken_over", "extend", False),
    ("released", "extend", False),
    ("complete", "extend", False),
    ("complete_by_another", "extend", False),
]


@pytest.mark.parametrize(("before", "step", "expected"), STEPS)
def test_step_answers_by_what_happened_before(kept: Kept, before: str, step: str, expected: Any) -> None:
    """A refused step leaves row and items as they were."""
    story = Story(kept)
    getattr(story, before)()
    found = kept.row("m"), kept.thing("a")

    answer = getattr(story, step)()

    assert answer == (expected(story) if callable(expected) else expected)
    performed = answer in (True, LATE) or isinstance(answer, tuple)
    assert ((kept.row("m"), kept.thing("a")) == found) is not performed
    assert (kept.thing("another") is not None) is (answer == LATE)


def test_claim_writes_a_row_in_progress_and_commit_a_complete_one(kept: Kept) -> None:
    granted = claim(kept)
    assert granted == Claim("m", granted.claimed_by, 1, kept.clock() + LEASE)
    row = {"message_id": "m", "consumption_count": 1, "claimed_by": granted.claimed_by, "payload_hash": "h"}
    lease_until = kept.clock() + LEASE
    assert kept.row("m") == {**row, "status": "IN_PROGRESS", "updated": kept.clock(), "lease_until": lease_until}
    kept.clock.now += 5_000
    kept.ledger().commit(granted, Effects({"text": "é", "list": [1, {"deep": None}], "empty": [], "no": False}))
    result = '{"empty":[],"list":[1,{"deep":null}],"no":false,"text":"\\u00e9"}'
    assert kept.row("m") == {**row, "status": "COMPLETE", "updated": kept.clock(), "result": result}


@pytest.mark.parametrize(("lease", "passed"), [(LEASE, 12_000), (LEASE, LEASE), (900_000, 899_999), (86_400_000, 0)])
def test_message_is_busy_for_the_rest_of_its_lease(kept: Kept, lease: int, passed: int) -> None:
    kept.ledger().claim("m", "h", kept.clock() + lease)
    kept.clock.now += passed
    assert kept.ledger().claim("m", "h", kept.clock() + LEASE) == Busy(lease - passed)


def test_row_without_content_answers_every_copy_when_it_is_complete(kept: Kept) -> None:
    """docs/do/send.md puts such a row for what another system has handled."""
    first = claim(kept, payload_hash=ANY_CONTENT)
    assert kept.ledger().claim("m", "h", kept.clock() + LEASE) == Conflict()
    kept.ledger().commit(first, Effects({"outcome": "before"}))
    assert kept.ledger().claim("m", "h", kept.clock() + LEASE) == Duplicate({"outcome": "before"}, 1, first.claimed_by)


def test_commit_answers_as_every_duplicate_is_answered(kept: Kept) -> None:
    """JSON has no tuples, and names are text in it: the digests in the delivery log would differ, and so would callers."""
    result = {"seats": (1, 2), "by_row": {9: "nine", 10: "ten"}}
    mine = claim(kept)
    answer = kept.ledger().commit(mine, Effects(result))
    assert answer == Committed({"seats": [1, 2], "by_row": {"9": "nine", "10": "ten"}})
    assert kept.ledger().claim("m", "h", kept.clock() + LEASE) == Duplicate(answer.result, 1, mine.claimed_by)


def test_commit_performs_every_write_once_when_it_is_made_twice(kept: Kept) -> None:
    kept.keep({KEY: "b", "state": "old", "mark": True})
    mine, effects = claim(kept), Effects({"done": 1}, (change("old"),), once=Once(PUT, dict))
    for _ in range(2):
        assert kept.ledger().commit(mine, effects) == Committed({"done": 1})
        assert (kept.thing("a"), kept.thing("b")) == (PUT.item, {KEY: "b", "state": "new"})


@pytest.mark.parametrize(
    ("found", "asked"),
    [
        *(({KEY: "b", "state": "other"}, "old"), ({KEY: "b"}, "old"), (None, "old")),
        *(({KEY: "b", "state": "1"}, 1), ({KEY: "b", "state": 1}, "1"), ({KEY: "b", "state": True}, "true")),
    ],
)
def test_commit_is_taken_and_writes_nothing_when_a_condition_fails(kept: Kept, found: Any, asked: object) -> None:
    """A value is compared with its type."""
    if found:
        kept.keep(found)
    mine = claim(kept)
    before = kept.row("m")
    assert kept.ledger().commit(mine, Effects({}, (PUT, change(asked)))) == Taken()
    assert (kept.thing("a"), kept.thing("b"), kept.row("m")) == (None, found, before)
    again = (change(found["state"]),) if found and "state" in found else ()
    assert kept.ledger().commit(mine, Effects({"again": True}, again)) == Committed({"again": True})


def test_exists_wins_over_another_failed_condition(kept: Kept) -> None:
    kept.keep({KEY: "a", "state": "first"})
    answer = kept.ledger().commit(claim(kept), Effects({}, (change("old"),), once=Once(PUT, dict)))
    assert answer == Exists({KEY: "a", "state": "first"})


def test_extension_holds_a_lease_and_never_shortens_it(kept: Kept) -> None:
    """One that lands late, or a heartbeat beside a longer one: the claim is held, to the later end."""
    first, begun = claim(kept), kept.clock()
    for end in (begun + 5 * LEASE, begun + 5 * LEASE, begun + 5 * LEASE - 1, begun + LEASE, begun + 1):
        assert kept.ledger().extend(first, end)
    kept.clock.now = begun + 5 * LEASE - 1
    assert kept.ledger().claim("m", "h", kept.clock() + LEASE) == Busy(1)
    assert kept.ledger().commit(first, Effects({})) == Committed({})


@pytest.mark.parametrize("for_ever", [False, True])
def test_row_expires_after_its_lease_and_the_retention_when_there_is_one(kept: Kept, for_ever: bool) -> None:
    """Cleaned away under a lease, the message could be claimed by another, and neither could commit."""
    ledger = kept.ledger(for_ever=for_ever)
    lives: list[int | None] = []
    mine = ledger.claim("m", "h", kept.clock() + 600_000)
    lives.append(kept.lives_for("m"))
    assert isinstance(mine, Claim)
    assert ledger.extend(mine, kept.clock() + 900_000)
    lives.append(kept.lives_for("m"))
    assert ledger.release(mine)
    lives.append(kept.lives_for("m"))
    again = ledger.claim("m", "h", kept.clock() - 1)
    lives.append(kept.lives_for("m"))
    assert isinstance(again, Claim)
    kept.clock.now += 5_000
    ledger.commit(again, Effects({}))
    lives.append(kept.lives_for("m"))
    assert lives == [None if for_ever else seconds + RETENTION_SECONDS for seconds in (600, 900, 0, 0, 0)]


def test_row_in_progress_loses_its_expiry_with_the_retention(kept: Kept) -> None:
    mine = claim(kept)
    kept.ledger(for_ever=True).commit(mine, Effects({}))
    assert kept.lives_for("m") is None


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


def put(**item: Any) -> Put:
    return Put(TABLE, {**ROOT, **item}, key=KEY)


def update(key: dict[str, Any] = ROOT, remove: tuple[Any, ...] = (), expect: Any = "old", **change: Any) -> Update:
    return Update(TABLE, key, {"state": expect}, change or {"seen": True}, remove)


def nested(levels: int) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for _ in range(levels):
        result = {"deeper": result}
    return result


LEDGERS = Put("ledger", {"message_id": "another", "status": "COMPLETE"}, key="message_id")
LARGE = tuple(Put(TABLE, {KEY: str(number), "text": "x" * 400_000}, key=KEY) for number in range(11))
INVALID_EFFECTS: list[tuple[Any, type[InvalidEffects], str]] = [
    *(
        (Effects({}, (PUT, write)), error, text)
        for write, error, text in (
            (put(parts=[{"price": 1.5}]), InvalidEffects, r"'parts\[0\]\.price' in 'things' is a float"),
            (update(expect=1.5), InvalidEffects, "'state' in 'things' is a float"),
            (update(price=1.5), InvalidEffects, "'price' in 'things' is a float"),
            (put(number=10**39 + 1), InvalidContent, "'number' in 'things' has more than 38 digits"),
            (put(parts=[{"deep": {"": 1}}]), InvalidContent, r"'parts\[0\]\.deep' in 'things' has an empty key"),
            (put(sure=numpy.bool_(True)), InvalidEffects, r"'sure' in 'things' is a numpy\.bool, .* value\.item\(\)"),
            (LEDGERS, InvalidEffects, "another name"),
            (Update("ledger", {"message_id": "m"}, {"a": 1}, {"status": "COMPLETE"}), InvalidEffects, "another name"),
        )
    ),
    (Effects({}, once=Once(put(price=1.5), dict)), InvalidEffects, "'price' in 'things' is a float"),
    *(
        (Effects(cast("Any", result), (PUT,)), InvalidEffects, "the result")
        for result in ({"no": {1, 2}}, {"no": float("nan")}, "done", ["done"], {1: "done"}, None)
    ),
    *(
        (Effects({"list": [{"total": Decimal(number)}]}, (PUT,)), InvalidContent, "a number in the result is")
        for number in ("1E+5000", "1.5E+4400", "-1E-5000", "sNaN")  # Python reads no whole number of 4,300 digits back
    ),
    (Effects({"large": "x" * 400_000}, (PUT,)), InvalidContent, "the result"),
    (Effects(nested(100_000)), InvalidEffects, "at most 100 levels deep"),
    (None, InvalidEffects, "the decision returned a NoneType; return Effects"),
    (Effects({}, (PUT, Put(TABLE, {**PUT.item, "amount": 6}, key=KEY))), InvalidContent, "the same item"),
    (Effects({}, LARGE), InvalidContent, "more than 4 MB in one transaction"),
    (Effects({}, tuple(put(**{KEY: str(n)}) for n in range(100))), InvalidContent, "100 writes, more than 99"),
    *(
        (Effects(result, [PUT], sends=[Send(TARGET, body)]), error, text)
        for result, body, error, text in (
            ({}, {"at": object()}, InvalidEffects, "the body for 'mails' cannot be written as JSON"),
            ({}, {"at": Decimal("1E+5000")}, InvalidContent, "a value in the body for 'mails' is"),
            (
                {"large": "x" * 131_000},
                "x" * 259_000,
                InvalidContent,
                "result and the sends have 390... bytes, more than",
            ),
        )
    ),
]
"""Effects that no store takes. What else is refused, `test_words.py` and `test_checks.py` ask one store."""


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
    kept = in_simulated_valkey()
    mine = claim(kept)
    with pytest.raises(InvalidEffects, match="'things' is in words that Valkey does not keep"):
        kept.ledger().commit(mine, Effects({}, [write], once=Once(Put(TABLE, {KEY: "mark"}))))
    assert kept.thing("mark") is None


def test_valkey_refuses_a_send_by_name() -> None:
    kept = in_simulated_valkey()
    mine = claim(kept)
    with pytest.raises(InvalidEffects, match="a send to 'mails' follows DynamoDB's stream, which Valkey lacks"):
        kept.ledger().commit(mine, Effects({}, [PUT], sends=[Send(TARGET, {})]))
    assert kept.thing("a") is None


@pytest.mark.parametrize("there", ["text", Decimal("0.5"), 2**53 - 1, 1 - 2**54])
def test_valkey_refuses_a_sum_that_it_cannot_make(there: Any) -> None:
    kept = in_simulated_valkey()
    kept.ledger().commit(claim(kept, "first"), Effects({}, [Put(TABLE, {**ROOT, "left": there})]))
    add = Effects({}, [Update(TABLE, ROOT, add={"left": 1})], once=Once(Put(TABLE, {KEY: "mark"})))
    with pytest.raises(CommitRefused, match="an `add` or a comparison meets no whole number, or one above"):
        kept.ledger().commit(claim(kept), add)
    assert kept.thing("mark") is None


def test_valkey_finds_text_in_no_comparison_with_a_number() -> None:
    """As DynamoDB does; moto raises."""
    kept = in_simulated_valkey()
    kept.keep({**ROOT, "state": "5"})
    assert (
        kept.ledger(for_ever=True).commit(claim(kept), Effects({}, [Delete(TABLE, ROOT, Attr("state").gte(3))]))
        == Taken()
    )


@pytest.mark.parametrize("there", [Decimal("0.5"), 2**53, -(2**53)])
def test_valkey_refuses_a_comparison_that_it_cannot_make(there: Any) -> None:
    kept = in_simulated_valkey()
    kept.ledger(for_ever=True).commit(claim(kept, "first"), Effects({}, [Put(TABLE, {**ROOT, "left": there})]))
    with pytest.raises(CommitRefused, match="an `add` or a comparison meets no whole number, or one above"):
        kept.ledger(for_ever=True).commit(claim(kept), Effects({}, [Delete(TABLE, ROOT, Attr("left").lt(1))]))
    assert kept.thing("a") == {**ROOT, "left": there}
