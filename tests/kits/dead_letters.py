"""Dead letters on the moto stack."""

from __future__ import annotations

from tests.kits.consumer import booking, cancellation, record
from tests.kits.moto_stack import NOW, MotoStack


def put_one_of_each(stack: MotoStack) -> None:
    """Put dead letters of every outlook, named by their ids."""
    stack.bench.deliver(record(booking("duplicate", **NOW)), record(booking("done_before", **NOW)))
    stack.bench.deliver(record(booking("conflict", **NOW)))
    stack.bench.deliver(record(booking("forgotten", **NOW)))
    for name in ("done_before", "forgotten"):
        stack.bench.dynamodb.delete_item(TableName="ledger", Key={"message_id": {"S": name}})
    for name, lease in (("stuck", 1), ("busy", 4_000_000_000_000)):
        stack.bench.deliver(record(booking(name, **NOW)))
        stack.bench.dynamodb.update_item(
            TableName="ledger",
            Key={"message_id": {"S": name}},
            UpdateExpression="SET #status = :in_progress, lease_until = :lease REMOVE #result",
            ExpressionAttributeNames={"#status": "status", "#result": "result"},
            ExpressionAttributeValues={":in_progress": {"S": "IN_PROGRESS"}, ":lease": {"N": str(lease)}},
        )
        stack.bench.dynamodb.delete_item(TableName="appointments", Key={"appointment_id": {"S": name}})
    for name in ("duplicate", "done_before", "stuck", "busy", "retried"):
        stack.put_dead_letter(booking(name, **NOW))
    for name in ("conflict", "forgotten"):
        stack.put_dead_letter(booking(name, **NOW, service_type="Clinical Triage"))
    stack.put_dead_letter(booking("refused", not_before="2020-01-01T08:00:00Z", not_after="2020-01-02T08:00:00Z"))
    stack.put_dead_letter(booking("unknown", **NOW, practice="ZZZ999"))
    stack.put_dead_letter(cancellation("no-appointment", "cancelled"))
    stack.bench.deliver(record(booking("invalid", nhs_number="9990000019")), record("no JSON"))


def put_bookings(stack: MotoStack, count: int) -> frozenset[str]:
    """Put `count` bookings, m-0 and so on. Return their SQS ids."""
    return frozenset(stack.put_dead_letter(booking(f"m-{number}", **NOW)) for number in range(count))
