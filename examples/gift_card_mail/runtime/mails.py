"""Delivering the outbox: each mail at least once, with the same key in every attempt, and never again once it is marked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from oneslot.runtime.handlers import make_handler_idempotent
from oneslot.runtime.protocol import Store
from oneslot.runtime.stores.expressions import from_attributes

Mail = Mapping[str, Any]


class Mailer(Protocol):
    """Whatever sends mails."""

    def send(self, mail: Mail, idempotency_key: str) -> str:
        """Send it; returns the provider's id. A provider that takes the key sends a repeated mail only once."""


@dataclass(frozen=True, slots=True)
class SesMailer:
    """Amazon SES. It takes no idempotency key, so a crash between its answer and our mark sends the mail twice.

    The key goes along as a tag, by which the two can be recognised in SES's event log.
    """

    client: Any
    sender: str

    def send(self, mail: Mail, idempotency_key: str) -> str:
        """Send it; returns SES's MessageId."""
        text = f"You were given a gift card over £{mail['pence'] / 100:.2f}. Its code is {mail['code']}."
        answer = self.client.send_email(
            FromEmailAddress=self.sender,
            Destination={"ToAddresses": [mail["to"]]},
            Content={"Simple": {"Subject": {"Data": "A gift card for you"}, "Body": {"Text": {"Data": text}}}},
            EmailTags=[{"Name": "idempotency-key", "Value": tag(idempotency_key)}],
        )
        return str(answer["MessageId"])


def tag(key: str) -> str:
    """A key as SES's tags take it: letters, digits, hyphens and underscores."""
    return "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in key)


def deliver_stream(
    ledger: Store, mailer: Mailer, lock_timeout: float
) -> Callable[[Mapping[str, Any]], dict[str, list[dict[str, str]]]]:
    """The stream's consumer: an event → a partial batch response, the first record that failed.

    Lambda goes on from there, in order; what came before it is not read again.
    """

    def send(mail: Mail, idempotency_key: str) -> dict[str, str]:
        return {"provider_id": mailer.send(mail, idempotency_key)}

    # A slash, which no order's id has: else one that is called like this would take the mail's place in the ledger.
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
