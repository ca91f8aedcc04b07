"""The stand-in, fast enough for millions of calls.

Requests, answers and errors have the shapes of boto3's client. An unknown parameter or option raises `UnsupportedRequest`.
`tests/oneslot/dynamodb_in_memory` compares it with moto by random calls; where moto differs, AWS's documentation decides.
Not modelled: eventual consistency, capacity, item sizes, time to live, paging by size.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from oneslot.dynamodb_in_memory.answers import answer, refuse_unknown
from oneslot.dynamodb_in_memory.contents import Index, TableSchema
from oneslot.dynamodb_in_memory.reads import Reads
from oneslot.dynamodb_in_memory.writes import Writes


class InMemoryDynamoDB(Reads, Writes):
    """The stand-in. Each public method is an operation, with boto3's name and parameters."""

    def create_table(self, **request: Any) -> Mapping[str, Any]:
        """Create a table from boto3's parameters."""
        refuse_unknown(
            "CreateTable",
            request,
            "TableName KeySchema AttributeDefinitions BillingMode LocalSecondaryIndexes GlobalSecondaryIndexes",
        )
        self.tables[request["TableName"]] = table_of(request)
        self.contents.tables[request["TableName"]] = {}
        return answer({})


def table_of(definition: Mapping[str, Any]) -> TableSchema:
    """Return a table from CreateTable's parameters, which are CloudFormation's properties, too."""
    keys = _key_schema(definition["KeySchema"])
    indexes = {
        index["IndexName"]: _index(index, is_global=kind == "GlobalSecondaryIndexes")
        for kind in ("LocalSecondaryIndexes", "GlobalSecondaryIndexes")
        for index in definition.get(kind, ())
    }
    types = {one["AttributeName"]: one["AttributeType"] for one in definition.get("AttributeDefinitions", ())}
    return TableSchema(keys["HASH"], keys.get("RANGE", ""), indexes, types)


def _index(definition: Mapping[str, Any], *, is_global: bool) -> Index:
    keys, projection = _key_schema(definition["KeySchema"]), definition.get("Projection", {})
    projected = tuple(projection.get("NonKeyAttributes", ())) if projection.get("ProjectionType") != "ALL" else None
    return Index(keys["HASH"], keys.get("RANGE", ""), projected, is_global)


def _key_schema(elements: Iterable[Mapping[str, str]]) -> dict[str, str]:
    return {element["KeyType"]: element["AttributeName"] for element in elements}
