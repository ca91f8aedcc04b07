"""Output: bars on a terminal, plain lines in a log, JSON alone for programs."""

import io
import json
from decimal import Decimal

import click
import pytest
from rich.console import Console
from rich.text import Text

from oneslot.operator.cli import report_error, run_command
from oneslot.operator.terminal import Terminal, table


def test_progress_writes_plain_lines_without_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr("oneslot.operator.terminal.time.monotonic", lambda: now[0])
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


HOSTILE = "a\x1b]0;owned\x07b\x9b31m\rc\u202egod\u2066\nFAKE: all invariants hold\u2028[red]:bug:"
SHOWN = r"a\x1b]0;owned\x07b\x9b31m\x0dc\u202egod\u2066\x0aFAKE: all invariants hold\u2028[red]:bug:"


def print_everywhere(person: Terminal) -> None:
    person.plain(HOSTILE)
    person.say(HOSTILE)
    person.warn([HOSTILE])
    cells = table(HOSTILE, "column")
    cells.add_row(HOSTILE)
    cells.add_row(Text(HOSTILE, style="red"))
    person.show(cells)
    with person.progress(HOSTILE, 1), person.working(HOSTILE):
        pass
    report_error(HOSTILE.replace("\n", " "), "code", as_json=False)


@pytest.mark.parametrize("is_terminal", [True, False])
def test_terminal_shows_controls_when_text_is_foreign(capsys: pytest.CaptureFixture[str], is_terminal: bool) -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=is_terminal, color_system=None, width=300, markup=False, emoji=False)

    print_everywhere(Terminal(out=console, err=console))

    written = screen.getvalue() + capsys.readouterr().err
    for sequence in ("\x1b[?25l", "\x1b[?25h", "\x1b[2K", "\x1b[1A", "\r"):  # rich's own, of bar and spinner
        written = written.replace(sequence, "") if is_terminal else written
    assert written.replace("\n", "").isprintable()
    assert written.count(SHOWN) + written.count(SHOWN.replace(r"\x0a", " ")) >= 7


def test_usage_error_shows_controls_when_its_text_is_foreign(capsys: pytest.CaptureFixture[str]) -> None:
    def refuse() -> None:
        raise click.UsageError("no such file \x1b[31m\u202e")

    assert run_command(refuse, as_json=False) == 2
    assert capsys.readouterr().err == r"Error: no such file \x1b[31m\u202e [invalid-arguments]" + "\n"


def test_json_is_exact_when_text_is_foreign(capsys: pytest.CaptureFixture[str]) -> None:
    Terminal(as_json=True).result({HOSTILE: [HOSTILE, "Zoë", "\U000e0041"]})
    written = capsys.readouterr().out
    assert json.loads(written) == {HOSTILE: [HOSTILE, "Zoë", "\U000e0041"]}
    assert written.replace("\n", "").isprintable()
    assert "Zoë" in written


@pytest.mark.parametrize("columns", ["40", "80", "120"])
def test_sentence_breaks_between_words_when_on_a_screen(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    sentence = "Exactly once: each of 2,000 requests has exactly one answer; none is lost, none is booked twice. " * 2
    monkeypatch.delenv("COLUMNS", raising=False)
    Terminal().sentence(sentence.strip())
    monkeypatch.setenv("COLUMNS", columns)
    Terminal().sentence(sentence.strip())
    whole, *broken = capsys.readouterr().out.splitlines()
    assert whole == sentence.strip()
    assert max(map(len, broken)) <= int(columns)
    assert [word for line in broken for word in line.split()] == sentence.split()


def test_json_has_every_digit_of_a_decimal_as_a_number(capsys: pytest.CaptureFixture[str]) -> None:
    Terminal(as_json=True).result({"price": Decimal("0.12345678901234567890"), "of": [Decimal(5), {"a"}, b"\0"]})
    said = capsys.readouterr().out
    assert '"price": 0.1234567890123456789' in said
    assert json.loads(said, parse_float=Decimal) == {
        "price": Decimal("0.1234567890123456789"),
        "of": [5, ["a"], "b'\\x00'"],
    }
