"""The one door for a decision's effects: `Effects` in, the items of one transaction out, or a refusal.

Each write becomes one element of `TransactItems` once. What no table holds is refused here, before anything is sent.
"""

import marshal
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

from oneslot.runtime.effects import (
    LEDGER,
    MAXIMUM_WRITES,
    Check,
    Delete,
    Effects,
    Expected,
    InvalidContent,
    InvalidEffects,
    Item,
    Path,
    Put,
    Raw,
    Result,
    Update,
    Write,
    describe,
)
from oneslot.runtime.stores.conditions import condition_text, path_of, shown_paths
from oneslot.runtime.stores.limits import (
    ALWAYS_FITS,
    LARGEST_TEXT,
    Element,
    Keys,
    refuse_key,
    refuse_overlaps,
    refuse_repeats,
    refuse_sizes,
)
from oneslot.runtime.values import InvalidValue, canonical_json, from_json, number_text, shown_name, to_attributes

KEY_PREFIX = "ONESLOT_KEY_"
"""The variable `ONESLOT_KEY_SHOP` names the key of the table that a decision calls "shop", such as `customer,order`."""


class Transaction(NamedTuple):
    """Effects as the ledger commits them.

    Attributes:
        recorded: what the ledger's row records: the result, and the sends if there are any.
        result: the result as each duplicate gets it.
        items: the writes as `TransactItems`, in the order of `Effects.all_writes`.
        targets: the item of each write: its table's real name, and names, types and values of its key.
    """

    recorded: Mapping[str, str]
    result: Result
    items: Sequence[Mapping[str, Any]]
    targets: Sequence[tuple[Any, ...]]


def compiled(
    effects: Effects,
    tables: Mapping[str, str] | None = None,
    keys: Keys | None = None,
    *,
    types: Mapping[str, Mapping[str, str]] | None = None,
    sends: Mapping[str, str] | None = None,
    ledger: str = LEDGER,
    message_id: str = "",
    for_ever: bool = False,
) -> Transaction:
    """Return the effects as one transaction, if DynamoDB would take them.

    Args:
        tables: the logical names that there are → real ones; None for any.
        keys: the key of each table whose key is declared.
        types: the declared types of attributes that are in the key of a table, or of an index of it.
        sends: the targets by their logical names; None for any.
        ledger: the ledger's name, which the sends' ids depend on.
        for_ever: whether the ledger keeps its rows for ever.

    Raises:
        InvalidEffects: if no ledger can commit the effects. The text names the attribute and the remedy, and no value.
        InvalidContent: if they exceed a limit because of the message.
    """
    writes = _writes_of(effects)
    elements, items, targets = [], [], []
    for write in writes:
        table = write.table if tables is None else tables.get(write.table, "")
        if write.table == LEDGER:
            raise InvalidEffects(f"a write to {LEDGER!r}, the ledger's own table; call your table by another name")
        if not table:
            raise InvalidEffects(f"there is no table {write.table!r}; name it in `tables`, or in ONESLOT_TABLE_...")
        made = element(write, keys or {})
        target = [table]
        for name, value in made.key.items():
            ((kind, content),) = value.items()
            if kind != "S" or not 0 < len(content) <= ALWAYS_FITS:
                refuse_key(write, made.key, keys or {})
            target += name, kind, content
        if types and write.table in types:
            _refuse_types(write, made, types[write.table])
        elements.append(made)
        # A refusal returns the item found, so that no further read is needed to explain it.
        request = {"TableName": table, "ReturnValuesOnConditionCheckFailure": "ALL_OLD", **made.request}
        items.append({made.kind: request})
        targets.append(tuple(target))
    try:
        result = canonical_json(effects.result)
    except InvalidValue as error:
        raise InvalidContent(f"a number in the result {error.problem}") from None
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidEffects(
            "the result cannot be written as JSON; return text, numbers, lists and mappings, at most 100 levels deep"
        ) from error
    transaction = Transaction({"result": result}, from_json(result), items, targets)
    if effects.sends:
        from oneslot.runtime.sends.outbox import SENDS, sends_text  # imported by who sends: a cold start is short

        recorded = {**transaction.recorded, SENDS: sends_text(effects.sends, sends, ledger, message_id)}
        transaction = Transaction(recorded, transaction.result, items, targets)
    if effects.sends or len(result) > LARGEST_TEXT or not _are_small(elements):
        refuse_sizes(writes, elements, transaction.recorded)
    if len({*targets}) < len(targets):
        raise InvalidContent("two writes change the same item; a transaction takes one write for each: merge them")
    if writes and effects.once is None and not for_ever:
        refuse_repeats(writes, elements, message_id)
    return transaction


def _refuse_types(write: Write, made: Element, types: Mapping[str, str]) -> None:
    """Raise `InvalidContent` for an attribute that DynamoDB refuses, because a key of the table or of an index has it."""
    for typed in made.left:
        for name in types.keys() & typed.keys():
            if not typed[name].get(types[name]):
                kind = {"S": "text", "N": "a number", "B": "bytes"}[types[name]]
                raise InvalidContent(
                    f"{name!r} in {write.table!r} must be {kind}, and not empty: the key of the table or of an index has it; "
                    "correct the sender, or leave the attribute out"
                )


