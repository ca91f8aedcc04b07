"""An SQS consumer around one decision. Start reading with `consumer.py`."""
