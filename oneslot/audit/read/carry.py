"""Spark only carries: each row and line of a source, as JSON, to every subject that it names.

A carried row has three columns. `key` is the subject: a request's id, or `#a/b` for a row with a key of two attributes.
`place` is the number of the source from 1, negative for an old image, which takes the equal row back. `row` is JSON. A row that
cannot be used becomes a reject of its file: only a file with rejects is read a second time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, BooleanType, StringType, StructField, StructType

from oneslot.audit.judged import NOT_TEXT, REJECTED
from oneslot.audit.read.sources import CORRUPT, PATH
from oneslot.laws.form import FILE_PREFIX, ROW_PREFIX, UNIDENTIFIED_PREFIX, Problem

CARRIED = "key string, place int, row string"
COLUMNS = ("key", "place", "row")
ANY_TYPE = StructType(
    [
        *(StructField(name, StringType()) for name in ("S", "N", "B", "L", "M")),
        *(StructField(name, BooleanType()) for name in ("BOOL", "NULL")),
        *(StructField(name, ArrayType(StringType())) for name in ("SS", "NS", "BS")),
    ]
)
"""An attribute of DynamoDB's JSON. Spark returns lists and maps as the text that they are."""
Ask = Callable[[str, int, str], Iterable[tuple[str, int, str]]]
"""A carried row (key, place, text) → that row under each subject that the consumer's functions say it names."""


@dataclass(frozen=True)
class ExportedTable:
    """How the rows of an exported table are read, checked and carried. Attributes that it does not name are never read.

    Attributes:
        key: the attributes of the table's key.
        texts, numbers: attributes of one type; a number has its largest value.
        anything: attributes of any type.
        subjects: SQL of each subject that a row names, its own first.
        problems: SQL that is true for a row that cannot be used.
        derived: further columns for `problems`, in SQL over `Item`.
        asks: whether functions of the consumer say which subjects a row names, or what it lacks.
        known: all attributes that a row may have; empty if it may have any.
        counted: the column of verdicts that counts its rows.
        wanted: attributes that some row must have, with the name in the declaration that says so.
    """

    key: tuple[str, ...]
    texts: tuple[str, ...]
    subjects: tuple[str, ...]
    problems: Mapping[Problem, str]
    counted: str
    numbers: Mapping[str, int] = field(default_factory=dict)
    anything: tuple[str, ...] = ()
    derived: tuple[str, ...] = ()
    asks: bool = False
    known: frozenset[str] = frozenset()
    wanted: Mapping[str, str] = field(default_factory=dict)

    @property
    def schema(self) -> StructType:
        """The schema of an item."""
        of_type = [*((name, "S") for name in self.texts), *((name, "N") for name in self.numbers)]
        typed = [StructField(name, StructType([StructField(kind, StringType())])) for name, kind in of_type]
        return StructType([*typed, *(StructField(name, ANY_TYPE) for name in self.anything)])

    @property
    def columns(self) -> list[str]:
        """SQL of the attributes, `bad` for a number that is not one, and what else the checks need."""
        return [
            *(f"Item.`{name}`.S AS `{name}`" for name in self.texts),
            *(f"{_whole(name)} AS `{name}`" for name in self.numbers),
            *(f"Item.`{name}` AS `{name}`" for name in self.anything),
            *self.derived,
            f"{bad_number(self.numbers)} AS bad",
            *("sign", "outside", CORRUPT, PATH),
        ]

    @property
    def row(self) -> str:
        """SQL of a row as JSON: text and whole numbers as they are, all else under `NOT_TEXT` as DynamoDB's JSON."""
        plain = [f"`{name}`" for name in (*self.texts, *self.numbers)]
        texts = [f"`{name}`.S AS `{name}`" for name in self.anything]
        others = ", ".join(f"CASE WHEN `{name}`.S IS NULL THEN `{name}` END AS `{name}`" for name in self.anything)
        any_other = " OR ".join(f"(`{name}` IS NOT NULL AND `{name}`.S IS NULL)" for name in self.anything)
        more = [f"CASE WHEN {any_other} THEN struct({others}) END AS `{NOT_TEXT}`"] if self.anything else []
        return f"to_json(struct({', '.join([*plain, *texts, *more])}))"


def _whole(name: str) -> str:
    return f"try_cast(Item.`{name}`.N AS BIGINT)"


