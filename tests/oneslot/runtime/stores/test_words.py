"""The words of a decision over both DynamoDBs, ours and moto's: what each write does, and what is refused before it."""

from collections.abc import Callable, Iterator
from decimal import Decimal
from enum import StrEnum
from typing import Any, cast

import pytest
from boto3.dynamodb.conditions import Attr

from oneslot.runtime.attempt import attempt
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
    Write,
)
from oneslot.runtime.protocol import Answer, Committed, Taken
from oneslot.runtime.stores.dynamodb import DynamoDBLedger
from oneslot.runtime.stores.limits import declared_keys, declared_types
from oneslot.runtime.stores.memory import MemoryLedger
from oneslot.runtime.stores.transaction import compiled
from oneslot.runtime.typed import JsonMessage
from oneslot.runtime.values import to_attributes
from tests.kits.consumer import Clock, surroundings
from tests.kits.stores import KEYS, claim, found, in_either


@pytest.fixture(params=["memory", "moto"])
def ledger(request: pytest.FixtureRequest) -> Iterator[MemoryLedger | DynamoDBLedger]:
    with in_either(request.param) as made:
        yield made


@pytest.fixture
def memory() -> MemoryLedger:
    """For what every ledger refuses before it calls DynamoDB."""
    return MemoryLedger(keys=KEYS, surroundings=surroundings(Clock()))


def keep(ledger: Any, table: str, item: dict[str, Any]) -> None:
    ledger.client.put_item(TableName=table, Item=to_attributes(item))


ONCE = Once(Put("stock", {"sku": "done"}))
A, SOCK = {"sku": "a"}, {"sku": "socks"}
OPEN = {"state": "open"}


def commit(ledger: Any, *writes: Write) -> object:
    return ledger.commit(claim(ledger), Effects({}, writes, once=ONCE))


def raw_update(expression: str, sku: str = "a", name: str = "x") -> Raw:
    return Raw(
        {
            "Update": {
                "TableName": "stock",
                "Key": {"sku": {"S": sku}},
                "UpdateExpression": expression,
                "ConditionExpression": "attribute_exists(sku)",
                "ExpressionAttributeNames": {"#x": name},
                "ExpressionAttributeValues": {":v": {"N": "1"}},
            }
        }
    )


class Name(StrEnum):
    """Attributes as many programs name them: text, and no `str` itself."""

    LEFT = "left"
    AT = "at"
    SHELF = "shelf"


SOCKS = {"sku": "socks", "left": 3, "sizes": {38, 39}, "log": ["a"], "at": {"shelf": "B", "row": [1, 2]}}


@pytest.mark.parametrize(
    ("write", "after"),
    [
        (Update("stock", SOCK, add={"left": Decimal("0.5")}), {**SOCKS, "left": Decimal("3.5")}),
        (Update("stock", SOCK, add={"sizes": {40}}), {**SOCKS, "sizes": {38, 39, 40}}),
        (Update("stock", SOCK, append={"log": ["b", 1]}), {**SOCKS, "log": ["a", "b", 1]}),
        (Update("stock", SOCK, append={"notes": ["b"]}), {**SOCKS, "notes": ["b"]}),
        (
            Update("stock", SOCK, set={("at", "shelf"): "C", ("at", "row", 1): 9}, remove=("log",)),
            {"sku": "socks", "left": 3, "sizes": {38, 39}, "at": {"shelf": "C", "row": [1, 9]}},
        ),
        (
            Update("stock", SOCK, remove=(("at", "row", 0), ("at", "shelf"))),
            {**SOCKS, "at": {"row": [2]}},
        ),
        (Check("stock", SOCK, expect={("at", "shelf"): "B"}), SOCKS),
        (
            Update("stock", SOCK, expect={(Name.AT, Name.SHELF): "B"}, set={Name.LEFT: 2}, remove=(Name.AT,)),
            {"sku": "socks", "left": 2, "sizes": {38, 39}, "log": ["a"]},
        ),
        (
            raw_update("SET #x = #x - :v", sku="socks", name="left"),
            {**SOCKS, "left": 2},
        ),
    ],
)
def test_write_changes_the_item_when_it_is_committed(ledger: Any, write: Write, after: dict[str, Any]) -> None:
    """In the words that Valkey does not keep. The contract of all stores has the others."""
    keep(ledger, "stock", SOCKS)
    assert commit(ledger, write) == Committed({})
    assert found(ledger, "stock", sku="socks") == after


