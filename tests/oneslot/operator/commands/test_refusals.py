"""Input that a verb refuses: whole sentences with codes, `transcripts/refusals-*.txt`, renewed as `test_transcripts` says."""

import json
import sys
from pathlib import Path

import pytest

from oneslot.operator.sending.request_file import LARGEST_BODY_BYTES
from tests.kits.consumer import NHS_NUMBER, booking
from tests.oneslot.operator.commands.test_transcripts import compare, sections, transcript

LEAST = 'name = "orders"\nhandler = "app.handler"\nstack = "Orders"\n'
TABLE = LEAST + '[tables.charges]\nkey = "order_id"\n'
DECLARATIONS = (
    "name = ",
    b"\xff",
    'entry = "src"\n' + LEAST,
    LEAST.replace('"orders"', "3"),
    LEAST.replace("app.handler", "handler"),
    LEAST.replace('stack = "Orders"', ""),
    LEAST + 'hander = "a.b"',
    LEAST + "laws = [1]",
    LEAST + "[tables]\ncharges = 1",
    LEAST + "[tables.Charges]",
    LEAST + "[tables.ledger]",
    LEAST + "[tables.charges]",
    TABLE + "rows = 0",
    TABLE + "rows = 1",
    TABLE + 'request = "order_id"\noutcomes = ["a"]',
    TABLE + 'attributes = ["pence"]',
    TABLE + "row = 1",
    TABLE + 'request = "order_id"\nrows = 1\noutcomes = ["a"]\n[outcomes.b]',
    LEAST + '[private]\nname = "a secret"',
    LEAST + "[tools]\nparse = 1",
)
MODULES = (
    f"import os\nos.environ['{NHS_NUMBER}']",
    f"\n\nraise AttributeError('{NHS_NUMBER}')",
    "def broken(:\n    pass",
    f"import sys\nsys.exit('{NHS_NUMBER}')",
    f"import json\njson.loads('{NHS_NUMBER}x')",
    "import no_such_package",
    "raise ModuleNotFoundError('no greenlet', name='greenlet')",
    "other = 1",
    "order_id = 1",
)
REPAIR_LISTS = (
    '{"message_id": "m-1", "action": "compare the rows"}',
    f'{{"message_id": "{NHS_NUMBER}"}}',
    "[" * 100_000,
    '{"message_id": "two words"}',
    b"\xe9",
    "",
)
REQUESTS = ("not json", "[1]", '{"a": "' + "x" * LARGEST_BODY_BYTES + '"}')
ORDERS = "--consumer HERE/tests/oneslot/declaration/orders/oneslot.toml"
WORKER = (
    "--handler slow_work",
    "--handler :x",
    "--handler mails:",
    "--handler .mails:handle",
    "--handler nowhere:handle --queue-url https://sqs/x",
    "--handler json:loads",
    "--handler json:loads --queue-url https://sqs/x.fifo --retry-delay 30",
    "--handler json:loads --limit inf",
    "--threads 0",
    "--no-reports-failures",
)

Row = tuple[str, str | bytes, str]
"""The name of a file, its content, and the command line that reads it."""


def declared_by(module: str, number: int) -> Row:
    return f"app_{number}.py", module, f"send {{}} --consumer HOME/tool_{number}.toml"


ROWS: dict[str, tuple[Row, ...]] = {
    "declaration": tuple(("oneslot.toml", text, "status --consumer HOME/oneslot.toml") for text in DECLARATIONS),
    "module": tuple(declared_by(module, number) for number, module in enumerate(MODULES)),
    "handler": tuple(
        (f"mail_{number}.py", module.replace("order_id", "handle"), f"worker --handler mail_{number}:handle")
        for number, module in enumerate(MODULES[-3:])
    ),
    "file": (
        *(("list.jsonl", text, "dlq redrive --file HOME/list.jsonl") for text in REPAIR_LISTS),
        *(("mine", f"{json.dumps(booking())}\n{text}", f"send --file HOME/mine {ORDERS}") for text in REQUESTS),
        *(("mine", text, f"send --file HOME/mine {ORDERS}") for text in ("\n\n", b"\xff\xfe\x00")),
        *(("mine", "", f"send {ORDERS} {body}") for body in ("", "\udcff", "{} --file HOME/mine")),
        *(("mine", "", f"send {ORDERS} {{}} --attribute {each}") for each in ("tenant", "t=", "a=\udcff", "a,b=c")),
    ),
    "worker": tuple(("mine", "", f"worker {options}") for options in WORKER),
    "new": (
        *(("mine", "", f"new {name}") for name in ("Orders", "gift-cards", "1st", "ledger", "../orders", "a" * 41)),
        *((name, "mine", "new orders") for name in ("orders/mine", "orders")),
    ),
}


def heading(row: Row) -> str:
    _, content, line = row
    text = repr(content[len(LEAST) :] if isinstance(content, str) and content.startswith(LEAST) else content)
    said = f"=== oneslot {line} < {text if len(text) < 120 else f'{len(text):,} characters'}"
    return said.replace(NHS_NUMBER, "NHS").encode(errors="backslashreplace").decode()


@pytest.mark.parametrize("name", ROWS)
def test_verb_refuses_input_by_a_sentence_with_a_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("ONESLOT_HOME", str(tmp_path))
    monkeypatch.delenv("ONESLOT_QUEUE_URL", raising=False)
    for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION"):
        monkeypatch.setenv(variable, "eu-west-2")  # without them a new client asks the network
    written = {}
    for number, row in enumerate(ROWS[name]):
        home = tmp_path / str(number)
        file, content, line = row
        (home / file).parent.mkdir(parents=True, exist_ok=True)
        (home / file).write_bytes(content if isinstance(content, bytes) else content.encode())
        (home / f"tool_{number}.toml").write_text(LEAST + f'[tools]\nidentity = "app_{number}.order_id"\n')
        before = sorted(home.rglob("*"))
        with monkeypatch.context() as patched:
            patched.chdir(home if name in ("new", "handler") else Path.cwd())
            written[heading(row)] = transcript(home, line)
        assert [each for each in sorted(home.rglob("*")) if "__pycache__" not in str(each)] == before
    found = compare(f"refusals-{name}", written)
    assert not found, "\n".join(found)
    assert [*sections(f"refusals-{name}")] == sorted(written)