def _are_small(elements: Sequence[Element]) -> bool:
    """Return whether all values are far within every limit, by their size in Python's own form: DynamoDB's takes longer."""
    try:
        return len(marshal.dumps([(each.given, each.named) for each in elements], 2)) <= LARGEST_TEXT
    except ValueError:  # for a Decimal, and for an object of boto3's
        return False


def _writes_of(effects: Effects) -> Sequence[Write]:
    """Return the effects' writes. Raises `InvalidEffects` for what are no effects, and for a result that is no mapping."""
    if not isinstance(effects, Effects):
        raise InvalidEffects(f"the decision returned a {type(effects).__name__}; return Effects")
    if len(effects.all_writes) > MAXIMUM_WRITES:
        raise InvalidContent(
            f"{len(effects.all_writes)} writes, more than {MAXIMUM_WRITES} in one transaction; split the message"
        )
    if type(effects.result) is dict or isinstance(effects.result, Mapping):
        for name in effects.result:
            if not isinstance(name, str):
                break
        else:
            return effects.all_writes
    raise InvalidEffects('the result must be a mapping with text keys, such as {"outcome": "shipped"}')


def element(write: Write, keys: Keys) -> Element:
    """Return the write as an element.

    Raises:
        InvalidEffects: for a key that is not the table's, and for names and values that DynamoDB refuses.
    """
    try:
        match write:
            case Put():
                return _put(write, keys)
            case Update():
                return _update(write, keys)
            case Raw():
                return _raw(write, keys)
            case Delete() | Check():
                return _delete_or_check(write, keys)
    except InvalidValue as error:
        what = f"{error.place!r} in {write.table!r}" if error.path else f"a write to {write.table!r}"
        text = f"{what} {error.problem}"
        raise (InvalidContent(text) if error.of_content else InvalidEffects(text)) from None


def key_of(write: Write, keys: Keys) -> Item:
    """Return the names and values of the written item's key; of `Raw` the values are typed.

    The names are in the table's order, or else sorted.

    Raises:
        InvalidEffects: if it is not the key of its table, or the table's key is not declared and the write needs it.
    """
    names = keys.get(write.table)
    match write:
        case Put():
            return _key_in(write, write.item, names or (write.key,) if names or write.key else None, write.key)
        case Raw() if "Item" in write.request:
            return _key_in(write, write.request["Item"], names)
    key = write.request.get("Key", {}) if isinstance(write, Raw) else write.key
    if not key:
        raise InvalidEffects(f"{describe(write)} has no key; name the item's key attributes in `key`")
    if names is not None and key.keys() != {*names}:
        raise InvalidEffects(_other_key(write.table, key, names))
    return key if len(key) == 1 else {name: key[name] for name in names or sorted(key, key=str)}


def _key_in(write: Write, item: Item, names: tuple[str, ...] | None, named: str = "") -> Item:
    if names is None:
        raise InvalidEffects(
            f"the key of {write.table!r} is not declared, and {describe(write)} needs its name; declare it in "
            f'keys={{"{write.table}": "id"}} or ("id", "line"), or in {KEY_PREFIX}{write.table.upper()}=id:S,line:S'
        )
    if named and named not in names:
        raise InvalidEffects(_other_key(write.table, (named,), names))
    key = {}
    for name in names:
        if name not in item:
            raise InvalidEffects(
                f"{describe(write)} has no attribute {name!r} in its item, which is in the table's key; add it"
            )
        key[name] = item[name]
    return key


def _other_key(table: str, named: Iterable[object], names: tuple[str, ...]) -> str:
    return (
        f"{table!r} is written under the key {' and '.join(sorted(map(str, named)))}, and its key is "
        f"{' and '.join(names)}; name all of it"
    )


def _put(put: Put, keys: Keys) -> Element:
    names, words = [*key_of(put, keys)], Words(put)
    condition = words.condition(put.expect) if put.replace else f"attribute_not_exists({words.path(names[0])})"
    request = words.request(ConditionExpression=condition)
    item = request["Item"] = to_attributes(put.item)
    return Element(
        "Put", dict(zip(names, map(item.__getitem__, names), strict=True)), request, put.item, [item], words.named
    )


def _update(update: Update, keys: Keys) -> Element:
    words, key = Words(update), key_of(update, keys)
    written = (*update.set, *update.remove, *update.add, *update.append)
    expected = update.expect if isinstance(update.expect, dict | Mapping) else {}
    removed_paths: dict[Any, None] = dict.fromkeys(update.remove)
    parts: Sequence[Item] = (update.set, update.add, update.append, removed_paths, expected)
    if not _are_names((*written, *expected)):
        parts = [*map(shown_paths, parts)]
        refuse_overlaps(update, key)
    elif len({*written}) < len(written) or not key.keys().isdisjoint(written):
        refuse_overlaps(update, key)
    typed, sets, adds, appends, removed, expects = map(to_attributes, (key, *parts))
    words.named.append(removed)
    change, condition = words.changes(update, sets, adds, appends), words.condition(update.expect, expects or None)
    request = {"Key": typed, **words.request(UpdateExpression=change, ConditionExpression=condition)}
    return Element("Update", typed, request, (key, parts), (typed, sets, adds, appends), words.named)