@pytest.mark.parametrize(
    ("expect", "holds"),
    [
        (Attr("left").between(1, 3) & Attr("at.shelf").begins_with("B"), True),
        (Attr("left").is_in([1, 2]) | Attr("sizes").contains(38), True),
        (Attr("left").is_in([*range(100)]), True),
        (~Attr("at.shelf").begins_with(Attr("sku")) & ~Attr("at.shelf").begins_with(b"B"), True),
        (Attr("log").eq(["a"]), True),
        (~Attr("log").size().gt(0), False),
        (Attr("at.row[1]").eq(2) & Attr("gone").not_exists(), True),
        (Attr("left").attribute_type("N") & Attr("left").ne(4), True),
        ({"left": 3, ("log", 0): "a"}, True),
        ({"left": 3, ("log", 0): "b"}, False),
    ],
)
def test_condition_decides_when_it_is_a_mapping_or_boto3s(ledger: Any, expect: Any, holds: bool) -> None:
    keep(ledger, "stock", SOCKS)
    outcome = commit(ledger, Check("stock", SOCK, expect=expect))
    assert outcome == (Committed({}) if holds else Taken())
    assert (found(ledger, "stock", sku="done") is not None) is holds


def test_second_item_of_a_partition_is_new_when_the_table_has_two_keys(ledger: Any) -> None:
    both = [{"customer": "c", "line": line, "price": Decimal("12.5")} for line in (1, 2)]
    assert commit(ledger, *(Put("shop", item) for item in both)) == Committed({})
    assert [found(ledger, "shop", customer="c", line=line) for line in (1, 2)] == both
    assert ledger.commit(claim(ledger, "m-2"), Effects({}, [Put("shop", both[0])])) == Taken()


def test_key_may_be_bytes(ledger: Any) -> None:
    assert commit(ledger, Put("scans", {"digest": b"\x00\xff", "n": 1})) == Committed({})
    again = Update("scans", {"digest": b"\x00\xff"}, expect={"n": 1}, add={"n": 1})
    assert ledger.commit(claim(ledger, "m-2"), Effects({}, [again])) == Committed({})
    assert found(ledger, "scans", digest=b"\x00\xff") == {"digest": b"\x00\xff", "n": 2}


def sold_out(item: Any) -> Effects:
    return Effects({"outcome": "sold_out", "left": item.get("left")})


def order(message: JsonMessage) -> Effects:
    return Effects(
        {"outcome": "taken"},
        [
            Put("shop", {"customer": message.message_id, "line": 1}),
            Update("stock", SOCK, add={"left": -1}, expect=Attr("left").gte(1), otherwise=sold_out),
        ],
    )


def answered(ledger: Any, message_id: str, decide: Callable[[JsonMessage], Effects]) -> Any:
    answer = attempt(ledger, JsonMessage(message_id), decide, ledger.surroundings.now_ms() + 30_000)
    assert isinstance(answer, Answer)
    return answer.result


def test_otherwise_answers_from_the_item_when_the_condition_fails(ledger: Any) -> None:
    keep(ledger, "stock", {"sku": "socks", "left": 1})
    decided: list[str] = []

    def decide(message: JsonMessage) -> Effects:
        decided.append(message.message_id)
        return order(message)

    assert answered(ledger, "m-1", decide) == {"outcome": "taken"}
    before = ledger.surroundings.now_ms()
    assert answered(ledger, "m-2", decide) == {"outcome": "sold_out", "left": 0}
    assert ledger.surroundings.now_ms() == before, "it waited"
    assert answered(ledger, "m-2", decide) == {"outcome": "sold_out", "left": 0}
    assert decided == ["m-1", "m-2"]
    assert found(ledger, "stock", sku="socks") == {"sku": "socks", "left": 0}


def test_otherwise_finds_nothing_when_there_is_no_item(ledger: Any) -> None:
    assert answered(ledger, "m-1", order) == {"outcome": "sold_out", "left": None}


def test_otherwise_of_otherwise_waits_until_the_lease_is_nearly_over(memory: MemoryLedger) -> None:
    def never(item: Any) -> Effects:
        return Effects({}, [Check("stock", {"sku": "none"}, expect={"left": 1}, otherwise=never)])

    began = memory.surroundings.now_ms()
    with pytest.raises(TimeoutError, match="the lease is nearly over"):
        answered(memory, "m-1", lambda message: never({}))
    waited = memory.surroundings.now_ms() - began
    assert 27_000 < waited < 28_500, "Lambda needs time to report the error"


