"""The one narrow shape that every source becomes, so that a single shuffle joins what belongs together.

A transform turns the rows of one source into facts. A row that cannot be used becomes a REJECT fact of its file: the same
shuffle counts it, and only a file with rejected rows is read a second time.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from oneslot.pipeline.read.sources import CORRUPT, PATH
from oneslot.pipeline.vocabulary import FILE_PREFIX, Kind, Problem

LATEST_EPOCH_MS = 4_102_444_800_000  # the year 2100
LARGEST_COUNT = 1_000_000_000

FACT_COLUMNS = {
    "key": "string",
    "kind": "int",
    "sign": "int",
    "code": "int",
    "number": "bigint",
    "at": "bigint",
    "until": "bigint",
    "link": "bigint",
    "extra": "bigint",
}
"""The columns of a fact. `sign`: +1 for the present state, -1 for an old image, which takes back an earlier fact. `code`: a
value of a vocabulary. `number`: a count. `at`, `until`: epoch ms. `link`: the hash of another key. `extra`: for a delivery
the hash of its answer, else a number of the consumer's."""


def fact(key: Column, kind: int, **values: Column) -> Column:
    """Return one fact as a struct. A value that is not given is 0, or null for `at`, `until` and `extra`."""
    given = {"key": key, **values}
    usual = {"kind": int(kind), "sign": 1, "code": 0, "number": 0, "link": 0}
    columns = [
        given[name].cast(kind_of).alias(name)
        if name in given
        else F.expr(f"CAST({usual.get(name, 'NULL')} AS {kind_of}) AS {name}")
        for name, kind_of in FACT_COLUMNS.items()
    ]
    return F.struct(*columns)


def no_facts(spark: SparkSession) -> DataFrame:
    """Return no rows, in the shape of facts."""
    nothing = [F.lit(None).cast(kind_of).alias(name) for name, kind_of in FACT_COLUMNS.items()]
    return spark.range(0).select(*nothing)


def facts_or_reject(rows: DataFrame, problem: Column, *facts: Column) -> DataFrame:
    """Return each row's facts that are not null, or one REJECT fact of its file if the row has a problem.

    A rejected old image is taken back from no file, because the file that counted it is not known.
    """
    judged = rows.withColumn("problem", problem)
    sound = F.col("problem").isNull()
    sign = F.when(F.col("outside"), 1).otherwise(F.col("sign"))  # outside the window the line is rejected as a whole
    file = F.when(sign > 0, F.col(PATH)).otherwise("")
    reject = fact(F.concat(F.lit(FILE_PREFIX), file), Kind.REJECT, sign=sign, code=F.col("problem"))
    first, *others = facts
    wanted = F.array(F.when(sound, first).otherwise(reject), *(F.when(sound, other) for other in others))
    exploded = judged.select(F.explode(wanted).alias("fact")).where(F.col("fact").isNotNull())
    return exploded.select("fact.*")


def first_problem(conditions: Mapping[Problem, str]) -> Column:
    """Return the code of the first problem of a row, or null. NOT_JSON is first: the row has no other columns then.

    Conditions are SQL. Null counts as false.
    """
    of_all = {
        Problem.NOT_JSON: f"{CORRUPT} IS NOT NULL",
        Problem.OUTSIDE_WINDOW: "outside",
        Problem.OUT_OF_RANGE: "bad",
    }
    asked = [*of_all.items(), *conditions.items()]
    return F.expr(f"CASE {' '.join(f'WHEN {condition} THEN {int(problem)}' for problem, condition in asked)} END")
