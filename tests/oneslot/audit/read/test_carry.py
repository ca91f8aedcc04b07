"""Carried rows and lines: which are valid, which window they count in, and which subjects they name.

The quick reader gives what the reader of single lines gives, or doubts.
"""

import json
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demo.declared import CONSUMER
from oneslot.audit.consumer import AuditConsumer
from oneslot.audit.read.blocks import dicts, unpacked
from oneslot.audit.read.carry import REJECTED, BlockReader, Piece, ReadPlan
from oneslot.audit.read.lines import Window
from oneslot.declaration.declaration import Declaration
from oneslot.declaration.reading import parse_declaration
from oneslot.errors import InvalidArchive
from oneslot.laws import form
from oneslot.laws.evidence import lacking
from oneslot.laws.form import LINES as FORMS
from oneslot.laws.form import Problem, without_null
from oneslot.operator.evidence.malformed import malformed_delivery, malformed_rows
from oneslot.operator.sending.archive import read_archive
from tests.kits.shop import SHOP

START, END = 1_000, 2_000
WHOLE = Window(None, END)
ROW = {"message_id": {"S": "m"}, "status": {"S": "IN_PROGRESS"}, "consumption_count": {"N": "1"}, "updated": {"N": "5"}}
ROW |= {"lease_until": {"N": "6"}}


class Carried:
    """What a reader makes of a text: the rows under each subject, and the rejects by line."""

    def __init__(
        self, name: str, text: str | bytes, window: Window = WHOLE, *, quick: bool = False, of: Declaration = CONSUMER
    ) -> None:
        reader = BlockReader(ReadPlan(AuditConsumer(of), (), 1, window))
        source = AuditConsumer(of).model.source_named(name)
        block = text if isinstance(text, bytes) else text.encode()
        piece = Piece(source.number, "file")
        blocks = reader.by_columns(source, block) if quick else reader.by_lines(source, piece, 1, block)
        self.rows: list[tuple[str, int, dict[str, Any]]] = []
        self.rejects: list[tuple[int, Problem, int]] = []
        self.attributes: list[str] = []
        self.unreadable: set[str] = set()
        for _, number, packed in blocks:
            table = unpacked(packed)
            keys = table["key"].to_pylist()
            if abs(number) != REJECTED:
                sign = 1 if number > 0 else -1
                self.rows += [(key, sign, row) for key, row in zip(keys, dicts(table), strict=True)]
                continue
            for row in table.to_pylist():
                if row["file"] is None:
                    self.unreadable.add(row["key"])
                else:
                    self.rejects.append((row["line"], Problem(row["problem"]), row["sign"]))
                    self.attributes.append(row["attribute"])
        self.rows.sort(key=repr)

    @property
    def keys(self) -> list[str]:
        return [key for key, _, _ in self.rows]


def written(lines: list[Any]) -> str:
    return "".join(json.dumps(line) + "\n" for line in lines)


def changed(micros: object, **pictures: dict[str, Any]) -> dict[str, Any]:
    """Return a line of an incremental export."""
    return {"Metadata": {"WriteTimestampMicros": {"N": micros}}, **pictures}


OLD, NEW = {"OldImage": ROW}, {"NewImage": {**ROW, "consumption_count": {"N": "2"}}}
WINDOW = {
    "at its begin": (changed("1000000", **NEW), [(1, 2)]),
    "before its begin": (changed("999999", **NEW), [(Problem.OUTSIDE_WINDOW, 1)]),
    "before its end": (changed("1999999", **OLD, **NEW), [(-1, 1), (1, 2)]),
    "at its end": (changed("2000000", **OLD, **NEW), [(Problem.OUTSIDE_WINDOW, 1)]),
    "deleted at its end": (changed("2000000", **OLD), [(Problem.OUTSIDE_WINDOW, 1)]),
    "deleted": (changed("1000001", **OLD), [(-1, 1)]),
    "rejected before": (changed("1000001", OldImage={}, **NEW), [(Problem.MISSING_ATTRIBUTE, -1), (1, 2)]),
    "at no time": (changed(None, **NEW), [(1, 2)]),
    "without a picture": (changed("1000001"), [(Problem.MISSING_ATTRIBUTE, 1)]),
}


