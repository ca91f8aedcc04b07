"""Outside effects: operations that only leave the account, as one table of what they go to and what AWS answers.

It leaves out who receives them (subscriptions, rules, identities), and whether a topic, a bus or a stream exists.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from oneslot.dynamodb_in_memory.answers import UnsupportedRequest, refuse
from oneslot.explorer.services.account import Account, Answer, Operation, Parameters
from oneslot.explorer.services.sqs import check_entries

ID = object()
"""Stands for the id of an effect in an answer."""

SEQUENCE_NUMBER = "10000000000000003000"

MAXIMUM_BYTES = 262_144
"""The limit of a message of SNS, and of an entry of EventBridge (API references)."""

MAXIMUM_ENTRIES = 10
"""The limit of a batch of SNS and of EventBridge (API references)."""


@dataclass(frozen=True)
class OutsideEffect:
    """One operation.

    Attributes:
        targets: the parameters that may say where it goes; the first that is given does.
        answer: what AWS answers for each effect.
        check: raises the refusal of a call that AWS does not accept.
        entries: the parameter that holds a batch, each of whose entries is an effect. `answer` is that of an entry then.
        around: the answer of a batch from those of its entries.
        single: the operation that an entry of a batch is counted as.
        default: the target if none is given.
        kept: what an entry of a batch says about itself, which its answer repeats.
        invalid: returns the code and the message for an entry that AWS does not accept, else None.
    """

    targets: tuple[str, ...]
    answer: Mapping[str, Any]
    check: Callable[[str, Parameters], None] = lambda name, given: None
    entries: str = ""
    around: Callable[[list[Any]], Mapping[str, Any]] = lambda answers: answers[0]
    single: str = ""
    default: str = ""
    kept: tuple[str, ...] = ("Id",)
    invalid: Callable[[Parameters], tuple[str, str] | None] = lambda entry: None


def _addresses(value: Any) -> Iterator[str]:
    """Yield the texts within a value, such as the addresses of a destination."""
    if isinstance(value, str):
        yield value
    else:
        for one in value.values() if isinstance(value, Mapping) else value:
            yield from _addresses(one)


def _is_fifo(parameters: Parameters) -> bool:
    return str(parameters.get("TopicArn") or parameters.get("TargetArn") or "").endswith(".fifo")


def _check_message(name: str, given: Parameters) -> None:
    if not given["Message"]:
        refuse(name, "InvalidParameter", "Invalid parameter: Empty message")
    if len(given["Message"].encode()) > MAXIMUM_BYTES:
        refuse(name, "InvalidParameter", "Invalid parameter: Message too long")
    if _is_fifo(given) and not given.get("MessageGroupId"):
        reason = "The MessageGroupId parameter is required for FIFO topics"
        refuse(name, "InvalidParameter", f"Invalid parameter: {reason}")


_PUBLISHED = "PublishBatchRequestEntries"


def _check_events(name: str, given: Parameters) -> None:
    if not 1 <= len(given["Entries"]) <= MAXIMUM_ENTRIES:
        refuse(name, "ValidationException", "Value at 'entries' must have length less than or equal to 10")


def _invalid_event(entry: Parameters) -> tuple[str, str] | None:
    """Return the error of an entry that EventBridge does not accept, while it accepts the others."""
    for name in ("Source", "DetailType", "Detail"):
        if not entry.get(name):
            return "InvalidArgument", f"Parameter {name} is not valid. Reason: {name} is a required argument."
    try:
        json.loads(entry["Detail"])
    except ValueError:
        return "MalformedDetail", "Detail is malformed."
    return None


_MAIL = {"MessageId": ID}

EFFECTS: dict[str, OutsideEffect] = {
    "sns.publish": OutsideEffect(("TopicArn", "TargetArn", "PhoneNumber"), {"MessageId": ID}, _check_message),
    "sns.publish_batch": OutsideEffect(
        ("TopicArn",),
        {"MessageId": ID},
        lambda name, given: check_entries(name, given[_PUBLISHED], prefix=""),
        _PUBLISHED,
        lambda answers: {"Successful": answers, "Failed": []},
        "publish",
    ),
    "events.put_events": OutsideEffect(
        ("EventBusName",),
        {"EventId": ID},
        _check_events,
        "Entries",
        lambda answers: {"FailedEntryCount": sum("ErrorCode" in one for one in answers), "Entries": answers},
        default="default",
        kept=(),
        invalid=_invalid_event,
    ),
    "ses.send_email": OutsideEffect(("Destination",), _MAIL),
    "ses.send_raw_email": OutsideEffect(("Destinations",), _MAIL),
    "ses.send_templated_email": OutsideEffect(("Destination",), _MAIL),
    "sesv2.send_email": OutsideEffect(("Destination",), _MAIL),
    "firehose.put_record": OutsideEffect(("DeliveryStreamName",), {"RecordId": ID, "Encrypted": False}),
    "firehose.put_record_batch": OutsideEffect(
        ("DeliveryStreamName",),
        {"RecordId": ID},
        entries="Records",
        around=lambda answers: {"FailedPutCount": 0, "RequestResponses": answers},
        single="put_record",
        kept=(),
    ),
}
"""The operations by "service.operation"."""


def perform_effect(name: str, effect: OutsideEffect, account: Account, parameters: Parameters) -> Answer:
    """Record the effects of a call and return its answer."""
    effect.check(name, parameters)
    if not effect.entries:
        return _one(name, effect, account, parameters)
    around = {key: value for key, value in parameters.items() if key != effect.entries}
    single = f"{name.partition('.')[0]}.{effect.single or name.partition('.')[2]}"
    answers = []
    for entry in parameters[effect.entries]:
        invalid = effect.invalid(entry)
        if invalid is not None:
            answers.append(dict(zip(("ErrorCode", "ErrorMessage"), invalid, strict=True)))
            continue
        own = {key: value for key, value in entry.items() if key not in effect.kept}
        answered = _one(single, effect, account, {**around, **own})
        answers.append({**{key: entry[key] for key in effect.kept}, **answered})
    return effect.around(answers)


def _one(name: str, effect: OutsideEffect, account: Account, parameters: Parameters) -> dict[str, Any]:
    service, _, operation = name.partition(".")
    target = next((parameters[one] for one in effect.targets if parameters.get(one)), effect.default)
    record = partial(account.record, service, operation, ", ".join(_addresses(target)), parameters)
    if _is_fifo(parameters):
        token = parameters.get("MessageDeduplicationId") or f"content {parameters['Message']}"
        return {"MessageId": account.once(target, token, record), "SequenceNumber": SEQUENCE_NUMBER}
    effect_id = record()
    return {key: effect_id if value is ID else value for key, value in effect.answer.items()}


def invoke(account: Account, parameters: Parameters) -> Answer:
    """Record an asynchronous invocation. Raises `UnsupportedRequest` for one whose answer only the user knows."""
    if parameters.get("InvocationType") != "Event":
        remedy = 'Give the answer of the function: answers={"lambda.invoke": {"StatusCode": 200, "Payload": b"{}"}}'
        raise UnsupportedRequest(f"the function {parameters['FunctionName']} has no stand-in. {remedy}")
    account.record("lambda", "invoke", str(parameters["FunctionName"]), parameters)
    return {"StatusCode": 202, "Payload": b""}


OPERATIONS: dict[str, Operation] = {
    **{name: partial(perform_effect, name, effect) for name, effect in EFFECTS.items()},
    "lambda.invoke": invoke,
}
