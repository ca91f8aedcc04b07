"""Output: results on standard output and progress on standard error, or one JSON document and nothing else."""

import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import Any, Protocol

import click
from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from oneslot.runtime.values import to_json
from oneslot.wording import as_json_value, visible, visible_json

# Rich assumes 80 columns where there is no terminal, which would break the lines of a log file.
COLUMNS_WITHOUT_TERMINAL = 120
SECONDS_BETWEEN_PLAIN_LINES = 2.5
"""The longest silence of a command at work, in seconds, when the output is not a terminal."""
DRY_RUN = "Nothing was changed. Add --yes to do it."


class Advance(Protocol):
    """Reports progress of one piece of work."""

    def __call__(self, steps: int = 1, /) -> None:
        """Count `steps` more as done."""


def _console(*, stderr: bool) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="replace")  # a terminal without Unicode gets "?" and no traceback
    plain = not stream.isatty() and "COLUMNS" not in os.environ
    return Console(
        stderr=stderr, highlight=False, markup=False, emoji=False, width=COLUMNS_WITHOUT_TERMINAL if plain else None
    )


@dataclass
class Terminal:
    """The output of one command. With `as_json` only `result` writes anything."""

    as_json: bool = False
    out: Console = field(default_factory=lambda: _console(stderr=False))
    err: Console = field(default_factory=lambda: _console(stderr=True))

    def say(self, sentence: str, style: str = "") -> None:
        """Write a step of the work to standard error."""
        if not self.as_json:
            self.err.print(Text(visible(sentence), style=style), soft_wrap=True)

    def show(self, *things: RenderableType) -> None:
        """Write part of the result to standard output, laid out for people."""
        if not self.as_json:
            for thing in things:
                self.out.print(thing)

    def plain(self, text: str = "", style: str = "") -> None:
        """Write a line of the result without line breaks: a line to copy, or a sentence to search for."""
        if not self.as_json:
            self.out.print(Text(visible(text), style=style), soft_wrap=True)

    def sentence(self, text: str, style: str = "") -> None:
        """Write a sentence: on a screen broken between words, elsewhere as one line to search for."""
        if not self.as_json:
            screen = self.out.is_terminal or bool(os.environ.get("COLUMNS"))
            self.out.print(Text(visible(text), style=style), soft_wrap=not screen)

    def lines(self, text: str, style: str = "") -> None:
        """Write text of several lines, each as `plain` does."""
        for line in text.split("\n"):
            self.plain(line, style)

    def warn(self, sentences: Iterable[str]) -> None:
        """Write sentences in red to standard output."""
        for sentence in sentences:
            self.plain(sentence, style="red")

    def result(self, document: Mapping[str, Any]) -> None:
        """Write the whole result as JSON to standard output, if the command was asked for it."""
        if self.as_json:
            click.echo(visible_json(to_json(document, other=as_json_value, indent=2, ensure_ascii=False)))

    def goes_ahead(self, *, yes: bool) -> bool:
        """Return `yes`. Without it, say that nothing was changed: a dry run asks nothing, so pasted lines stay commands."""
        if not yes:
            self.plain(DRY_RUN, style="yellow")
        return yes

    @contextmanager
    def progress(self, what: str, total: int | None) -> Iterator[Advance]:
        """Show a bar on a terminal, elsewhere a line every few seconds, with `as_json` nothing."""
        if self.as_json:
            yield lambda _=1: None
        elif self.err.is_terminal:
            text = TextColumn("{task.description}", markup=False)
            columns = (SpinnerColumn(), text, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
            with Progress(*columns, console=self.err) as bar:
                task = bar.add_task(visible(what), total=total)
                yield lambda steps=1: bar.advance(task, steps)
        else:
            yield from self._plain_progress(what, total)

    def _plain_progress(self, what: str, total: int | None) -> Iterator[Advance]:
        done, last, started = 0, time.monotonic(), time.monotonic()

        def advance(steps: int = 1) -> None:
            nonlocal done, last
            done += steps
            if time.monotonic() - last >= SECONDS_BETWEEN_PLAIN_LINES:
                last = time.monotonic()
                self.say(f"{what}: {done:,}" + (f" of {total:,}" if total else ""))

        yield advance
        self.say(f"{what}: {done:,} in {time.monotonic() - started:.1f} s")

    @contextmanager
    def working(self, what: str) -> Iterator[None]:
        """Show a spinner with the time on a terminal, elsewhere a line every few seconds, with `as_json` nothing."""
        if self.as_json:
            yield
        elif self.err.is_terminal:
            columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
            with Progress(*columns, console=self.err, transient=True) as spinner:
                spinner.add_task(visible(what), total=None)
                yield
        else:
            yield from self._plain_working(what)

    def _plain_working(self, what: str) -> Iterator[None]:
        ended, started = Event(), time.monotonic()

        def tell() -> None:
            while not ended.wait(SECONDS_BETWEEN_PLAIN_LINES):
                self.say(f"{what}: {time.monotonic() - started:.0f} s")

        teller = Thread(target=tell, name="progress", daemon=True)
        teller.start()
        try:
            yield
        finally:
            ended.set()
            teller.join()


class _VisibleTable(Table):
    """A table whose cells show what a terminal would obey."""

    def add_row(self, *cells: RenderableType | None, **how: Any) -> None:
        """Add a row, its texts as `visible` returns them."""
        super().add_row(*(_visible_cell(each) for each in cells), **how)


def _visible_cell(cell: RenderableType | None) -> RenderableType | None:
    if isinstance(cell, Text):
        return Text(visible(cell.plain), style=cell.style)
    return visible(cell) if isinstance(cell, str) else cell


def table(title: str, *columns: str, numbers: tuple[int, ...] = ()) -> Table:
    """Return an empty table; `numbers` are the columns (from 0) that are aligned to the right."""
    made = _VisibleTable(title=visible(title), title_justify="left", title_style="bold", header_style="bold")
    for position, name in enumerate(columns):
        made.add_column(name, justify="right" if position in numbers else "left", overflow="fold")
    return made
