"""Faults on real processes: the deployed handler under kill -9, freezes and a bad network, and the verdict afterwards."""