@pytest.mark.parametrize("name", WINDOW)
def test_change_counts_only_inside_its_window(name: str) -> None:
    """The window includes its begin and excludes its end. A line outside is one malformed line, and takes nothing back."""
    line, expected = WINDOW[name]
    made = Carried("ledger", written([line]), Window(START, END))
    found: list[tuple[object, int]] = [(problem, sign) for _, problem, sign in made.rejects]
    found += sorted((sign, row["consumption_count"]) for _, sign, row in made.rows)
    assert found == expected


MISSING, RANGE, UNKNOWN = Problem.MISSING_ATTRIBUTE, Problem.OUT_OF_RANGE, Problem.UNKNOWN_VALUE
LATEST, LARGEST = form.LATEST_EPOCH_MS, form.LARGEST_COUNT
SLOT = {"practice": "A81001", "slot_id": "s", "status": "free", "start": "2026-11-23T08:00:00Z"}
APPOINTMENT = {**SLOT, "appointment_id": "m", "status": "booked", "created": 5, "updated": 6}
WAITS = {**APPOINTMENT, "status": "waitlist", "slot_id": None, "start": None}
TOMBSTONE = {
    **dict.fromkeys(APPOINTMENT),
    **{"appointment_id": "m", "status": "cancelled", "cancelled_by": "c", "created": 5},
}
DELIVERY = {"message": "delivery", "message_id": "m", "outcome": "busy", "sent": 0, "finished": START}
ROWS: dict[str, dict[str, Any]] = {
    "ledger": {"message_id": "m", "status": "IN_PROGRESS", "consumption_count": 1, "updated": 5, "lease_until": 6},
    "slots": SLOT,
    "appointments": APPOINTMENT,
}
OF_EACH_LINE: dict[str, dict[str, Any]] = {
    "deliveries": {**DELIVERY, "sqs_message_id": "s", "consumption_count": 1, "claimed_by": "c", "answer": "a"},
    "accepted": {"message_id": "m", "sent": 1, "copies": 1},
    "dead-letters": {"message_id": "m", "source_message_id": "s"},
    "dropped": {"message_id": "m", "source_message_id": "s", "at": 1},
    "waiting": {"message_id": "m", "sqs_message_id": "s"},
}
OF_KIND: dict[str, list[tuple[Any, Problem | None]]] = {
    "time": [(LATEST, None), (LATEST + 1, RANGE), (-1, RANGE)],
    "count": [(0, None), (LARGEST, None), (LARGEST + 1, RANGE), (-1, RANGE)],
    "id": [("#m", UNKNOWN), ("!m", UNKNOWN), ("?m", UNKNOWN)],
    "moment": [("on Monday", MISSING)],
    "object": [("{", MISSING), ("[]", MISSING), ("{}", None), ('{"a": [1.5]}', None)],
    "word": [("Busy", UNKNOWN)],
    "needed": [(None, MISSING)],
}
KINDS: dict[str, dict[str, str]] = {
    "ledger": {
        **{"message_id": "id needed", "status": "word needed", "consumption_count": "count needed", "unsent": "count"},
        **{"updated": "time needed", "lease_until": "time needed", "result": "object"},
    },
    "slots": {
        **{"practice": "needed", "slot_id": "needed", "status": "word needed", "start": "moment needed"},
        **{"appointment_id": "id"},
    },
    "appointments": {
        **{"appointment_id": "id needed", "status": "word needed", "practice": "needed", "slot_id": "needed"},
        **{"start": "moment needed", "cancelled_by": "id", "created": "time needed", "updated": "time"},
    },
    "deliveries": {
        **{"outcome": "word needed", "finished": "time needed", "sent": "time needed", "message_id": "id"},
        **{"consumption_count": "count"},
    },
    "accepted": {"message_id": "id", "sent": "time needed", "copies": "count"},
    "dropped": {"message_id": "id", "at": "time needed"},
    "waiting": {"message_id": "id"},
    "dead-letters": {"message_id": "id"},
}
"""The kinds of each attribute, as the system writes it, and not as the form says it."""
WITHOUT_IDS = dict.fromkeys(("message_id", "sqs_message_id", "source_message_id"))
ANSWERED = {"status": "COMPLETE", "lease_until": None, "result": "{}"}
DEPENDING: dict[str, list[tuple[dict[str, Any], Problem | None]]] = {
    "ledger": [(ANSWERED, None), ({**ANSWERED, "result": None}, MISSING), ({"lease_until": "long"}, RANGE)],
    "slots": [({"status": "busy", "appointment_id": "m"}, None)],
    "appointments": [
        *((WAITS, None), ({**WAITS, "practice": None}, MISSING)),
        *((TOMBSTONE, None), ({"status": "cancelled"}, MISSING)),
    ],
    **{name: [({"message_id": None}, None), (WITHOUT_IDS, MISSING)] for name in OF_EACH_LINE if name != "accepted"},
}
"""What depends on another attribute."""


