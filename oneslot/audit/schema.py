"""The columns of an audit's outputs, for readers of other tools.

    python -m oneslot.audit.schema       print each table, with its query in DuckDB and its statement for Athena

Readers find columns by name. A version of the audit may add columns; to rename, retype or remove one it raises `VERSION`.
"""

import sys
import textwrap
from dataclasses import dataclass

from oneslot.audit.conclusion import VERSION
from oneslot.audit.model import Model, model_of
from oneslot.audit.write.findings import COLUMNS
from oneslot.declaration.reading import declared

TEXT, WHOLE = "string", "bigint"


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
    def athena(self) -> str:
        """The statement that makes the table known to Athena, for an audit in s3://BUCKET/audits/AUDIT."""
        each = ", ".join(
            f"`{name}`\N{NO-BREAK SPACE}{kind}" for name, kind in self.columns.items() if name != self.partition
        )
        columns = "\n  ".join(textwrap.wrap(each, WIDTH)).replace("\N{NO-BREAK SPACE}", " ")
        divided = f" PARTITIONED BY (`{self.partition}` {TEXT})" if self.partition else ""
        place = f"LOCATION 's3://BUCKET/audits/AUDIT/{self.folder}/'"
        return f"CREATE EXTERNAL TABLE {self.name} (\n  {columns}\n){divided} STORED AS PARQUET {place}"


WIDTH = 100


def outputs(model: Model) -> list[Output]:
    """Return every table of an audit of a consumer."""
    return [
        Output("verdicts", {"hash": WHOLE} | model.columns),
        Output("findings", dict(COLUMNS)),
        *(Output(f"operations/{table.name}", table.columns, table.partition) for table in model.tables),
        *(Output(f"operations/{summary.name}", dict(summary.columns)) for summary in model.summaries),
    ]


CURRENT = """SELECT * FROM (
  FROM read_parquet(['DAY-0/verdicts/*.parquet', 'DAY-1/verdicts/*.parquet'], filename = true, union_by_name = true)
  QUALIFY row_number() OVER (PARTITION BY key ORDER BY filename DESC) = 1
) WHERE subject <> 'gone'"""
"""The verdicts of several days, in DuckDB's SQL."""
INTRODUCTION = f"""# The tables of an audit

An audit is a folder of Parquet tables, version {VERSION}. Each has its query in DuckDB and its statement for Athena;
Spark reads the same folder with `spark.read.parquet`. Read columns by name: a later version may add some.
`ONESLOT_CONSUMER=FILE python -m oneslot.audit.schema` lists those of another consumer.

In `verdicts` a null count stands for 0. `ledger_outcome` and `delivered_outcome` number the answers in the declaration's order,
from 1. `evidence` is what an audit with `--continue` keeps for the next. After an audit of changes `verdicts` holds that day's
rows, and `layers` in `audit.json` names the folders of all days. The newest row of each key, where later folders sort later:

```sql
{CURRENT}
```
"""


def page(model: Model) -> str:
    """Return the tables of a consumer's audits as Markdown."""
    parts = [INTRODUCTION]
    for output in outputs(model):
        lines = [f"-- DuckDB\n{output.duckdb}", f"-- Athena\n{output.athena}"]
        lines += [f"MSCK REPAIR TABLE {output.name}"] if output.partition else []
        block = "\n".join(lines)
        parts.append(f"## {output.name}\n\n```sql\n{block}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    sys.stdout.write(page(model_of(declared())))
