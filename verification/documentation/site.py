"""Hooks of MkDocs: the navigation comes from docs/index.md, and links into the code lead to the repository."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
DOCUMENTATION = REPOSITORY / "docs"
SOURCE = "https://github.com/oneslot/oneslot/blob/main/"
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https?:)([^)#\s]+)(#[^)]*)?\)")
_TARGET = re.compile(r"(\]\()(?!https?:|#)([^)#\s]+)((?:#[^)]*)?\))")
Section = dict[str, list[Any]]


def pages_of(page: Path) -> list[tuple[str, Path]]:
    """Return text and file of each link from `page` to a page of the documentation, in order, each file once."""
    found: dict[Path, str] = {}
    for title, target, _ in LINK.findall(page.read_text(encoding="utf-8")):
        file = (page.parent / target).resolve()
        if file.suffix == ".md" and file.is_relative_to(DOCUMENTATION):
            found.setdefault(file, title)
    return [(title, file) for file, title in found.items()]


def navigation(index: Path = DOCUMENTATION / "index.md") -> list[Any]:
    """Return MkDocs' navigation: a section for each heading of `index`, and one for each folder with an index of its own."""
    sections: list[Any] = [{"Start": "index.md"}]
    parts = re.split(r"^## (.+)$", index.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    for heading, body in zip(parts[::2], parts[1::2], strict=True):
        entries: list[Any] = []
        for title, target, _ in LINK.findall(body):
            file = (index.parent / target).resolve()
            if file.suffix != ".md" or not file.is_relative_to(DOCUMENTATION):
                continue
            entry: dict[str, Any] = {title: _relative(file)}
            if file.name == "README.md":
                below = [{name: _relative(page)} for name, page in pages_of(file) if page.parent == file.parent]
                entry = {title: [_relative(file), *below]}
            entries.append(entry)
        sections.append({heading: entries})
    return sections


def _relative(file: Path) -> str:
    return file.relative_to(DOCUMENTATION).as_posix()


def on_config(config: Any) -> Any:
    """Set the navigation."""
    config["nav"] = navigation()
    return config


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Return the page with each link that leaves docs/ leading to the repository."""
    folder = (DOCUMENTATION / page.file.src_uri).parent

    def outside(match: re.Match[str]) -> str:
        file = Path(os.path.normpath(folder / match[2]))
        if file.is_relative_to(DOCUMENTATION) and not file.is_dir():
            return match[0]
        return f"{match[1]}{SOURCE}{file.relative_to(REPOSITORY).as_posix()}{match[3]}"

    return _TARGET.sub(outside, _indented_by_four(markdown))


def _indented_by_four(markdown: str) -> str:
    """Return the text with nested blocks indented as Python-Markdown wants them. GitHub takes two spaces."""
    lines, shift = [], None
    for line in markdown.splitlines():
        indent = len(line) - len(line.lstrip(" "))
        fence = line.lstrip(" ").startswith("```")
        added = indent if shift is None else shift
        if fence:
            shift = added if shift is None else None
        lines.append(" " * added + line if line.strip() else line)
    return "\n".join(lines) + "\n"
