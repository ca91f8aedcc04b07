"""Hooks of the site: the navigation comes from docs/index.md, and links into the code lead to `repo_url`, if it is set."""

import os
import re
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
DOCUMENTATION = REPOSITORY / "docs"
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https?:)([^)#\s]+)(#[^)]*)?\)")


def pages_of(page: Path, part: str | None = None) -> list[Path]:
    """Return each page of the documentation to which `page`, or this part of it, links, in order, each once."""
    text = page.read_text(encoding="utf-8") if part is None else part
    files = [(page.parent / target).resolve() for _, target, _ in LINK.findall(text)]
    return list(dict.fromkeys(file for file in files if file.suffix == ".md" and file.is_relative_to(DOCUMENTATION)))


def navigation(index: Path = DOCUMENTATION / "index.md") -> list[Any]:
    """Return the navigation: a section for each heading of `index`. Pages have no title here: each is named by its own."""
    sections: list[Any] = [{"Start": "index.md"}]
    parts = re.split(r"^## (.+)$", index.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    for heading, body in zip(parts[::2], parts[1::2], strict=True):
        sections.append({heading: [page.relative_to(DOCUMENTATION).as_posix() for page in pages_of(index, body)]})
    return sections


def on_config(config: Any) -> Any:
    """Set the navigation."""
    config["nav"] = navigation()
    return config


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """Return the page with each link that leaves docs/ leading to the repository. Without `repo_url` its text stays."""
    folder = (DOCUMENTATION / page.file.src_uri).parent

    def outside(match: re.Match[str]) -> str:
        file = Path(os.path.normpath(folder / match[2]))
        if file.is_relative_to(DOCUMENTATION) and not file.is_dir():
            return match[0]
        if not config["repo_url"]:
            return match[1]
        path = file.relative_to(REPOSITORY).as_posix()
        return f"[{match[1]}]({config['repo_url'].rstrip('/')}/blob/main/{path}{match[3] or ''})"

    return LINK.sub(outside, _indented_by_four(markdown))


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
