"""Mutants outside the handler, and their judgement by the simulation: `of_*.py` list them, `judging.py` judges them."""
