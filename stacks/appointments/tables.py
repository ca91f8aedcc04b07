"""The three tables. The attributes' names are the runtime's, written here as text; a test compares them."""

from __future__ import annotations

from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_kms as kms
from constructs import Construct

from stacks.settings import Settings
from stacks.shared.resources import removal_policy

FREE_SLOTS_INDEX = "free_slots"


class Tables(Construct):
    """Ledger, slots and appointments: on demand, restorable to any second of 35 days, encrypted with an audited key.

    Attributes:
        ledger: one row for each request. The only table whose rows expire, unless they are kept for ever.
        slots: one row for each slot of a practice. Only free slots have `free_key`, so only they are in the index. It is a
            local index rather than a global one, because only a local one can be read consistently. It holds keys alone.
        appointments: one row for each answer to a booking.
    """

    def __init__(self, scope: Construct, construct_id: str, *, settings: Settings, key: kms.IKey | None = None) -> None:
        super().__init__(scope, construct_id)
        self._settings = settings
        self._key = key
        self.ledger = self._table("Ledger", "message_id", time_to_live_attribute="expires_at")
        if settings.ledger_retention_seconds is None:
            # Disabled rather than left out: CloudFormation leaves on what a template stops to mention. Older rows stay, too.
            _resource(self.ledger).add_property_override("TimeToLiveSpecification.Enabled", False)
        self.slots = self._table(
            "Slots",
            "practice",
            sort_key=_text("slot_id"),
            local_secondary_indexes=[
                dynamodb.LocalSecondaryIndexProps(
                    index_name=FREE_SLOTS_INDEX,
                    sort_key=_text("free_key"),
                    projection_type=dynamodb.ProjectionType.KEYS_ONLY,
                )
            ],
        )
        self.appointments = self._table("Appointments", "appointment_id")

    def _table(
        self,
        construct_id: str,
        partition_key: str,
        *,
        sort_key: dynamodb.Attribute | None = None,
        local_secondary_indexes: list[dynamodb.LocalSecondaryIndexProps] | None = None,
        time_to_live_attribute: str | None = None,
    ) -> dynamodb.TableV2:
        table = dynamodb.TableV2(
            self,
            construct_id,
            partition_key=_text(partition_key),
            sort_key=sort_key,
            local_secondary_indexes=local_secondary_indexes,
            time_to_live_attribute=time_to_live_attribute,
            billing=dynamodb.Billing.on_demand(),
            encryption=dynamodb.TableEncryptionV2.aws_managed_key(),
            point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=True
            ),
            deletion_protection=self._settings.retain_data,
            removal_policy=removal_policy(self._settings),
        )
        if self._key:
            self._encrypt(table, self._key)
        return table

    @staticmethod
    def _encrypt(table: dynamodb.TableV2, key: kms.IKey) -> None:
        """Write the key into the template: CDK's own way needs the region, and this stack fits any."""
        resource = _resource(table)
        resource.add_property_override("SSESpecification", {"SSEEnabled": True, "SSEType": "KMS"})
        resource.add_property_override("Replicas.0.SSESpecification", {"KMSMasterKeyId": key.key_arn})


def _resource(table: dynamodb.TableV2) -> dynamodb.CfnGlobalTable:
    resource = table.node.default_child
    if not isinstance(resource, dynamodb.CfnGlobalTable):
        raise TypeError("a table's default child is its CloudFormation resource")
    return resource


def _text(name: str) -> dynamodb.Attribute:
    return dynamodb.Attribute(name=name, type=dynamodb.AttributeType.STRING)
