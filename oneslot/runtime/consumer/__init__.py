"""An SQS consumer around one decision. Start reading with `consumer.py`."""

from oneslot.runtime.consumer.consumer import Consumer
from oneslot.runtime.consumer.delivery_log import Delivery
from oneslot.runtime.consumer.queues import Queues

__all__ = ["Consumer", "Delivery", "Queues"]
