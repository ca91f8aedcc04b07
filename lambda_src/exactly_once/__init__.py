"""Exactly-once effects from a queue that delivers at least once. Knows nothing of appointments.

Start with `ledger.py`, the protocol; `idempotency.py` wraps it for Powertools; `consumer.py` makes an SQS consumer of it.
"""