def _are_names(paths: Sequence[Any]) -> bool:
    """Return whether each is a name without a dot and a bracket, and so no path."""
    if {*map(type, paths)} != {str}:
        return False
    names = "".join(paths)
    return "." not in names and "[" not in names


def _delete_or_check(write: Delete | Check, keys: Keys) -> Element:
    key, words = to_attributes(key_of(write, keys)), Words(write)
    request = {"Key": key, **words.request(ConditionExpression=words.condition(write.expect))}
    return Element("Delete" if isinstance(write, Delete) else "ConditionCheck", key, request, key, [key], words.named)


def _raw(raw: Raw, keys: Keys) -> Element:
    ((kind, request),) = raw.element.items()
    key = {name: _one_spelling(name, value) for name, value in key_of(raw, keys).items()}
    content = {name: value for name, value in request.items() if name != "TableName"}
    left = request.get("Item", key)
    return Element(kind, key, content, left, [left], [request.get("ExpressionAttributeValues", {})])


def _one_spelling(name: str, value: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a key's typed value as the other words write it, so that two writes on one item are found."""
    match value:
        case {"N": str(text)}:
            try:
                return {"N": number_text(Decimal(text))}
            except InvalidOperation:
                raise InvalidEffects(f"the key {shown_name(name)!r} of a raw write is no number") from None
        case {"B": str(text)}:  # boto3 sends its bytes
            return {"B": text.encode()}
        case {"B": bytearray(content)}:
            return {"B": bytes(content)}
    return value


class Words:
    """The names, values and expressions of one write. Placeholders have numbers, because a name may hold any character."""

    def __init__(self, write: Write) -> None:
        self.write = write
        self.named: list[Mapping[str, Any]] = []  # names and typed values of the request that do not stay in the item
        self._names: dict[str, str] = {}
        self._values: dict[str, Any] = {}

    def request(self, **expressions: str) -> dict[str, Any]:
        """Return the expressions that say something, with the names and values that they use."""
        found: dict[str, Any] = {}
        for name, text in expressions.items():
            if text:
                found[name] = text
        if self._names:
            found["ExpressionAttributeNames"] = dict(zip(self._names.values(), self._names, strict=True))
        if self._values:
            found["ExpressionAttributeValues"] = self._values
        return found

    def path(self, path: str | Path) -> str:
        """Return an attribute's name or path as an expression has it."""
        if isinstance(path, str):
            return self._names.get(path) or self._names.setdefault(path, f"#n{len(self._names)}")
        text = ""
        for step in path_of(path):
            text += f"[{step}]" if isinstance(step, int) else f".{self.path(step)}"
        return text[1:]

    def value(self, typed: Any) -> str:
        """Return the placeholder of a new value."""
        placeholder = f":v{len(self._values)}"
        self._values[placeholder] = typed
        return placeholder

    def condition(self, expected: Expected | None, typed: Item | None = None) -> str:
        """Return the condition; empty for none. `typed` are the values of a mapping, if they are converted already."""
        if not expected:
            return ""
        if not isinstance(expected, dict | Mapping):
            return condition_text(self, expected)
        typed = typed or to_attributes(shown_paths(expected))
        self.named.append(typed)
        terms = []
        for path, value in zip(expected, typed.values(), strict=True):
            terms.append(f"{self.path(path)} = {self.value(value)}")
        return " AND ".join(terms)

    def changes(self, update: Update, sets: Item, adds: Item, appends: Item) -> str:
        """Return the update expression; the values are typed."""
        assignments, additions, removed = [], [], []
        for path, value in zip(update.set, sets.values(), strict=True):
            assignments.append(f"{self.path(path)} = {self.value(value)}")
        if appends:
            self._refuse_others("append", appends, ("L",), "a list")
            empty = self.value({"L": []})
            for path, value in zip(update.append, appends.values(), strict=True):
                name = self.path(path)
                assignments.append(f"{name} = list_append(if_not_exists({name}, {empty}), {self.value(value)})")
        for path in update.remove:
            removed.append(self.path(path))
        if adds:
            self._refuse_others("add", adds, ("N", "SS", "NS", "BS"), "a number or a set")
            for path, value in zip(update.add, adds.values(), strict=True):
                additions.append(f"{self.path(path)} {self.value(value)}")
        text = f"SET {', '.join(assignments)}" if assignments else ""
        text += f" REMOVE {', '.join(removed)}" if removed else ""
        text += f" ADD {', '.join(additions)}" if additions else ""
        return text.lstrip()

    def _refuse_others(self, word: str, typed: Item, kinds: Iterable[str], what: str) -> None:
        for name, value in typed.items():
            if not {*value} & {*kinds}:
                raise InvalidEffects(f"{name!r} in {self.write.table!r} is given to `{word}`, which takes {what}")
