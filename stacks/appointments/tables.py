"""The tables of a booking's effects. The attributes' names are the runtime's, written here as text; a test compares them."""

from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_kms as kms
from constructs import Construct

from oneslot.cdk import Numbers, TableRights, new_table
from oneslot.cdk.tables import text

FREE_SLOTS_INDEX = "free_slots"


class AppointmentTables(Construct):
    """Slots and appointments.

    Attributes:
        slots: one row for each slot of a practice. Only free slots have `free_key`, so only they are in the index. It is a
            local index rather than a global one, because only a local one can be read consistently. It holds keys alone.
        appointments: one row for each answer to a booking.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, numbers: Numbers, retain_data: bool, key: kms.IKey | None = None
    ) -> None:
        super().__init__(scope, construct_id)
        capacity = {"warm_writes": numbers.table_warm_writes, "maximum_writes": numbers.table_maximum_writes}
        self.slots = new_table(
            self,
            "Slots",
            "practice",
            sort_key=text("slot_id"),
            local_secondary_indexes=[
                dynamodb.LocalSecondaryIndexProps(
                    index_name=FREE_SLOTS_INDEX,
                    sort_key=text("free_key"),
                    projection_type=dynamodb.ProjectionType.KEYS_ONLY,
                )
            ],
            retain_data=retain_data,
            key=key,
            **capacity,
        )
        self.appointments = new_table(
            self, "Appointments", "appointment_id", retain_data=retain_data, key=key, **capacity
        )

    def rights(self) -> dict[str, TableRights]:
        """Return each table by the name that a decision writes to, with the calls that the booking makes."""
        return {
            "slots": TableRights(
                table=self.slots,
                actions=["dynamodb:Query", "dynamodb:UpdateItem"],
                indexes={FREE_SLOTS_INDEX: ["dynamodb:Query"]},
            ),
            "appointments": TableRights(
                table=self.appointments, actions=["dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"]
            ),
        }
