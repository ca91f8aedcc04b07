"""The proof: the real handler through every schedule and fault within a stated budget.

Start with `explorer.py`. `scenarios.py` says what is explored, `faults.py` what may go wrong, `laws.py` what must hold;
`museum/` holds the peers' handlers that the prover must find wrong, `mutants.py` the ways to spoil ours that it must notice.
"""