UNCONDITIONAL: list[tuple[Write, str]] = [
    (Update("stock", A, set={"x": 1}), "an update of 'stock' has no condition"),
    (Update("stock", A, append={"x": [1]}), "an update of 'stock' has no condition"),
    (Put("stock", A, replace=True), "a put into 'stock' replaces whatever item is there"),
    (Delete("stock", A), "a delete in 'stock' deletes whatever item is there"),
    (Raw({"Delete": {"TableName": "stock", "Key": {"sku": {"S": "a"}}}}), "a raw write to 'stock' has no condition"),
]


@pytest.mark.parametrize(("write", "text"), UNCONDITIONAL)
def test_write_is_refused_when_a_late_copy_would_repeat_it(memory: MemoryLedger, write: Write, text: str) -> None:
    mine, other = claim(memory), Put("shop", {"customer": "c", "line": 1})
    with pytest.raises(InvalidEffects, match=f"{text}, so a copy of the message .* would repeat it; put `once` beside"):
        memory.commit(mine, Effects({}, [other, write]))
    assert (found(memory, "shop", customer="c", line=1), found(memory, "stock", sku="a")) == (None, None)


@pytest.mark.parametrize("write", [Update("stock", A, add={"x": 1}), Delete("stock", A)])
def test_write_is_accepted_when_something_prevents_a_repetition(ledger: Any, write: Write) -> None:
    marked = Put("shop", {"customer": "ORDER#m-1", "line": 1})
    assert ledger.commit(claim(ledger), Effects({}, [marked, write])) == Committed({})
    kept = DynamoDBLedger(
        ledger.client, "ledger", retention_seconds=None, tables={"stock": "stock"}, surroundings=ledger.surroundings
    )
    assert kept.commit(claim(kept, "m-2"), Effects({}, [write])) == Committed({})


@pytest.mark.parametrize(
    "beside",
    [
        Put("stock", {"sku": "m-1"}, replace=True),
        Check("stock", {"sku": "m-1"}, expect={"left": 1}),
        Put("stock", {"sku": "a new item of another message"}),
        Put("scans", {"digest": b"m-1"}),
    ],
)
def test_write_is_refused_when_nothing_new_holds_the_id(memory: MemoryLedger, beside: Write) -> None:
    with pytest.raises(InvalidEffects, match="would repeat it; put `once` beside it"):
        memory.commit(claim(memory), Effects({}, [beside, Delete("stock", A)]))


def raw_put(condition: str) -> Raw:
    return Raw({"Put": {"TableName": "stock", "Item": {"sku": {"S": "a"}}, "ConditionExpression": condition}})


@pytest.mark.parametrize(
    "write",
    [
        Update("stock", A, Attr("n").gte(1), add={"n": 1}),
        Update("stock", A, OPEN, add={"n": 1}),
        Update("stock", A, {"n": 1}, add={"n": 0}),
        Update("stock", A, OPEN, add={"n": 1}, set={"state": "open"}),
        Update("stock", A, {("at", "state"): "open"}, add={"n": 1}, set={"state": "done"}),
        Update("stock", A, Attr("state").eq(Attr("was")), add={"n": 1}, remove=("state",)),
        Update("stock", A, Attr("state").eq("open") | Attr("n").eq(1), add={"n": 1}, set={"state": "done"}),
        Update("stock", A, Attr("state").size().eq(4), add={"n": 1}, set={"state": "done"}),
        Update("stock", A, Attr("state").not_exists(), add={"n": 1}, remove=("state",)),
        Update("stock", A, OPEN, append={"l": ["x"]}),
        Update("stock", A, {"l": []}, append={"l": []}),
        Update("stock", A, OPEN, remove=(("l", 0),)),
        Update("stock", A, Attr("l").exists(), remove=(("l", 0),)),
        Update("stock", A, {("l", 0): "x"}, remove=(("l", 0),)),
        Update("stock", A, {("l", 1): "x"}, set={("l", 1): "y"}, remove=(("l", 0),)),
        Update("stock", A, Attr("l").exists(), set={("l", 99): "x"}),
        Update("stock", A, Attr("l[99]").not_exists(), set={("l", 99): "x"}),
        Update("stock", A, OPEN, set={"price": 5}),
        Update("stock", A, OPEN, remove=("price",)),
        Update("stock", A, OPEN, add={"tags": {"new"}}),
        Update("stock", A, Attr("state").ne("open"), set={"state": "done"}),
        Update("stock", A, Attr("state").ne("open"), remove=("state",)),
        Put("stock", {**A, "state": "open", "price": 5}, replace=True, expect=OPEN),
        Put("stock", A, replace=True, expect=Attr("state").ne("open")),
        Put("stock", A, replace=True, expect=Attr("state").not_exists()),
        raw_update("SET #x = :v"),
        raw_put("attribute_exists(sku)"),
        raw_put("attribute_not_exists(other)"),
        raw_put("attribute_not_exists(sku) OR n = :v"),
    ],
)
def test_write_is_refused_when_its_condition_may_hold_after_it(memory: MemoryLedger, write: Write) -> None:
    with pytest.raises(InvalidEffects, match="does not end its own condition, so a copy"):
        memory.commit(claim(memory), Effects({}, [write]))