def bad_number(largest: Mapping[str, int]) -> str:
    """Return SQL that is true where a number is present but not a whole number from 0 to its maximum."""
    bad = (
        f"(Item.`{name}`.N IS NOT NULL AND NOT coalesce({_whole(name)} BETWEEN 0 AND {bound}, false))"
        for name, bound in largest.items()
    )
    return " OR ".join(bad) or "false"


def absent(*names: str) -> str:
    """Return SQL that is true where one of the columns is null."""
    return f"({' OR '.join(f'{name} IS NULL' for name in names)})"


def reserved(key: str) -> str:
    """Return SQL that is true where an id begins with a prefix reserved for other keys; false for null."""
    return f"coalesce(substring({key}, 1, 1) IN ('{ROW_PREFIX}', '{FILE_PREFIX}', '{UNIDENTIFIED_PREFIX}'), false)"


def key_of_row(*parts: str) -> str:
    """Return SQL of the key of a row with a key of several attributes. Its `#` keeps it apart from message ids."""
    joined = ", '/', ".join(parts)
    return f"concat('{ROW_PREFIX}', {joined})"


def first_problem(conditions: Mapping[Problem, str]) -> str:
    """Return SQL for the first problem of a row, or null. NOT_JSON is first: the row has no other columns then.

    Conditions are SQL. Null counts as false.
    """
    of_all = {
        Problem.NOT_JSON: f"{CORRUPT} IS NOT NULL",
        Problem.OUTSIDE_WINDOW: "outside",
        Problem.OUT_OF_RANGE: "bad",
    }
    asked = [*of_all.items(), *conditions.items()]
    return f"CASE {' '.join(f'WHEN {condition} THEN {int(problem)}' for problem, condition in asked)} END"


def carried(rows: DataFrame, place: int, problem: str, row: str, subjects: Iterable[str]) -> DataFrame:
    """Return each row under every subject that it names, or one reject of its file if it has a problem.

    A rejected old image is taken back from no file, because the file that counted it is not known.
    """
    wanted = ", ".join(subjects)
    several = f"array_distinct(array({wanted}))" if "," in wanted else f"array({wanted})"
    file = f"CASE WHEN outside OR sign > 0 THEN concat('{FILE_PREFIX}', {PATH}) ELSE '{FILE_PREFIX}' END"
    judged = rows.selectExpr("*", f"{problem} AS problem")
    # Spark evaluates what stands beside an explode for every element, so the row is made before.
    once = judged.selectExpr(
        f"CASE WHEN problem IS NULL THEN {several} ELSE array({file}) END AS keys",
        # Outside the window the line is rejected as a whole.
        f"CASE WHEN problem IS NULL THEN sign * {place} WHEN outside THEN {REJECTED} ELSE sign * {REJECTED} END AS place",
        f"CASE WHEN problem IS NULL THEN {row} ELSE CAST(problem AS STRING) END AS row",
    )
    return once.selectExpr("explode(keys) AS key", "place", "row").where("key IS NOT NULL")


def carried_items(items: DataFrame, place: int, table: ExportedTable, ask: Ask | None) -> DataFrame:
    """Return the items of an export, as `images` or `whole_items` has them, under every subject that they name."""
    read = items.selectExpr(*table.columns)
    problem = first_problem(table.problems)
    if not table.asks or ask is None:
        return carried(read, place, problem, table.row, table.subjects)
    # The file takes the place of the subject, until the consumer's functions have said which it is.
    files = carried(read, place, problem, table.row, [f"concat('{FILE_PREFIX}', {PATH})"])
    return files.mapInArrow(partial(asked, ask=ask), CARRIED)


def asked(batches: Iterable[pa.RecordBatch], ask: Ask) -> Iterable[pa.RecordBatch]:
    """Yield each carried row under the subjects that the consumer's functions say it names."""
    for batch in batches:
        rows = zip(*(batch.column(name).to_pylist() for name in COLUMNS), strict=True)
        found = [each for key, place, row in rows for each in ask(key, place, row)]
        arrays = [pa.array(column, kind) for column, kind in zip(zip(*found, strict=True), _TYPES, strict=False)]
        yield pa.RecordBatch.from_arrays(arrays or [pa.array([], kind) for kind in _TYPES], names=list(COLUMNS))


_TYPES = (pa.string(), pa.int32(), pa.string())
