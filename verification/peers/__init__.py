"""Handlers as their authors describe them, kept because the prover must find each one's mistake.

They are written to be fair: each checks that the slot is free when it takes it, and reports failures record by record.
`exhibits.py` lists them, with where the pattern comes from and what it costs.
"""