@pytest.mark.parametrize(
    "write",
    [
        Update("stock", A, OPEN, add={"n": 1}, set={"state": "done"}),
        Update("stock", A, OPEN, add={"n": 1}, remove=("state",)),
        Update("stock", A, {"n": 1}, add={"n": 1}),
        Update("stock", A, {"l": ["x", "x"]}, append={"l": ["x"]}),
        Update("stock", A, {("lines", 0, "state"): "open"}, set={("lines", 0, "state"): "done"}, add={"n": 1}),
        Update("stock", A, {("l", 0): "x"}, set={("l", 0): "y"}),
        Update("stock", A, Attr("done").not_exists(), set={"done": True}, append={"l": ["x"]}),
        Update("stock", A, Attr("n").gt(0) & Attr("state").eq("open"), set={"state": "done"}, add={"n": 1}),
        Update("stock", A, Attr("lines[0].state").eq("open"), set={("lines", 0, "state"): "done"}, add={"n": 1}),
        Update("stock", A, Attr("seen").not_exists(), add={"seen": 1}),
        Update("stock", A, Attr("log").not_exists(), append={"log": ["x"]}),
        Update("stock", A, OPEN, set={"state": "done"}),
        Update("stock", A, Attr("state").ne("done"), set={"state": "done"}),
        Put("stock", {**A, "state": "done"}, replace=True, expect=OPEN),
        Put("stock", A, replace=True, expect=OPEN),
        Put("stock", {**A, "seen": 1}, replace=True, expect=Attr("seen").not_exists()),
        Put("stock", {**A, "lines": [{"state": "done"}]}, replace=True, expect={("lines", 0, "state"): "open"}),
    ],
)
def test_write_is_accepted_once_when_it_ends_its_own_condition(ledger: Any, write: Write) -> None:
    keep(ledger, "stock", {"sku": "a", "state": "open", "n": 1, "l": ["x", "x"], "lines": [{"state": "open"}]})
    assert ledger.commit(claim(ledger), Effects({}, [write])) == Committed({})
    after = found(ledger, "stock", sku="a")
    assert ledger.commit(claim(ledger, "m-2"), Effects({}, [write])) == Taken()
    assert found(ledger, "stock", sku="a") == after


@pytest.mark.parametrize(
    ("message_id", "key", "marks"),
    [
        ("1", "1", True),
        ("1", "day#1", True),
        ("1", "1_a", True),
        ("1", "day-a1", False),
        ("1", "12", False),
        ("a.c", "x/a.c/y", True),
        ("a.c", "abc", False),
        ("7", 7, True),
        ("7", Decimal("7.5"), False),
    ],
)
def test_new_item_marks_the_message_when_its_key_has_the_whole_id(
    memory: MemoryLedger, message_id: str, key: Any, marks: bool
) -> None:
    item = {"sku": key} if isinstance(key, str) else {"customer": "c", "line": key}
    effects = Effects({}, [Put("stock" if "sku" in item else "shop", item), Delete("scans", {"digest": b"a"})])
    mine = claim(memory, message_id)
    if marks:
        assert memory.commit(mine, effects) == Committed({})
        return
    with pytest.raises(InvalidEffects, match="would repeat it; put `once` beside it"):
        memory.commit(mine, effects)


