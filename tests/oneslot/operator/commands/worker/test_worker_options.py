"""`oneslot worker` rejects options and handlers that it cannot use."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from oneslot.errors import BadInput
from oneslot.operator.commands.worker.handler import load_handler
from oneslot.operator.commands.worker.worker import worker


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--handler", "slow_work"], "Write it as module:name"),
        (["--handler", "nowhere:handle", "--queue-url", "https://sqs/x"], "No module named 'nowhere'"),
        (["--handler", "json:loads"], "--handler needs a queue"),
        (
            ["--handler", "json:loads", "--queue-url", "https://sqs/x.fifo", "--retry-delay", "30"],
            "--retry-delay is 30, and short retries on a FIFO queue",
        ),
        (["--threads", "0"], "--threads is 0"),
        (["--no-reports-failures"], "^--no-reports-failures needs --handler"),
        (["--handler", "json:loads", "--limit", "inf"], "^--limit is inf"),
    ],
)
def test_worker_command_rejects_bad_options(options: list[str], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ONESLOT_QUEUE_URL", raising=False)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-2")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")  # without them a new client asks the network
    with pytest.raises(BadInput, match=said):
        worker.main(options, standalone_mode=False)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("import json\nhandle = (\n", "importing it raised SyntaxError at {file}:2."),
        ("import os\n\nhandle = os.environ['NOT_SET_ANYWHERE']\n", "importing it raised KeyError at {file}:3."),
        ("import sys\nsys.exit('no licence')\n", "importing it raised SystemExit at {file}:2."),
        ("import json\njson.nothing\n", "importing it raised AttributeError at {file}:2."),
        ("import not_installed_anywhere\n", "No module named 'not_installed_anywhere'"),
        ("other = 1\n", "{file} has no handle."),
        ("handle = 1\n", "is not callable"),
    ],
    ids=["syntax", "environment", "exit", "attribute", "not installed", "no such name", "no function"],
)
def test_load_names_the_line_when_a_module_cannot_be_imported(
    source: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"broken_{tmp_path.name}"  # of its own: an import is kept
    file = tmp_path / f"{name}.py"
    file.write_text(source)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(BadInput, match=f"^--handler {name}:handle") as raised:
        load_handler(f"{name}:handle")
    assert said.format(file=file) in str(raised.value)
    assert "NOT_SET_ANYWHERE" not in str(raised.value)


def test_load_takes_slashes_as_lambda_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / f"source_{tmp_path.name}" / "orders"
    folder.mkdir(parents=True)
    (folder / "app.py").write_text("handle = print\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))

    assert load_handler(f"{folder.parent.name}/orders/app:handle") is print


@pytest.mark.parametrize("handler", [".:x", "..:x", ".mails:handle", ":x", "mails:"])
def test_load_rejects_a_name_that_is_not_module_and_name(handler: str) -> None:
    with pytest.raises(BadInput, match="Write it as module:name"):
        load_handler(handler)