def item(usual: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return a line of a full export. A value is a number if it is one in the usual row."""
    given = {key: value for key, value in {**usual, **changes}.items() if value is not None}
    typed = {key: {"N" if type(usual.get(key, value)) is int else "S": str(value)} for key, value in given.items()}
    return {"Item": typed}


def complete(outcome: str, of: str) -> dict[str, Any]:
    """Return the attributes of a COMPLETE row."""
    return {"status": "COMPLETE", "result": json.dumps({"outcome": outcome, "appointment_id": of})}


NAMES: dict[str, tuple[str, dict[str, Any], set[str]]] = {
    "begun": ("ledger", {}, {"m"}),
    "booked": ("ledger", complete("booked", "m"), {"m"}),
    "booked, of another": ("ledger", complete("booked", "x"), {"m"}),
    "cancelled": ("ledger", complete("cancelled", "m"), {"m"}),
    "cancelling another": ("ledger", complete("cancelled", "x"), {"m", "x"}),
    "cancelled, and then begun again": ("ledger", {**complete("cancelled", "x"), "status": "IN_PROGRESS"}, {"m"}),
    "free": ("slots", {}, {"#A81001/s"}),
    "held": ("slots", {"status": "busy", "appointment_id": "m"}, {"#A81001/s", "m"}),
    "booked in a slot": ("appointments", {}, {"m", "#A81001/s"}),
    "waiting": ("appointments", WAITS, {"m"}),
    "cancelled later": ("appointments", {"status": "cancelled", "cancelled_by": "c"}, {"m", "c", "#A81001/s"}),
    "cancelled before it came": ("appointments", TOMBSTONE, {"m", "c"}),
}


@pytest.mark.parametrize("kind", NAMES)
@pytest.mark.parametrize("quick", [True, False])
def test_row_travels_to_each_subject_that_it_names(kind: str, quick: bool) -> None:
    """With the attributes that are declared, and not the patient's number."""
    table, changes, subjects = NAMES[kind]
    text = written([item({**ROWS[table], "nhs_number": "9990000018"}, changes)])
    made = Carried(table, text, quick=quick)
    assert sorted(made.keys) == sorted(subjects)
    sent = {name: value for name, value in {**ROWS[table], **changes}.items() if value is not None}
    assert [row for _, _, row in made.rows] == [sent] * len(subjects)


@pytest.mark.parametrize("source", KINDS)
def test_row_or_line_is_valid_or_has_one_problem(source: str) -> None:
    """A malformed one leaves nothing but its rejection, and a subject that is unreadable if its key can be read."""
    kinds = ((name, kind) for name, several in KINDS[source].items() for kind in several.split())
    of_kinds = [({name: value}, problem) for name, kind in kinds for value, problem in OF_KIND[kind]]
    cases = [*of_kinds, *DEPENDING.get(source, ())]
    usual = ROWS[source] if source in ROWS else OF_EACH_LINE[source]
    lines = [item(usual, changes) if source in ROWS else {**usual, **changes} for changes, _ in cases]
    made = Carried(source, written(lines), Window(None, LATEST + 1))
    expected = {line: problem for line, (_, problem) in enumerate(cases, 1) if problem is not None}
    assert {line: problem for line, problem, _ in made.rejects} == expected
    if source not in ROWS:
        assert len(made.rows) + len(made.rejects) == len(cases)


@pytest.mark.parametrize("quick", [True, False])
def test_delivery_counts_only_inside_the_exports_window(quick: bool) -> None:
    """The window includes its begin and excludes its end; without a begin every earlier line counts."""
    text = written([{**DELIVERY, "message_id": f"{at}", "finished": at} for at in (START - 1, START, END - 1, END)])
    inside, before = (
        [*map(int, Carried("deliveries", text, Window(start, END), quick=quick).keys)] for start in (START, None)
    )
    assert sorted(inside) == [START, END - 1]
    assert sorted(before) == [START - 1, START, END - 1]


def _events(*lines: str) -> str:
    return json.dumps({"logGroup": "g", "logEvents": [{"id": "1", "message": line} for line in lines]})


PLAIN = json.dumps(DELIVERY)
ENVELOPES: dict[str, tuple[str, int, int]] = {
    "a delivery": (PLAIN, 1, 0),
    "a list of deliveries": (f"[{PLAIN}, {PLAIN}]", 2, 0),
    "a delivery, and more": (json.dumps({**DELIVERY, "more": {"message": "delivery"}}), 1, 0),
    "another line": (json.dumps({"message": "cold start", "of": {"message": "deliveries"}}), 0, 0),
    "an object inside": (json.dumps({**DELIVERY, "more": {"of": "}{"}}), 1, 0),
    "deliveries with a comma between": (f"{PLAIN}, {PLAIN}", 1, 1),
    "a delivery with text behind": (f"{PLAIN} and more", 1, 1),
    "deliveries with spaces": (f"{PLAIN}   \r\n\t\r\n{PLAIN}", 2, 0),
    "CloudWatch's events": (_events(PLAIN, PLAIN), 0, 1),
    "a list of events": (f"[{_events(PLAIN)}]", 0, 1),
    "as text": (json.dumps({"timestamp": 1, "message": PLAIN}), 0, 1),
    "as text in text": (json.dumps({"message": json.dumps({"message": PLAIN})}), 0, 1),
    "as an object, without spaces": (f'{{"message":{PLAIN.replace(" ", "")}}}', 0, 1),
}


@pytest.mark.parametrize("name", ENVELOPES)
def test_delivery_in_an_envelope_is_malformed(name: str) -> None:
    """CloudWatch passes lines on in envelopes. Unnoticed they would count as other lines of the consumer: not at all.

    Of lines with other text behind a delivery, the delivery counts, and the rest is one malformed line.
    """
    line, rows, rejects = ENVELOPES[name]
    made = Carried("deliveries", f"{line}\n")
    assert (len(made.rows), len(made.rejects)) == (rows, rejects)


DAMAGED: dict[str, tuple[str, bytes, int, list[int]]] = {
    "cut off": ("deliveries", b'{"message": "x"}\n{"message": "delivery", "message_i\n', 0, [2]),
    "cut off in an archive": ("accepted", b'{"message_id": "m", "sent": 5}\n{"sent": 5}\n{"mess\n', 1, [3]),
    "not UTF-8": ("accepted", b'{"message_id": "m\xff", "sent": 5}\n \t \n', 0, [1]),
    "half a surrogate": ("accepted", b'{"message_id": "m\\ud800", "sent": 5}\n', 0, [1]),
    "NUL": ("accepted", b"\0\0\0\0\n", 0, [1]),
    "an object as id": ("deliveries", written([{**{"message": "delivery"}, "message_id": {"a": 1}}]).encode(), 0, [1]),
    "very many levels": (
        "accepted",
        b'{"message_id": "m", "sent": 5, "a": ' + b"[" * 20_000 + b"]" * 20_000 + b"}\n",
        0,
        [1],
    ),
    "very many digits": ("accepted", b'{"message_id": "m", "sent": 5, "a": ' + b"9" * 5_000 + b"}\n", 1, []),
    "very many digits of a time": ("accepted", b'{"message_id": "m", "sent": ' + b"9" * 5_000 + b"}\n", 0, [1]),
    "NaN": ("accepted", b'{"message_id": "m", "sent": 5, "a": NaN}\n', 0, [1]),
    "a line of 5 MB": ("accepted", b'{"message_id": "m", "sent": 5, "a": "' + b"x" * 5_000_000 + b'"}\n', 1, []),
    "text behind an item": ("ledger", written([{"Item": ROW}]).encode()[:-1] + b" text\n", 0, [1]),
    "an item behind an item": ("ledger", written([{"Item": ROW}]).encode()[:-1] * 2 + b"\n\n", 0, [1]),
    "no object": ("ledger", b"5\n[]\nnull\n", 0, [1, 2, 3]),
    "an item that is none": ("ledger", b'{"Item": 5}\n', 0, [1]),
    "Windows' line ends": ("ledger", written([{"Item": ROW}]).encode()[:-1] + b" \r\n", 1, []),
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_damaged_line_is_a_reject_and_never_an_error(kind: str) -> None:
    """With its number. The lines around it count."""
    source, block, rows, rejected = DAMAGED[kind]
    made = Carried(source, block)
    assert (len(made.rows), [line for line, _, _ in made.rejects]) == (rows, rejected)


WRONG: dict[str, dict[str, Any]] = {
    "of another type": {"M": {"a": {"S": "b"}}},
    "a number": {"N": "7"},
    "a negative number": {"N": "-1"},
    "a fraction": {"N": "1.5"},
    "a large number": {"N": "9" * 20},
    "a text": {"S": "text"},
    "an empty text": {"S": ""},
    "an empty object": {"S": "{}"},
    "half an object": {"S": '{"a":'},
    "a reserved text": {"S": "#a"},
    "a truth": {"BOOL": True},
    "null": {"NULL": True},
}


@pytest.mark.parametrize("kind", ["left out", *WRONG])
@pytest.mark.parametrize("table", ROWS)
def test_check_and_audit_name_the_same_attribute_when_a_row_has_a_wrong_value(table: str, kind: str) -> None:
    from oneslot.runtime.values import from_attributes

    usual = item(ROWS[table], {})["Item"]
    names = AuditConsumer(CONSUMER).model.exports[table].form.attributes
    for name in names:
        row = {key: each for key, each in {**usual, name: WRONG.get(kind)}.items() if each is not None}
        made = Carried(table, written([{"Item": row}]))
        key = CONSUMER.schema.tables[table].key if table != "ledger" else ("message_id",)
        if name in key:
            continue  # a table's key has its type
        values = from_attributes(row)
        if table == "ledger":
            found = [each for _, _, each in lacking(CONSUMER.evidence(ledger={"m": values}))]
        else:
            found = [one.attribute for one in malformed_rows(CONSUMER.schema.tables[table], [values])]
        assert made.attributes == found[:1], name
        assert not made.rejects or made.unreadable
        with pytest.raises(ValueError, match=" ") if found else suppress(ValueError):
            Carried(table, written([{"Item": row}]), quick=True)


@pytest.mark.parametrize("source", FORMS)
@pytest.mark.parametrize("value", [None, 5, -1, 1.5, True, 10**20, "", "text", "#a", ["list"], {"an": "object"}])
def test_check_and_audit_name_the_same_attribute_when_a_line_has_a_wrong_value(
    source: str, value: Any, tmp_path: Path
) -> None:
    """Check refuses an archive with such a line. Letters and drops reach it from the queue and the operator log."""
    for name in FORMS[source].attributes:
        line = {**OF_EACH_LINE[source], name: value}
        if source == "deliveries":
            found = malformed_delivery(line, CONSUMER.schema)
        else:
            found = next(FORMS[source](without_null(line)), None)
        assert Carried(source, written([line])).attributes == ([found] if found else []), name
        if source == "accepted":
            (tmp_path / name).write_text(json.dumps(line) + "\n")
            refused = pytest.raises(InvalidArchive, match="line 1,") if found else nullcontext()
            with refused:
                list(read_archive(tmp_path / name, "stack"))


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 2**70),
    st.floats(),
    st.text(max_size=5),
    st.sampled_from(
        ["m", "#a", "?b", "\ud800", "delivery", "IN_PROGRESS", "COMPLETE", "booked", "cancelled", "free", "busy"]
    ),
    st.sampled_from(["2026-11-23T08:00:00Z", "2026-02-29T08:00:00Z", "2026-11-23", "0x1F", "007", "1E3", "12.50"]),
    st.sampled_from(["{", "{}", '{"a": "b"}', '{"a":1,"b":null}', '{"a":01}', '{"a":1,}', '{"a":"\t"}', "[]"]),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=2), st.integers(), max_size=2),
)
TYPED = st.one_of(VALUES.map(lambda value: {"S": value}), VALUES.map(lambda value: {"N": str(value)}), VALUES)
JUNK = st.sampled_from(
    [b"", b" ", b"\0", b"\xff", b"[]", b"{}", b"5", b'{"Item": {}}{"Item": {}}', b"\r", b'"delivery"']
)