def raw_key(table: str, **key: Any) -> Raw:
    return Raw({"Delete": {"TableName": table, "Key": key}})


OVERLAPS = "changes its key, or sets and removes one attribute: x"


def update(**words: Any) -> Update:
    return Update("stock", A, **words)


def check(expect: Any) -> Check:
    return Check("stock", A, expect=expect)


def put(**item: Any) -> Put:
    return Put("stock", {**A, **item})


NO_KEY = "the key 'sku' of a write to 'stock' must be text, a number or bytes, and not empty"
MANY = {f"a{number}": number for number in range(300)}
REFUSED: list[tuple[Callable[[], Write], str]] = [
    # The key
    (lambda: Put("shop", {"customer": "c"}), "a put into 'shop' has no attribute 'line' in its item"),
    (lambda: Put("shop", {"order": "c"}, key="order"), "written under the key order, and its key is customer and line"),
    (lambda: Delete("shop", {"customer": "c"}), "written under the key customer, and its key is customer and line"),
    (lambda: Put("stock", A, key="skuId"), "'stock' has no attribute 'skuId' in its item"),
    (lambda: Update("stock", {}, set={"x": 1}), "has no key"),
    (lambda: update(set={"sku": "b"}), "changes its key, or sets and removes one attribute"),
    (lambda: update(remove=("sku",)), "changes its key, or sets and removes one attribute"),
    *((lambda key=key: put(sku=key), NO_KEY) for key in ("", True, None, ["a"])),
    *((lambda key=key: Delete("stock", {"sku": key}), NO_KEY) for key in (True, None, ["a"])),
    # What is written
    (lambda: update(expect=OPEN), "'stock' changes nothing; give an attribute a value, or use Check"),
    (lambda: Put("stock", A, expect={"left": 1}), "must be new, so there is no item to expect; add replace=True"),
    (lambda: put(**{"": 1}), "a write to 'stock' has an empty key"),
    (lambda: update(remove=("",)), "has an empty key"),
    (lambda: Put("stock", cast("Any", {**A, 7: 1})), "a write to 'stock' has a key that is not text but int"),
    (lambda: update(remove=(7,)), "a key that is not text but int"),
    (lambda: update(expect={"a": 1}, set=MANY), "changes and expects more attributes than"),
    (lambda: update(expect=MANY, set={"a": 1}), "changes and expects more attributes than"),
    (lambda: update(add={"x": "1"}), "'x' in 'stock' is given to `add`, which takes a number or a set"),
    (lambda: update(append={"x": "1"}), "'x' in 'stock' is given to `append`, which takes a list"),
    (lambda: update(set={"x": [2]}, append={"x": [1]}), OVERLAPS),
    (lambda: update(set={("x", "y"): 1, "x": 2}), OVERLAPS),
    (lambda: update(set={"x": 1}, add={"x": 2}), OVERLAPS),
    (lambda: update(set={"x": 1}, remove=("x",)), OVERLAPS),
    (lambda: update(set={("a", "b"): 1, ("a.b",): 2}), "is written twice, as a path and as a name"),
    # Paths
    (lambda: update(set={"x[0]": 1}), r"'x\[0\]' is a path or a name; write a tuple"),
    (lambda: update(set={"x.y": 1}), r"'x\.y' is a path or a name; write a tuple"),
    *((lambda path=path: update(set={path: 1}), "is no path; begin it with an attribute's") for path in ((), (0, "y"))),
    *(
        (lambda step=step: update(set={("x", step): 1}), "after its first name, it takes names")
        for step in (-1, True, None, b"y", 1.0, "")
    ),
    (lambda: Delete("stock", A, expect={("x", -1): 1}), r"'x\[-1\]' is no path; after its first name"),
    # Conditions
    (lambda: check({}), "a check of 'stock' has an empty `expect`"),
    (lambda: check(None), "a check of 'stock' has no `expect`"),
    *(
        (lambda name=name: check(Attr(name).exists()), "the name of an Attr is no path")
        for name in ("x[-1]", "x..y", "x[y]", "", 5)
    ),
    *((lambda size=size: check(Attr("x").is_in([*range(size)])), f"with {size} values") for size in (0, 101)),
    (lambda: check(~Attr("x").begins_with(5)), "'x' in 'stock' is given to `begins_with`, which takes text or bytes"),
    (lambda: check(Attr("x").eq(1.5)), r"'x' in 'stock' is a float, .* Decimal\(str\(value\)\)"),
    # Raw writes
    (lambda: Raw({"Get": {"TableName": "stock"}}), "Raw takes one element of TransactItems"),
    (
        lambda: Raw({"Put": {"TableName": "shop", "Item": {"customer": {"S": "c"}}}}),
        "a raw write to 'shop' has no attribute 'line'",
    ),
    (lambda: raw_key("shop", customer={"S": "c"}, line={"N": "one"}), "the key 'line' of a raw write is no number"),
]


