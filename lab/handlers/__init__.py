"""Handlers that people wrote and ours, unmodified, through the explorer for any handler.

`public.py` and `subjects.py` list them, `__main__.py` explores them and keeps the figures, and `deliveries.py` repeats a
counterexample on the embedded AWS.
"""