@st.composite
def blocks(draw: st.DrawFn, source: str) -> bytes:
    """Return lines that are usual but for one value, and sometimes text between them."""
    lines = []
    for _ in range(draw(st.integers(1, 4))):
        if source in ROWS:
            row = item(ROWS[source], {})["Item"]
            if draw(st.booleans()):
                row[draw(st.sampled_from(sorted({*row, "result", "unsent", "appointment_id", "price"})))] = draw(TYPED)
            line = json.dumps({"Item": row}, ensure_ascii=draw(st.booleans()))
        else:
            row = {**DELIVERY, "at": 5}
            if draw(st.booleans()):
                row[draw(st.sampled_from([*row, *FORMS[source].attributes, "more"]))] = draw(VALUES)
            line = json.dumps(row, ensure_ascii=draw(st.booleans()))
        if draw(st.integers(0, 9)) == 0:
            line = line[:-1] + ', "status": {"S": "busy"}}'
        lines.append(line.encode(errors="surrogatepass"))
        if draw(st.integers(0, 5)) == 0:
            lines.append(draw(JUNK))
    return b"\n".join(lines) + b"\n"


@pytest.mark.parametrize("source", [*ROWS, *FORMS])
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_quick_reader_gives_equal_rows_or_doubts(source: str, data: st.DataObject) -> None:
    block = data.draw(blocks(source))
    by_lines = Carried(source, block)
    try:
        quick = Carried(source, block, quick=True)
    except ValueError:
        return
    assert quick.rows == by_lines.rows
    assert by_lines.rejects == []


