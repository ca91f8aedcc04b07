"""Output: bars on a terminal, plain lines in a log, JSON alone for programs."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from oneslot.terminal import Terminal, table


def test_progress_writes_plain_lines_without_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr("oneslot.terminal.time.monotonic", lambda: now[0])
    with Terminal().progress("Seeding slots", 3_000) as progress:
        for _ in range(3):
            now[0] += 3
            progress(1_000)
    assert capsys.readouterr().err.splitlines() == [
        "Seeding slots: 1,000 of 3,000",
        "Seeding slots: 2,000 of 3,000",
        "Seeding slots: 3,000 of 3,000",
        "Seeding slots: 3,000 in 9.0 s",
    ]


def test_progress_shows_a_bar_on_a_terminal() -> None:
    screen = io.StringIO()
    person = Terminal(err=Console(file=screen, force_terminal=True, width=100))
    with person.progress("Seeding slots", 10) as progress:
        progress(10)
    with person.working("Counting"):
        pass
    assert "10/10" in screen.getvalue()
    assert "\x1b[" in screen.getvalue()


def test_json_output_is_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    machine = Terminal(as_json=True)
    machine.say("step")
    machine.show(table("title", "column"))
    machine.plain("text")
    with machine.progress("work", 1) as progress, machine.working("more"):
        progress()
    machine.result({"practice": "Practice of Zoë"})
    captured = capsys.readouterr()
    assert json.loads(captured.out) == {"practice": "Practice of Zoë"}
    assert captured.err == ""


def test_plain_keeps_long_lines_and_markup(capsys: pytest.CaptureFixture[str]) -> None:
    line = "aws sqs send-message " + "x" * 300 + " [bold]"
    Terminal().plain(line)
    assert capsys.readouterr().out == line + "\n"


def test_terminal_has_no_colour_when_no_color_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    screen = io.StringIO()
    person = Terminal(out=Console(file=screen, force_terminal=True, width=100))
    person.plain("verdict", style="green")
    assert screen.getvalue() == "verdict\n"


def test_terminal_replaces_characters_that_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(raw, encoding="ascii"))
    person = Terminal()
    shown = table("Zoë", "What")
    shown.add_row("é")
    person.show(shown)
    person.out.file.flush()
    assert b"| ?" in raw.getvalue()
