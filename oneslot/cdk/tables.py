"""Tables for effects, and the ledger. The attributes' names are the runtime's, written here as text; a test compares them."""

from __future__ import annotations

from typing import Any

from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_kms as kms
from constructs import Construct

from oneslot.cdk.numbers import Numbers
from oneslot.cdk.resources import removal_policy

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
