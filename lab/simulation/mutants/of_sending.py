"""Mutants of the batch sender, the producer and `oneslot send`."""

from __future__ import annotations

from lab.simulation.mutants.change import Change

SENDING = ("send", "producers")

SENDING_CHANGES = (
    Change(
        "a throttled entry is refused for good",
        "oneslot/runtime/sqs/sending.py",
        'bool(failed.get("SenderFault")) and failed.get("Code") not in THROTTLED',
        'bool(failed.get("SenderFault"))',
        SENDING,
    ),
    Change(
        "an entry that the answer leaves out counts as accepted",
        "oneslot/runtime/sqs/sending.py",
        'accepted = {int(each["Id"]): str(each["MessageId"]) for each in answer.get("Successful", ())}',
        'named = {int(each["Id"]) for each in answer.get("Failed", ())}\n'
        '    accepted = {at: "unknown" for at in range(len(batch)) if at not in named}',
        SENDING,
    ),
    Change(
        "what was not accepted is not sent again",
        "oneslot/runtime/sqs/sending.py",
        "waiting = [entry for entry in waiting if entry not in settled]",
        "waiting = waiting[BATCH:]",
        SENDING,
    ),
    Change(
        "one call holds two messages of a group",
        "oneslot/runtime/sqs/sending.py",
        "entry.ordered is not None and entry.ordered in groups",
        "False",
        SENDING,
    ),
    Change(
        "a small message of a group overtakes a large one",
        "oneslot/runtime/sqs/sending.py",
        "        if not fits(len(batch), size, entry.size):\n            break",
        "        if not fits(len(batch), size, entry.size):\n            continue",
        ("producers",),
    ),
    Change(
        "a call without an answer ends the sending",
        "oneslot/runtime/sqs/sending.py",
        "    except (BotoCoreError, OSError) as error:\n        if",
        "    except ZeroDivisionError as error:\n        if",
        SENDING,
    ),
    Change(
        "a group's messages have one deduplication id",
        "oneslot/runtime/sqs/producer.py",
        '{"MessageDeduplicationId": message.message_id}',
        '{"MessageDeduplicationId": message.group}',
        SENDING,
    ),
    Change(
        "the producer forgets what was not accepted",
        "oneslot/runtime/sqs/producer.py",
        "        if waiting:",
        "        if False:",
        SENDING,
    ),
    Change(
        "the producer counts a message that comes twice once",
        "oneslot/runtime/sqs/producer.py",
        "waiting = dict.fromkeys(entries)",
        "waiting = dict.fromkeys({id(entry.message): entry for entry in entries}.values())",
        SENDING,
    ),
    Change(
        "the sender archives only the last answer of a batch",
        "oneslot/operator/sending/sender.py",
        "                archive.accepted((entry.message, sqs_message_id) for entry, sqs_message_id in answer.accepted)",
        "                if not answer.failed:\n"
        "                    archive.accepted((entry.message, sqs_id) for entry, sqs_id in answer.accepted)",
        SENDING,
    ),
    Change(
        "the sender ends with messages that were not accepted",
        "oneslot/operator/sending/sender.py",
        "        if missing and error is not None:\n            raise error\n        if missing:",
        "        if False:",
        SENDING,
    ),
    Change(
        "the sender waits for no batch at its end",
        "oneslot/operator/sending/sender.py",
        "    _unfinished(running)\n    return sent",
        "    return sent",
        SENDING,
    ),
    Change(
        "the sender has several batches of a FIFO queue on their way",
        "oneslot/operator/sending/sender.py",
        "if sender.fifo or len(running)",
        "if len(running)",
        SENDING,
    ),
)
"""Each with the scenarios that must kill it."""
