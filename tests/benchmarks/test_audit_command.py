"""The audit's benchmark tells bad arguments in a sentence, before it writes anything."""

from __future__ import annotations

import sys

import pytest

from benchmarks import audit


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--requests", "1000", "0"], "--requests must be 100 or more"),
        (["--requests", "1000", "--folder", "nowhere"], "--folder: there is no folder nowhere"),
    ],
)
def test_bad_arguments_are_told(
    arguments: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["audit", *arguments])
    monkeypatch.setattr(audit, "compare", lambda *_: pytest.fail("it was begun"))
    with pytest.raises(SystemExit) as ended:
        audit.main()
    assert ended.value.code == 2
    assert said in capsys.readouterr().err