@pytest.mark.parametrize(("write", "text"), REFUSED)
def test_write_is_refused_with_the_remedy_when_it_is_wrong(
    memory: MemoryLedger, write: Callable[[], Write], text: str
) -> None:
    with pytest.raises(InvalidEffects, match=text):
        commit(memory, write())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            Delete("shop", {"customer": "c", "line": Decimal("1.5")}),
            raw_key("shop", customer={"S": "c"}, line={"N": "1.50"}),
        ),
        (Delete("scans", {"digest": b"a"}), raw_key("scans", digest={"B": bytearray(b"a")})),
        (Delete("scans", {"digest": b"a"}), raw_key("scans", digest={"B": "a"})),
    ],
)
def test_writes_are_refused_when_they_spell_one_key_differently(memory: MemoryLedger, one: Write, other: Write) -> None:
    with pytest.raises(InvalidEffects, match="two writes change the same item"):
        commit(memory, one, other)


def test_writes_are_refused_when_two_names_of_one_table_lead_to_one_item() -> None:
    tables = {"orders": "real", "archive": "real", "others": "another"}
    outside = surroundings(Clock())
    ledger = DynamoDBLedger(
        MemoryLedger(surroundings=outside).client, "ledger", retention_seconds=None, tables=tables, surroundings=outside
    )
    with pytest.raises(InvalidEffects, match="two writes change the same item"):
        ledger.commit(claim(ledger), Effects({}, [Delete(table, {"id": "a"}) for table in ("orders", "archive")]))
    different = Effects({}, [Delete(table, {"id": "a"}) for table in ("orders", "others")])
    assert len(ledger.completed("m-1", different, 0)[1].items) == len(different.writes)


def test_raw_write_is_accepted_when_it_checks_or_puts_a_new_item(ledger: Any) -> None:
    check = {"TableName": "stock", "Key": {"sku": {"S": "b"}}, "ConditionExpression": "attribute_not_exists(sku)"}

    writes = [Raw({"ConditionCheck": check}), raw_put("attribute_not_exists(sku)")]
    assert isinstance(ledger.commit(claim(ledger), Effects({}, writes)), Committed)


def test_raw_write_has_its_tables_real_name() -> None:
    made, _ = compiled(
        Effects({}, [raw_update("SET #x = :v")], once=ONCE), {"stock": "RealStock"}, {"stock": ("sku",)}
    ).items
    assert made["Update"]["TableName"] == "RealStock"
    assert made["Update"]["ReturnValuesOnConditionCheckFailure"] == "ALL_OLD"


def test_undeclared_key_is_named_when_a_put_needs_it() -> None:
    ledger = MemoryLedger()
    remedy = r"""keys=\{"carts": "id"\} or \("id", "line"\), or in ONESLOT_KEY_CARTS=id:S,line:S"""
    with pytest.raises(InvalidEffects, match=remedy):
        ledger.commit(claim(ledger), Effects({}, [Put("carts", {"id": "a"})]))
    with pytest.raises(InvalidEffects, match=remedy):
        ledger.tables["carts"] = [{"id": "a"}]


@pytest.mark.parametrize("key", ["", (), ("a", "b", "c"), ("a", "a"), ("a", "")])
def test_key_is_refused_when_it_is_not_one_or_two_names(key: Any) -> None:
    with pytest.raises(ValueError, match="the key of 'shop' must be one name, or two"):
        MemoryLedger(keys={"shop": key})


