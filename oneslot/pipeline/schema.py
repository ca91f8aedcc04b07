"""The columns of an audit's outputs, for readers of other tools, and the page that lists them.

    python -m oneslot.pipeline.schema       print docs/look-up/audit-schema.md

Readers find columns by name. A version of the audit may add columns; to rename, retype or remove one it raises `VERSION`.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from oneslot.pipeline.judge.conclusion import VERSION
from oneslot.pipeline.judge.measures import MEASURES
from oneslot.pipeline.judge.operations import COUNTED, NUMBERS, PERCENTILES, TABLES

TEXT, WHOLE, FRACTION = "string", "bigint", "double"


@dataclass(frozen=True)
class Output:
    """One table of an audit: its folder, its columns with Spark's types, and the column that divides it into folders."""

    folder: str
    columns: dict[str, str]
    partition: str | None = None

    @property
    def name(self) -> str:
        """The table's name."""
        return self.folder.rpartition("/")[2]

    @property
    def duckdb(self) -> str:
        """The table in DuckDB's SQL, for an audit in the folder AUDIT."""
        if self.partition:
            return f"FROM read_parquet('AUDIT/{self.folder}/*/*.parquet', hive_partitioning = true)"
        return f"FROM read_parquet('AUDIT/{self.folder}/*.parquet')"

    @property
    def spark(self) -> str:
        """The table in PySpark."""
        return f'spark.read.parquet("AUDIT/{self.folder}")'

    @property
    def athena(self) -> str:
        """The statement that makes the table known to Athena, for an audit in s3://BUCKET/audits/AUDIT."""
        columns = ",\n  ".join(f"`{name}` {kind}" for name, kind in self.columns.items() if name != self.partition)
        divided = f" PARTITIONED BY (`{self.partition}` {TEXT})" if self.partition else ""
        place = f"LOCATION 's3://BUCKET/audits/AUDIT/{self.folder}/'"
        return f"CREATE EXTERNAL TABLE {self.name} (\n  {columns}\n){divided} STORED AS PARQUET {place}"


def _operations() -> list[Output]:
    found = []
    for table in TABLES:
        texts = {name: WHOLE if name in NUMBERS and name != "GP_CODE" else TEXT for name in table.dimensions}
        columns = {**texts, **dict.fromkeys(table.figures, WHOLE)}
        found.append(Output(f"operations/{table.name}", columns, table.partition))
    counts, slots = dict.fromkeys(COUNTED, WHOLE), ("COUNT_OF_SLOTS", "COUNT_OF_BUSY_SLOTS")
    latencies = {f"LATENCY_{name}_MS": WHOLE for name in PERCENTILES}
    days = {"DATE": TEXT, **counts, "DUPLICATE_RATE": FRACTION, **latencies}
    rates = dict.fromkeys(("DUPLICATE_RATE", "UTILISATION"), FRACTION)
    practices = {"GP_CODE": TEXT, **counts, **dict.fromkeys(slots, WHOLE), **rates}
    return [*found, Output("operations/days", days), Output("operations/practices", practices)]


JUDGEMENT = {"hash": WHOLE, "key": TEXT, "subject": TEXT, "verdict": TEXT, "violations": TEXT}
OUTPUTS = (
    Output("verdicts", JUDGEMENT | {measure.name: WHOLE for measure in MEASURES}),
    Output("findings", dict.fromkeys(("subject", "id", "verdict", "invariant"), TEXT)),
    *_operations(),
)
"""Every table of an audit."""

INTRODUCTION = f"""# The tables of an audit

<!-- Made by `python -m oneslot.pipeline.schema`. -->

An audit is a folder of Parquet tables, version {VERSION}. Athena's statements list the columns and types.
Read columns by name: a later version may add some.

In `verdicts` null stands for 0, and in `claim_high` and `answer_high` for the value of `claim_low` and `answer_low`.
After an audit of changes `verdicts` holds the rows of that day.
`oneslot.pipeline.write.finished.current_verdicts(spark, "AUDIT")` reads the newest row of each key over all days.
"""


def page() -> str:
    """Return the page as Markdown."""
    parts = [INTRODUCTION]
    for output in OUTPUTS:
        lines = [f"-- DuckDB\n{output.duckdb}", f"-- Spark\n{output.spark}", f"-- Athena\n{output.athena}"]
        lines += [f"MSCK REPAIR TABLE {output.name}"] if output.partition else []
        block = "\n".join(lines)
        parts.append(f"## {output.name}\n\n```sql\n{block}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    sys.stdout.write(page())
