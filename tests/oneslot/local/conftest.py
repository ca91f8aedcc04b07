"""Fixtures of the local run's tests."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def temporary_folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where processes that the test starts keep temporary files: a short path, and removed although they are killed."""
    with tempfile.TemporaryDirectory(prefix="test-") as name:
        monkeypatch.setenv("TMPDIR", name)
        yield Path(name)
