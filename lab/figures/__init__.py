"""The figures of this project's own proofs: the explorations, their tables, and docs/understand/correctness.md."""
