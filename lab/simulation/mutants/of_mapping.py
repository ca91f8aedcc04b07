"""Mutants of the event source mapping, and of the order within a message group."""

from __future__ import annotations

from lab.simulation.mutants.change import Change

MAPPING, MAPPING_IN_ORDER, LARGE, THROTTLED = (
    ("mapping",),
    ("mapping-fifo",),
    ("mapping-large",),
    ("mapping-throttled",),
)

MAPPING_CHANGES = (
    Change(
        "the mapping deletes the batch of a failed function",
        "oneslot/local/mapping/poller.py",
        "last_error=failed)\n        return ()",
        "last_error=failed)\n        return message_ids",
        MAPPING,
    ),
    Change(
        "the mapping deletes what the function reported as failed",
        "oneslot/local/mapping/poller.py",
        "return verdict.succeeded",
        "return message_ids",
        MAPPING,
    ),
    Change(
        "the mapping deletes a throttled batch",
        "oneslot/local/mapping/poller.py",
        '            self._counter.add(throttles=1, last_error="Throttled")\n            return ()',
        "            return message_ids",
        MAPPING,
    ),
    Change(
        "the mapping offers a throttled batch for ever",
        "oneslot/local/mapping/poller.py",
        "while self._surroundings.steady() < batch.since + queue.visibility_timeout_seconds:",
        "while True:",
        MAPPING,
    ),
    Change(
        "a poller of the mapping dies of an error",
        "oneslot/local/mapping/poller.py",
        "except Exception as error:",
        "except ZeroDivisionError as error:",
        MAPPING,
    ),
    Change(
        "a batch grows older than its messages are hidden",
        "oneslot/local/mapping/batching.py",
        "min(surroundings.steady() + window_seconds, oldest + oldest_seconds)",
        "surroundings.steady() + window_seconds + 60",
        MAPPING,
    ),
    Change(
        "a batch is as old as its newest message",
        "oneslot/local/mapping/batching.py",
        "Batch(tuple(messages[:end]), oldest)",
        "Batch(tuple(messages[:end]), newest)",
        THROTTLED,
    ),
    Change(
        "a throttled batch is offered for its window longer",
        "oneslot/local/mapping/poller.py",
        "batch.since + queue.visibility_timeout_seconds:",
        "batch.since + self.configuration.batching_window_seconds + queue.visibility_timeout_seconds:",
        THROTTLED,
    ),
    Change(
        "a batch carries what did not fit twice",
        "oneslot/local/mapping/batching.py",
        "Batch(tuple(messages[:end]), oldest)",
        "Batch(tuple(messages), oldest)",
        LARGE,
    ),
    Change(
        "the mapping deletes a message once and never again",
        "oneslot/runtime/sqs/deletion.py",
        "if not waiting or not backoff.pause():",
        "if True:",
        MAPPING,
    ),
    Change(
        "the pool never frees an environment",
        "oneslot/local/mapping/handler_pool.py",
        "                self._free.append(process)\n                return",
        "                return",
        MAPPING,
    ),
    Change(
        "a mapping overtakes a failed message of its group",
        "oneslot/local/mapping/batching.py",
        'each["Attributes"]["MessageGroupId"] not in stopped',
        "True",
        LARGE,
    ),
)
"""Of the mapping, each with the scenario that must kill it."""

ORDER_CHANGES = (
    Change(
        "a group goes on behind a failure",
        "oneslot/runtime/consumer/consumer.py",
        "                stopped.add(record.group)",
        "                pass",
        MAPPING_IN_ORDER,
    ),
    Change(
        "a group that stopped goes on",
        "oneslot/runtime/consumer/consumer.py",
        '            raise HeldBack("an earlier record of this message group failed")',
        "            pass",
        MAPPING_IN_ORDER,
    ),
)
"""Of the consumer's order."""
