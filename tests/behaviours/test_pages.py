"""The commands of the pages that a newcomer, a producer and an operator read, run in one shell on a local stack."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
DOCUMENTATION = REPOSITORY / "docs"
ENVIRONMENT = "source .venv/bin/activate\n"
SEND = """
send() { aws sqs send-message --endpoint-url "$ENDPOINT_URL" --queue-url "$QUEUE_URL" --message-body "$1"; }
BOOK="${BODY/hour-1/doc-1}"
send "$BOOK"
oneslot watch --until-drained
send '{"message_id": "doc-2", "type": "cancel", "appointment_id": "doc-1"}'
oneslot watch --until-drained
oneslot inspect doc-1
"""
REFUSED = {
    "not_json": "'no JSON'",
    "missing_message_id": """'{"type": "cancel", "appointment_id": "doc-1"}'""",
    "invalid_message_id": """'{"message_id": "no spaces", "type": "cancel", "appointment_id": "a"}'""",
    "unknown_type": """'{"message_id": "doc-3", "type": "move"}'""",
    "invalid_field": """'{"message_id": "doc-4", "type": "cancel", "appointment_id": ""}'""",
    "unknown_practice": '"$(sed "s/doc-1/doc-5/; s/Z00001/ZZZ999/" <<< "$BOOK")"',
    "conflict": '"${BOOK/In-person/Video}"',
}
"""A reason of docs/look-up/messages.md → the body of a message that the consumer quarantines with it, in bash."""


def commands(page: str) -> str:
    text = (DOCUMENTATION / page).read_text(encoding="utf-8")
    return "".join(re.findall(r"^```bash\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)).replace(ENVIRONMENT, "")


def shell(script: str, home: Path) -> subprocess.CompletedProcess[str]:
    """Run in bash with this interpreter's commands first on PATH; stop at a failure."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["/bin/bash", "-euo", "pipefail", "-c", script],
        cwd=home,
        env={**os.environ, "ONESLOT_HOME": str(home), "NO_COLOR": "1", "COLUMNS": "160", "PATH": path}
        | {"ONESLOT_CONSUMER": str(REPOSITORY / "oneslot.toml")},
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )


def test_messages_page_has_the_reasons_that_are_tried() -> None:
    text = (DOCUMENTATION / "look-up" / "messages.md").read_text(encoding="utf-8")
    known = re.findall(r"^\| `(\w+)` \|", text.split("## Reasons")[1], re.MULTILINE)
    assert {*known} == REFUSED.keys() | {"receives_exhausted"}


@pytest.mark.slow
@pytest.mark.embedded_aws
@pytest.mark.timeout(1500)
def test_newcomers_and_producers_commands_work(tmp_path: Path) -> None:
    hour = commands("learn/first-hour.md")
    assert hour.endswith("oneslot down\n")
    refused = (
        "".join(f"send {body}\n" for body in REFUSED.values()) + "oneslot watch --until-drained\noneslot dlq list\n"
    )
    script = hour.removesuffix("oneslot down\n") + SEND + refused + commands("do/send.md")
    try:
        done = shell(script, tmp_path)
    finally:
        shell("oneslot down", tmp_path)
    assert done.returncode == 0, done.stdout[-3_000:] + done.stderr[-3_000:]
    assert "delivery 1 of" in done.stdout
    assert re.search(r"consumption_count │ 2 ", done.stdout), "the killed worker's claim was taken over"
    assert "duplicate" in done.stdout
    assert "lost                                     │     0" in done.stdout
    assert "Exactly once: each of" in done.stdout
    listed = done.stdout.rsplit("What a redrive would do", 1)[1]
    assert [reason for reason in REFUSED if reason not in listed] == []
    assert {"doc-1", "doc-3", "doc-4", "doc-5"} <= set(re.findall(r"doc-\d", listed))


@pytest.mark.slow
@pytest.mark.embedded_aws
@pytest.mark.timeout(1500)
def test_repair_redrives_what_can_succeed(tmp_path: Path) -> None:
    try:
        done = shell(commands("do/repair.md"), tmp_path)
    finally:
        shell("oneslot down", tmp_path)
    assert done.returncode == 0, done.stdout[-3_000:] + done.stderr[-3_000:]
    assert "QuarantineReason" in done.stdout
    assert "Left: 1 that would fail again" in done.stdout
    assert "1 message moved to the queue." in done.stdout
    assert re.search(r"status +│ COMPLETE ", done.stdout)
    assert "invariants hold" in done.stdout
