"""An SQS consumer around one decision. Start reading with `consumer.py`."""

from oneslot.runtime.consumer.consumer import Consumer
from oneslot.runtime.consumer.queues import Queues
from oneslot.runtime.record import Delivery

__all__ = ["Consumer", "Delivery", "Queues"]
