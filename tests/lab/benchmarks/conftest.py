"""A fixture for the command lines of the benchmarks."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

Refuse = Callable[..., str]


@pytest.fixture
def refuse(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Refuse:
    """Return a function that calls `main` with bad arguments, expects exit status 2, and returns the error."""

    def refuse(main: Callable[[], Any], arguments: list[str]) -> str:
        monkeypatch.setattr(sys, "argv", ["benchmark", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 2
        return capsys.readouterr().err

    return refuse
