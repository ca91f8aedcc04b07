"""Exactly-once effects from a queue that delivers at least once.

The names below need no third-party package. What needs one is imported by its module: `oneslot.runtime.consumer.consumer`,
`oneslot.runtime.stores.dynamodb`, `oneslot.runtime.powertools`.
"""

from oneslot.runtime.effects import Effects, Once, Put, Unprocessable, Update, conflict

__all__ = ["Effects", "Once", "Put", "Unprocessable", "Update", "conflict"]
