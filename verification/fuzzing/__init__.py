"""Hostile messages against the parser and the consumer: no crash, no hang, none lost, and nobody's number told."""