A_PUT = Put("stock", A)
MISPLACED: list[tuple[Any, tuple[Any, ...], str]] = [
    (Effects, ({}, A_PUT), "`writes` is a Put; put all writes into one list"),
    (Effects, ({}, [A_PUT, A]), "`writes` holds a dict"),
    (Effects, ({}, [Send("mails", {})]), "`writes` holds a Send"),
    (Effects, ({}, [], None, [A_PUT]), "`sends` holds a Put"),
    (Effects, ({}, [], A_PUT), r"`once` is a Put; write once=Once\(Put"),
    (Once, (Update("stock", A, set={"left": 1}),), "`once` must hold a Put of a new item"),
    (Put, ("stock", "sku", A), "a put into 'stock' has a str as its `item`; write a mapping"),
    (Update, ("stock", "a", None, {"x": 1}), "an update of 'stock' has a str as its `key`"),
    (Update, ("stock", A, None, [("x", 1)]), "an update of 'stock' has a list as its `set`"),
    (Update, ("stock", A, None, {}, "name"), r"no tuple as its `remove`; write remove=\(\"name\",\)"),
    (Update, ("stock", A, "left > 1", {"x": 1}), "an update of 'stock' has a str as its `expect`; write"),
    (Delete, ("stock", A, {}), "a delete in 'stock' has an empty `expect`"),
    (Delete, ("stock", A, None, dict), "a delete in 'stock' has an `otherwise` and no condition"),
    (Put, ("stock", A, "", True, None, dict), "a put into 'stock' has an `otherwise` and no condition"),
    (Delete, ("stock", A, {"x": 1}, Effects({})), "has a Effects as its `otherwise`; write a function"),
    (Once, (Put("stock", A, otherwise=sold_out),), "an `otherwise`, which is never asked"),
    (
        Raw,
        ({"Delete": {"TableName": "stock", "Key": A}},),
        "'sku' in the `Key` of a raw write to 'stock'",
    ),
    (
        Raw,
        ({"Delete": {"TableName": "stock", "Key": {}, "ReturnValuesOnConditionCheckFailure": "NONE"}},),
        "sets ReturnValuesOnConditionCheckFailure; leave it out",
    ),
    (
        Raw,
        ({"Delete": {"TableName": "stock", "Key": {}}}, sold_out),
        "a raw write to 'stock' has an `otherwise` that is no",
    ),
]


@pytest.mark.parametrize(("word", "given", "text"), MISPLACED)
def test_argument_is_refused_when_it_is_given_in_another_ones_place(word: Any, given: Any, text: str) -> None:
    with pytest.raises(InvalidEffects, match=text):
        word(*given)


TYPED = {"shop": "customer:S,line:N;mail:S"}


@pytest.mark.parametrize(
    ("write", "text"),
    [
        (Put("shop", {"customer": 7, "line": 1}), "'customer' in 'shop' must be text, and not empty"),
        (Put("shop", {"customer": "c", "line": "1"}), "'line' in 'shop' must be a number, and not empty"),
        (Put("shop", {"customer": "c", "line": 1, "mail": None}), "'mail' in 'shop' must be text, and not empty"),
        (Put("shop", {"customer": "c", "line": 1, "mail": ""}), "'mail' in 'shop' must be text, and not empty"),
        (Update("shop", {"customer": "c", "line": 1}, add={"mail": 1}), "'mail' in 'shop' must be text, and not empty"),
    ],
)
def test_write_is_refused_when_a_key_of_the_table_or_an_index_has_another_type(write: Write, text: str) -> None:
    with pytest.raises(InvalidContent, match=text):
        compiled(
            Effects({}, [write], once=ONCE), None, declared_keys({**TYPED, "stock": "sku"}), types=declared_types(TYPED)
        )


def test_write_is_accepted_when_its_indexed_attribute_is_absent_or_right() -> None:
    ledger = MemoryLedger(keys=TYPED)
    items = [{"customer": "c", "line": line, **mail} for line, mail in enumerate(({}, {"mail": "a@b"}))]
    assert ledger.commit(claim(ledger), Effects({}, [Put("shop", item) for item in items])) == Committed({})


@pytest.mark.parametrize("change", [{"add": {"state": 1}}, {"append": {"n": [1]}}, {"set": {("gone", "x"): 1}}])
def test_write_is_named_and_never_tried_again_when_only_dynamodb_can_refuse_it(ledger: Any, change: Any) -> None:
    keep(ledger, "stock", {"sku": "a", "state": "open", "n": 1})
    with pytest.raises(InvalidContent, match=r"DynamoDB refuses an update of 'stock'.* \(Validation"):
        ledger.commit(claim(ledger), Effects({}, [Update("stock", A, **change)], once=ONCE))
