"""`oneslot.toml`: what is read, and a sentence for each thing that cannot be."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from oneslot.declaration.reading import REPOSITORY, choosing, declared, parse_declaration, read_declaration
from oneslot.errors import BadInput
from tests.kits.moto_stack import invoke

ORDERS = Path(__file__).with_name("orders") / "oneslot.toml"
LEAST = 'name = "orders"\nhandler = "app.handler"\nstack = "Orders"\n'
TABLE = LEAST + '[tables.charges]\nkey = "order_id"\n'


def test_declaration_is_read_with_its_laws_and_tables() -> None:
    declaration = read_declaration(ORDERS)

    (table,) = declaration.schema.tables.values()
    assert (table.key, table.output, table.by_request) == (("order_id",), "ChargesTableName", True)
    names = [law.name for law in declaration.judged]
    assert names == ["I2", "I5r", "I6", "I7", "I9", "I10", "I11", "I12", "every_order_costs_something"]
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
    inner = tmp_path / "project" / "inner"
    inner.mkdir(parents=True)
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


def write_for_all(file: Path, _: pytest.MonkeyPatch) -> str:
    file.chmod(0o646)
    return "can be written by every user"


def give_away(file: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    if os.geteuid():  # only the administrator gives a file away, so the process becomes another user
        monkeypatch.setattr("os.geteuid", lambda: file.stat().st_uid + 1)
    else:
        os.chown(file, 12_345, -1)
    return "belongs to another user"


@pytest.mark.parametrize("change", [write_for_all, give_away])
def test_found_file_is_refused_when_others_wrote_or_can_write_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, change: Callable[[Path, pytest.MonkeyPatch], str]
) -> None:
    """Not even `--help` imports what it names. Naming the file says that the user trusts it."""
    found = tmp_path / "oneslot.toml"
    (tmp_path / "evil.py").write_text("raise SystemExit('ran')")
    found.write_text(LEAST + 'verbs = ["evil.verb"]')
    monkeypatch.chdir(tmp_path)
    problem = change(found, monkeypatch)

    refused = invoke("--help")

    assert (refused.exit_code, problem in refused.stderr) == (2, True)
    assert "ran" not in refused.output
    with choosing(found):
        assert declared().name == "orders"


def test_outputs_have_the_declared_prefix() -> None:
    declaration = parse_declaration('outputs = "Orders"\n' + TABLE, None)
    assert declaration.output("QueueUrl") == "OrdersQueueUrl"
    assert declaration.schema.tables["charges"].output == "OrdersChargesTableName"


@pytest.mark.parametrize(
    ("stack", "prod"), [("Orders-dev", "Orders-prod"), ("Orders", "Orders"), ("Orders-devices", "Orders-devices")]
)
def test_stack_is_named_after_its_stage(stack: str, prod: str) -> None:
    declaration = parse_declaration(LEAST.replace('"Orders"', f'"{stack}"'), None)
    assert (declaration.stack_of("dev"), declaration.stack_of("prod")) == (stack, prod)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("name = ", "is not TOML: Invalid value (at end of document). Correct that line."),
        (LEAST.replace('"orders"', "3"), "name is 3. Write text in quotes."),
        (LEAST.replace("app.handler", "handler"), "handler is 'handler'. Write module.function"),
        (LEAST.replace('stack = "Orders"', ""), "stack is missing. Write the name of its CDK stack, e.g. Orders."),
        (LEAST + 'hander = "a.b"', "hander is not a known name. Use entry, handler, laws"),
        (LEAST + "laws = [1]", 'laws is [1]. Write a list of texts, e.g. ["order_id"].'),
        (LEAST + "[tables]\ncharges = 1", "tables.charges is 1. Write a table, [tables.charges]."),
        (LEAST + "[tables.Charges]", "tables.Charges is not a valid name of a table. Use small letters"),
        (LEAST + "[tables.ledger]", "tables.ledger is not a valid name of a table."),
        (LEAST + "[tables.charges]", "tables.charges.key is missing. Write the one or two attributes"),
        (TABLE + "rows = 0", "tables.charges.rows is 0. Write a whole number above 0."),
        (TABLE + "rows = 1", "tables.charges.request is missing. Write the attribute that names a row's request"),
        (TABLE + 'request = "order_id"\noutcomes = ["a"]', "tables.charges.rows is missing. Write the number of rows"),
        (TABLE + 'attributes = ["pence"]', "tables.charges.attributes leaves out order_id, which the laws need."),
        (TABLE + "row = 1", "tables.charges.row is not a known name. Use attributes, by_request, key"),
        (
            TABLE + 'request = "order_id"\nrows = 1\noutcomes = ["a"]\n[outcomes.b]',
            "tables.charges.outcomes has 'a', which is not one of [outcomes]. Use b, or add [outcomes.a].",
        ),
        (LEAST + '[private]\nname = "a secret"', "private.find is missing. Write text: find and pattern"),
        (LEAST + "[tools]\nparse = 1", "tools.parse is 1. Write text in quotes."),
    ],
)
def test_unusable_declaration_is_refused_by_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(BadInput) as refused:
        parse_declaration(text, None)
    assert sentence in str(refused.value)
    assert str(refused.value).startswith("oneslot.toml")


@pytest.mark.parametrize(
    ("law", "sentence"),
    [
        ("nowhere.law", "laws is 'nowhere.law': No module named 'nowhere'. Write module.name, importable from"),
        ("order_book.missing", "order_book.py has no missing. Write module.name, importable from"),
        ("order_book.NOW", "laws names 'order_book.NOW', which is a int. Name a function from the evidence"),
    ],
)
def test_law_is_refused_when_it_is_not_a_function(tmp_path: Path, law: str, sentence: str) -> None:
    (tmp_path / "order_book.py").write_text(ORDERS.with_name("order_book.py").read_text())
    path = tmp_path / "oneslot.toml"
    path.write_text(LEAST.replace("\nhandler", f'\nlaws = "{law}"\nhandler'))
    with pytest.raises(BadInput) as refused:
        _ = read_declaration(path).laws
    assert sentence in str(refused.value)


@pytest.mark.parametrize(
    ("module", "sentence"),
    [
        (
            "import os\nos.environ['9990000018']",
            "raised KeyError at {module}:2. Correct the module, or its environment",
        ),
        ("\n\nraise AttributeError('9990000018')", "raised AttributeError at {module}:3."),
        ("def broken(:\n    pass", "raised SyntaxError at {module}:1."),
        ("import sys\nsys.exit('9990000018')", "raised SystemExit at {module}:2."),
        ("import json\njson.loads('9990000018x')", "raised JSONDecodeError at {module}:2."),
        ("import no_such_package", "No module named 'no_such_package'. Install no_such_package."),
        (
            "raise ModuleNotFoundError('no greenlet', name='greenlet')",
            "no greenlet. greenlet is missing; run: pip install 'oneslot[explorer]'",
        ),
    ],
)
def test_tool_is_refused_by_a_sentence_when_its_module_fails_to_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, sentence: str
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "failing_app", raising=False)
    (tmp_path / "failing_app.py").write_text(module)
    (tmp_path / "oneslot.toml").write_text(LEAST + '[tools]\nidentity = "failing_app.order_id"\n')
    with pytest.raises(BadInput, match=r"tools\.identity is 'failing_app\.order_id'") as refused:
        read_declaration(tmp_path / "oneslot.toml").tool("identity")
    assert sentence.format(module=tmp_path / "failing_app.py") in str(refused.value)
    assert "9990000018" not in str(refused.value)


def test_declaration_is_refused_when_file_or_entry_is_missing(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be read: No such file or directory"):
        read_declaration(tmp_path / "oneslot.toml")
    (tmp_path / "oneslot.toml").write_text('entry = "src"\n' + LEAST)
    with pytest.raises(BadInput, match="entry is 'src', which is not a folder"):
        read_declaration(tmp_path / "oneslot.toml")
