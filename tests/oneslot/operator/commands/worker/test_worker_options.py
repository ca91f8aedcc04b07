"""`oneslot worker` rejects options and handlers that it cannot use."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from oneslot.operator.commands.worker.handler import load_handler


def test_load_takes_slashes_as_lambda_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / f"source_{tmp_path.name}" / "orders"
    folder.mkdir(parents=True)
    (folder / "app.py").write_text("handle = print\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))

    assert load_handler(f"{folder.parent.name}/orders/app:handle") is print
