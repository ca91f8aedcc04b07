"""docs/do/explore-your-handler.md: its handler, tests, template and command run as a reader types them."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from oneslot.explorer.services.stand_in import OPERATIONS

DOCUMENTATION = Path(__file__).parents[5] / "docs"
PAGE = (DOCUMENTATION / "do" / "explore-your-handler.md").read_text(encoding="utf-8")
REFERENCE = (DOCUMENTATION / "look-up" / "explorer.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r'^```(?:python|yaml) title="(\S+)"\n(.*?)^```', PAGE, re.MULTILINE | re.DOTALL))
(COMMAND,) = re.findall(r"^```sh\n(.*?)\n```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The reader's folder, with the files of the page."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_page_tests_pass(folder: Path) -> None:
    done = run(folder, "pytest", "-q", "-W", "error", "-p", "no:cacheprovider")

    assert (done.returncode, "2 passed" in done.stdout) == (0, True), done.stdout + done.stderr


# Slow as the page's tests are: `test_first_steps` runs the command, and each of its parts has its own tests.
@pytest.mark.slow
@pytest.mark.parametrize(("key", "status"), [('json.loads(record["body"])["order"]', 0), ("str(uuid4())", 1)])
def test_page_command_ends_with_the_verdict(folder: Path, key: str, status: int) -> None:
    text = "from uuid import uuid4\n" + FILES["app.py"].replace('json.loads(record["body"])["order"]', key)
    (folder / "app.py").write_text(text, encoding="utf-8")

    done = run(folder, *COMMAND.split())

    assert done.returncode == status, done.stdout + done.stderr
    assert ('breaks at level "twice"' in done.stdout) == bool(status)


def test_reference_lists_each_service_that_has_a_stand_in() -> None:
    (table,) = re.findall(r"^\| boto3's name .*?\n\n", REFERENCE, re.MULTILINE | re.DOTALL)
    listed = {name for row in table.strip().splitlines()[2:] for name in re.findall(r"`(\w+)`", row.split("|")[1])}

    assert listed == {"dynamodb", "sqs", "http", *(name.partition(".")[0] for name in OPERATIONS)}
