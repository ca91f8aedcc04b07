"""`oneslot.toml`: what is read, and a sentence for each thing that cannot be."""

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from oneslot.declaration.declaration import Declaration
from oneslot.declaration.reading import REPOSITORY, choosing, declared, parse_declaration, read_declaration
from oneslot.errors import BadInput, DeclarationUntrusted, InvalidDeclaration, LawFailed, NotImportable
from oneslot.laws.groups import judge
from tests.kits.moto_stack import invoke

ORDERS = Path(__file__).with_name("orders") / "oneslot.toml"
LEAST = 'name = "orders"\nhandler = "app.handler"\nstack = "Orders"\n'


def test_declaration_is_read_with_its_laws_and_tables() -> None:
    declaration = read_declaration(ORDERS)

    (table,) = declaration.schema.tables.values()
    assert (table.key, table.output, table.by_request) == (("order_id",), "ChargesTableName", True)
    names = [law.name for law in declaration.judged]
    assert names == ["I2", "I5r", "I6", "I7", "I9", "I10", "I11", "I12", "I13", "every_order_costs_something"]
    assert declaration.judged[-1].sentence == "A charge is above zero."


def test_declaration_of_the_appointments_is_the_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert declared().path == REPOSITORY / "oneslot.toml"
    (tmp_path / "oneslot.toml").write_text(LEAST)
    (tmp_path / "inner").mkdir()
    monkeypatch.chdir(tmp_path / "inner")
    assert declared().name == "orders"


@pytest.mark.parametrize("end", ["repository", "home"])
def test_search_ends_at_the_repository_or_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, end: str) -> None:
    (tmp_path / "oneslot.toml").write_text(LEAST)
    (inner := tmp_path / "project" / "inner").mkdir(parents=True)
    monkeypatch.chdir(inner)
    assert declared().name == "orders"
    if end == "home":
        monkeypatch.setenv("HOME", str(tmp_path / "project"))
    else:
        (tmp_path / "project" / ".git").mkdir()
    assert declared().path == REPOSITORY / "oneslot.toml"
    (tmp_path / "project" / "oneslot.toml").write_text(LEAST.replace('"orders"', '"mine"'))
    assert declared().name == "mine", "the last folder is searched, too"


def test_declaration_is_found_when_the_user_has_no_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def no_home(_: str) -> str:
        return "~"  # what os.path.expanduser returns for a container's user without one

    (tmp_path / "oneslot.toml").write_text(LEAST)
    (tmp_path / "inner").mkdir()
    monkeypatch.chdir(tmp_path / "inner")
    monkeypatch.setattr("os.path.expanduser", no_home)
    assert declared().name == "orders"


def write_for_all(file: Path, _: pytest.MonkeyPatch) -> None:
    file.chmod(0o646)


def open_folder_to_all(file: Path, _: pytest.MonkeyPatch) -> None:
    file.parent.chmod(0o777)


def give_away(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid():  # only the administrator gives a file away, so the process becomes another user
        monkeypatch.setattr("os.geteuid", lambda: file.stat().st_uid + 1)
    else:
        os.chown(file, 12_345, -1)


@pytest.mark.parametrize("change", [write_for_all, open_folder_to_all, give_away])
def test_found_file_is_refused_when_others_wrote_or_can_write_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, change: Callable[[Path, pytest.MonkeyPatch], None]
) -> None:
    """Not even `--help` imports what it names. Naming the file says that the user trusts it."""
    found = tmp_path / "oneslot.toml"
    (tmp_path / "evil.py").write_text("raise SystemExit('ran')")
    found.write_text(LEAST + 'verbs = ["evil.verb"]')
    monkeypatch.chdir(tmp_path)
    change(found, monkeypatch)

    refused = invoke("--help")

    assert (refused.exit_code, f"[{DeclarationUntrusted.code}]" in refused.stderr) == (2, True)
    assert "ran" not in refused.output
    with choosing(found):
        assert declared().name == "orders"


def test_outputs_have_the_declared_prefix() -> None:
    declaration = parse_declaration('outputs = "Orders"\n' + LEAST + '[tables.charges]\nkey = "order_id"\n', None)
    assert declaration.output("QueueUrl") == "OrdersQueueUrl"
    assert declaration.schema.tables["charges"].output == "OrdersChargesTableName"


@pytest.mark.parametrize(
    ("stack", "prod"), [("Orders-dev", "Orders-prod"), ("Orders", "Orders"), ("Orders-devices", "Orders-devices")]
)
def test_stack_is_named_after_its_stage(stack: str, prod: str) -> None:
    declaration = parse_declaration(LEAST.replace('"Orders"', f'"{stack}"'), None)
    assert (declaration.stack_of("dev"), declaration.stack_of("prod")) == (stack, prod)


@pytest.mark.parametrize(
    ("law", "refusal"),
    [
        ("nowhere.law", NotImportable),
        ("order_book.missing", NotImportable),
        ("order_book.NOW", InvalidDeclaration),
    ],
)
def test_law_is_refused_when_it_is_not_a_function(tmp_path: Path, law: str, refusal: type[BadInput]) -> None:
    (tmp_path / "order_book.py").write_text(ORDERS.with_name("order_book.py").read_text())
    (path := tmp_path / "oneslot.toml").write_text(LEAST.replace("\nhandler", f'\nlaws = "{law}"\nhandler'))
    with pytest.raises(refusal):
        _ = read_declaration(path).laws


# The example of docs/look-up/declaration.md works: its laws judge rows of its table.


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
