"""Hostile messages to the parser and the consumer: no crash, no hang, no loss, and no logged NHS number."""
