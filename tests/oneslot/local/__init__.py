"""Tests of the local run: the embedded AWS, the deployment into it, and the event source mapping."""
