"""Delivery of the outbox: each mail at least once, with one key for all attempts, and not again once it is marked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from oneslot.runtime.handlers import make_handler_idempotent
from oneslot.runtime.protocol import Store
from oneslot.runtime.values import from_attributes

Mail = Mapping[str, Any]


class Mailer(Protocol):
    """A mail provider."""

    def send(self, mail: Mail, idempotency_key: str) -> str:
        """Send the mail and return the provider's id. A provider that accepts the key sends a repeated mail once."""


@dataclass(frozen=True, slots=True)
class SesMailer:
    """Amazon SES. It accepts no idempotency key, so a crash between its answer and our mark sends the mail twice.

    The key is sent as a tag, which identifies the two in SES's event log.
    """

    client: Any
    sender: str

    def send(self, mail: Mail, idempotency_key: str) -> str:
        """Send the mail and return SES's MessageId."""
        text = f"You were given a gift card over £{mail['pence'] / 100:.2f}. Its code is {mail['code']}."
        answer = self.client.send_email(
            FromEmailAddress=self.sender,
            Destination={"ToAddresses": [mail["to"]]},
            Content={"Simple": {"Subject": {"Data": "A gift card for you"}, "Body": {"Text": {"Data": text}}}},
            EmailTags=[{"Name": "idempotency-key", "Value": tag(idempotency_key)}],
        )
        return str(answer["MessageId"])


def tag(key: str) -> str:
    """Return a key in the letters, digits, hyphens and underscores of SES's tags."""
    return "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in key)


def deliver_stream(
    ledger: Store, mailer: Mailer, lock_timeout: float
) -> Callable[[Mapping[str, Any]], dict[str, list[dict[str, str]]]]:
    """Return the stream's consumer: an event → a partial batch response with the first record that failed.

    Lambda continues with that record, in order, and reads no earlier one again.
    """

    def send(mail: Mail, idempotency_key: str) -> dict[str, str]:
        return {"provider_id": mailer.send(mail, idempotency_key)}

    # No order's id has a slash. Without it, an order could take a mail's place in the ledger.
    deliver = make_handler_idempotent(send, lambda mail: f"mail/{mail['mail_id']}", ledger, lock_timeout)

    def consume(event: Mapping[str, Any]) -> dict[str, list[dict[str, str]]]:
        records: Sequence[Mapping[str, Any]] = event["Records"]
        for record in records:
            if record["eventName"] != "INSERT":
                continue
            try:
                deliver(from_attributes(record["dynamodb"]["NewImage"]))
            except Exception as error:
                # The class only: the message of an exception may quote the mail.
                print(f'{{"message": "mail", "failed": "{type(error).__name__}"}}')  # noqa: T201  Lambda logs what is printed
                return {"batchItemFailures": [{"itemIdentifier": record["dynamodb"]["SequenceNumber"]}]}
        return {"batchItemFailures": []}

    return consume
