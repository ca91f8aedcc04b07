"""Tables for effects, and the ledger. The attributes' names are the runtime's, written here as text; a test compares them."""

from typing import Any

from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_kms as kms
from constructs import Construct

from oneslot.cdk.numbers import ContradictorySettings, Numbers
from oneslot.cdk.resources import declared_properties, removal_policy

LEDGER_KEY, LEDGER_EXPIRY, LEDGER_UNSENT = "message_id", "expires_at", "unsent"
UNSENT_INDEX = "unsent"
"""The index of the rows that hold unsent messages: only they have its sort key, so it is as small as what waits."""


class KeyedTable(dynamodb.TableV2):
    """A table that names its key. CDK does not know it, because `new_table` writes it into the template itself."""

    data_key: kms.IKey | None = None


def key_of(table: dynamodb.ITable | dynamodb.ITableV2) -> kms.IKey | None:
    """Return the key that encrypts the table, if it is not AWS's own."""
    return table.data_key if isinstance(table, KeyedTable) else table.encryption_key


def new_table(
    scope: Construct,
    construct_id: str,
    partition_key: str,
    *,
    retain_data: bool = True,
    key: kms.IKey | None = None,
    warm_writes: int = 0,
    maximum_writes: int = 0,
    **properties: Any,
) -> dynamodb.TableV2:
    """Return a table: on demand, restorable to any second of 35 days, encrypted with an audited key.

    Args:
        partition_key: the name of a text attribute.
        retain_data: the table outlives its stack and cannot be deleted by mistake.
        key: encrypts the table in place of AWS's own key for DynamoDB.
        warm_writes: writes a second that the table takes at once; 0 for a new table's 4,000.
        maximum_writes: writes a second above which DynamoDB throttles; 0 for the account's quota.
        properties: further ones of CDK's `TableV2`.
    """
    table = KeyedTable(
        scope,
        construct_id,
        partition_key=text(partition_key),
        billing=dynamodb.Billing.on_demand(max_write_request_units=maximum_writes or None),
        warm_throughput=dynamodb.WarmThroughput(write_units_per_second=warm_writes) if warm_writes else None,
        encryption=dynamodb.TableEncryptionV2.aws_managed_key(),
        point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
            point_in_time_recovery_enabled=True
        ),
        deletion_protection=retain_data,
        removal_policy=removal_policy(retain=retain_data),
        **properties,
    )
    if key:
        table.data_key = key
        # In the template itself: CDK's own way needs the region, and a stack may fit any.
        resource = _resource(table)
        resource.add_property_override("SSESpecification", {"SSEEnabled": True, "SSEType": "KMS"})
        resource.add_property_override("Replicas.0.SSESpecification", {"KMSMasterKeyId": key.key_arn})
    return table


def new_ledger(
    scope: Construct,
    construct_id: str,
    *,
    numbers: Numbers,
    retain_data: bool,
    key: kms.IKey | None,
    streams: bool = False,
) -> dynamodb.TableV2:
    """Return a ledger: one row for each request, which expires unless rows are kept for ever.

    Args:
        streams: give it a stream and an index, by which a relay sends.
    """
    unsent = dynamodb.GlobalSecondaryIndexPropsV2(
        index_name=UNSENT_INDEX,
        partition_key=text(LEDGER_KEY),
        sort_key=dynamodb.Attribute(name=LEDGER_UNSENT, type=dynamodb.AttributeType.NUMBER),
        projection_type=dynamodb.ProjectionType.INCLUDE,
        non_key_attributes=["updated", "sender"],
    )
    ledger = new_table(
        scope,
        construct_id,
        LEDGER_KEY,
        retain_data=retain_data,
        key=key,
        warm_writes=numbers.table_warm_writes,
        maximum_writes=numbers.table_maximum_writes,
        time_to_live_attribute=LEDGER_EXPIRY,
        **(
            {"dynamo_stream": dynamodb.StreamViewType.NEW_IMAGE, "global_secondary_indexes": [unsent]}
            if streams
            else {}
        ),
    )
    if numbers.ledger_retention_seconds is None:
        # Disabled rather than left out: CloudFormation leaves on what a template stops to mention. Older rows stay, too.
        _resource(ledger).add_property_override("TimeToLiveSpecification.Enabled", False)
    return ledger