ORDER = {"order_id": {"S": "o"}, "pence": {"N": "1250"}}
PART = {"order_id": {"S": "o"}, "number": {"N": "3"}, "pence": {"N": "12.50"}}


@pytest.mark.parametrize(
    "value", [{"S": "x"}, {"N": "1"}, {"N": "0.5"}, {"BOOL": True}, {"L": [{"N": "1"}]}, {"B": "AA=="}]
)
@pytest.mark.parametrize(("table", "row", "keys"), [("orders", ORDER, ["o"]), ("parts", PART, ["#o/3", "o"])])
def test_attribute_of_any_type_travels(table: str, row: dict[str, Any], keys: list[str], value: dict[str, Any]) -> None:
    """As it is: text as text, and every other type as DynamoDB's JSON. The quick reader takes text and numbers."""
    text = written([{"Item": {**row, "pence": value, "more": {"S": "not declared"}}}])
    made = Carried(table, text, of=SHOP)
    assert made.keys == sorted(keys)
    assert made.rows[0][2]["pence"] == value.get("S", value)
    if value.keys() <= {"S", "N"}:
        assert Carried(table, text, quick=True, of=SHOP).rows == made.rows
    else:
        with pytest.raises(ValueError, match="another type"):
            Carried(table, text, quick=True, of=SHOP)


def test_row_names_a_row_of_two_attributes_by_that_rows_own_key() -> None:
    """Else a law over lists would judge the stock without some of its orders, whose subject is in another chunk."""
    shop = 'name = "shop"\nhandler = "app.handler"\nstack = "Shop"\n[tables.orders]\nkey = "id"\n'
    stock = 'names = "lines.warehouse/lines.sku"\n[tables.stock]\nkey = ["warehouse", "sku"]\n'
    lined, of_stock = parse_declaration(shop + stock, None), {"warehouse": {"S": "north"}, "sku": {"S": "mug"}}
    order = {"id": {"S": "o-1"}, "lines": {"L": [{"M": of_stock}]}}

    named = Carried("orders", written([{"Item": order}]), of=lined)
    own = Carried("stock", written([{"Item": of_stock}]), of=lined)

    assert sorted(key for key, *_ in named.rows) == [own.rows[0][0], "o-1"]
