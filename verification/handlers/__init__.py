"""Handlers that people wrote and ours, unmodified, through the explorer for any handler.

`subjects.py` lists them, `__main__.py` explores them and keeps the figures, `deliveries.py` repeats a counterexample on the
embedded AWS.
"""