def text(name: str) -> dynamodb.Attribute:
    """Return a text attribute."""
    return dynamodb.Attribute(name=name, type=dynamodb.AttributeType.STRING)


def _resource(table: dynamodb.TableV2) -> dynamodb.CfnGlobalTable:
    resource = table.node.default_child
    if not isinstance(resource, dynamodb.CfnGlobalTable):
        raise TypeError("a table's default child is its CloudFormation resource")
    return resource


WITH_NEW_IMAGES = ("NEW_IMAGE", "NEW_AND_OLD_IMAGES")
"""The view types of a stream that shows what to send, as `oneslot relay` takes them; a test compares them."""

KINDS = {"N": "number", "B": "binary"}
"""DynamoDB's types of a key beside text."""


def key_declaration(table: dynamodb.ITable | dynamodb.ITableV2) -> str:
    """Return a table's key with its types, and the attributes in keys of its indexes; empty for an imported table.

    Such as `customer:S,line:N;email:S`, the partition key first.
    """
    declared = declared_properties(table, {})
    types = {each["attributeName"]: each["attributeType"] for each in declared.get("attributeDefinitions", ())}
    schema = sorted(declared.get("keySchema", ()), key=lambda each: str(each["keyType"]))  # HASH, RANGE
    names = [each["attributeName"] for each in schema]
    of_table, of_indexes = (
        ",".join(f"{name}:{types[name]}" for name in part) for part in (names, sorted(types.keys() - {*names}))
    )
    return f"{of_table};{of_indexes}" if of_indexes else of_table


def check_ledger(table: dynamodb.ITable | dynamodb.ITableV2, *, expires: bool, sends: bool) -> None:
    """Refuse a table that cannot be a ledger.

    Raises:
        ContradictorySettings: its key is another one, no time to live deletes the rows that should expire, or the relay of a
            consumer that sends could not see what to send.
    """
    if sends and not table.table_stream_arn:
        raise ContradictorySettings(
            f"existing_ledger {table.node.path} shows no stream, by which the relay learns what to send; give it a "
            "stream of new images, and import it with its table_stream_arn"
        )
    declared = declared_properties(table, {})
    if not declared:
        return
    keys = [key["attributeName"] for key in declared["keySchema"]]
    if keys != [LEDGER_KEY]:
        raise ContradictorySettings(
            f"existing_ledger {table.node.path} has the key {' + '.join(keys)}, and a ledger's key is {LEDGER_KEY} alone; "
            "pass another table, or omit existing_ledger for a new one"
        )
    kinds = {each["attributeName"]: each["attributeType"] for each in declared.get("attributeDefinitions", ())}
    if (kind := kinds.get(LEDGER_KEY, "S")) != "S":
        raise ContradictorySettings(
            f"existing_ledger {table.node.path} has the key {LEDGER_KEY} of type {KINDS[kind]}, and a message's id is text; "
            "pass another table, or omit existing_ledger for a new one"
        )
    lives = declared.get("timeToLiveSpecification") or {}
    if expires and lives.get("attributeName") != LEDGER_EXPIRY:
        raise ContradictorySettings(
            f"existing_ledger {table.node.path} has no time to live on {LEDGER_EXPIRY}, so its rows would never be "
            f"deleted; set its time_to_live_attribute to {LEDGER_EXPIRY!r}, or ledger_retention_seconds to None"
        )
    if not sends:
        return
    view = declared.get("streamSpecification", {}).get("streamViewType")
    if view not in WITH_NEW_IMAGES:
        raise ContradictorySettings(
            f"existing_ledger {table.node.path} has a stream of {view}, in which the relay would see nothing to send; "
            f"set it to {' or '.join(WITH_NEW_IMAGES)}"
        )
    if UNSENT_INDEX not in {each["indexName"] for each in declared.get("globalSecondaryIndexes", ())}:
        raise ContradictorySettings(
            f"existing_ledger {table.node.path} has no index {UNSENT_INDEX!r}, by which the relay repeats what failed; add "
            f"a global index of that name on {LEDGER_KEY} and {LEDGER_UNSENT}, a number, with updated and sender"
        )
