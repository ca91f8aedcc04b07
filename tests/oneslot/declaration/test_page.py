"""The example of docs/look-up/declaration.md works: its laws judge rows of its table."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from oneslot.declaration.declaration import Declaration
from oneslot.declaration.reading import read_declaration
from oneslot.errors import LawFailed
from oneslot.laws.groups import judge

PAGE = (Path(__file__).parents[3] / "docs" / "look-up" / "declaration.md").read_text(encoding="utf-8")
(FILE,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
(LAW,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
CHARGE = {"order_id": "o-1", "pence": 250, "charged_at": 1_795_161_600_000}


def declaration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str = FILE) -> Declaration:
    monkeypatch.delitem(sys.modules, "app", raising=False)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "app.py").write_text(LAW, encoding="utf-8")
    (tmp_path / "oneslot.toml").write_text(text, encoding="utf-8")
    return read_declaration(tmp_path / "oneslot.toml")


@pytest.mark.parametrize(("pence", "broken"), [(250, []), (0, [("o-1", "charged 0 pence")])])
def test_law_of_the_page_judges_its_table(
    pence: int, broken: list[tuple[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = declaration(tmp_path, monkeypatch)
    completed = {
        "message_id": "o-1",
        "status": "COMPLETE",
        "consumption_count": 1,
        "updated": CHARGE["charged_at"],
        "result": '{"outcome": "charged", "pence": 250}',
    }
    evidence = orders.evidence(ledger={"o-1": completed}, charges={"o-1": {**CHARGE, "pence": pence}})
    assert [(each.subject, each.detail) for each in judge(evidence, orders.laws)] == broken


def test_key_that_a_law_misses_is_named_when_attributes_leave_it_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    less = FILE.replace("[outcomes", 'attributes = ["order_id", "charged_at"]\n\n[outcomes', 1)
    orders = declaration(tmp_path, monkeypatch, less)
    with pytest.raises(LawFailed, match=r"raised KeyError 'pence' at .*app\.py:\d+\. .*`attributes` of its table"):
        judge(orders.evidence(charges={"o-1": CHARGE}), orders.laws)
