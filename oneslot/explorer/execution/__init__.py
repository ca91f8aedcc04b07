"""The code under test, run: an invocation stopped at every call, its clients, and what is remembered of it."""
