"""The site of `make docs`: every page is near its index, and its links work from the file system."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from verification.documentation.site import DOCUMENTATION, LINK, REPOSITORY, navigation, on_page_markdown, pages_of

MKDOCS = REPOSITORY / ".venv" / "docs" / "bin" / "mkdocs"
INDEX = DOCUMENTATION / "index.md"


def pages_within(clicks: int) -> set[Path]:
    reached = {INDEX}
    for _ in range(clicks):
        reached |= {file for page in reached for _, file in pages_of(page)}
    return reached


def test_page_is_two_clicks_from_the_index() -> None:
    assert sorted({*DOCUMENTATION.rglob("*.md")} - pages_within(2)) == []


READERS = ("backend engineer", "on-call engineer", "producer", "data engineer", "owner of another consumer")


@pytest.mark.parametrize("reader", READERS)
def test_index_has_a_path_for_the_reader(reader: str) -> None:
    (row,) = [
        line for line in INDEX.read_text(encoding="utf-8").splitlines() if line.startswith("|") and reader in line
    ]
    path = [(DOCUMENTATION / target).resolve() for _, target, _ in LINK.findall(row)]
    assert len(path) >= 3
    assert [page for page in path if page not in pages_within(1)] == []


def test_navigation_has_a_section_for_each_kind() -> None:
    headings = [next(iter(section)) for section in navigation()]
    assert headings[:5] == ["Start", "Learn", "Do", "Look up", "Understand"]


def test_navigation_lists_the_pages_of_a_folder() -> None:
    do = next(section["Do"] for section in navigation() if "Do" in section)
    runbooks = next(entry for entry in do if isinstance(next(iter(entry.values())), list))
    assert "do/runbooks/dead-letters.md" in [
        path for row in runbooks.values() for item in row[1:] for path in item.values()
    ]


def test_link_into_the_code_leads_to_the_repository() -> None:
    page = type("Page", (), {"file": type("File", (), {"src_uri": "do/deploy.md"})})
    text = on_page_markdown("[code](../../app.py#L1) [page](upgrade.md) ![p](../images/reuse.svg)", page)
    assert text == (
        "[code](https://github.com/oneslot/oneslot/blob/main/app.py#L1) [page](upgrade.md) ![p](../images/reuse.svg)\n"
    )


def test_nested_block_is_indented_by_four() -> None:
    page = type("Page", (), {"file": type("File", (), {"src_uri": "do/deploy.md"})})
    text = "- one\n  - two\n\n  ```bash\n  a \\\n    b\n  ```\n"
    expected = "- one\n    - two\n\n    ```bash\n    a \\\n      b\n    ```\n"
    assert on_page_markdown(text, page) == expected


@pytest.mark.slow
@pytest.mark.skipif(not MKDOCS.exists(), reason="make docs has not installed MkDocs")
def test_site_builds_in_strict_mode(tmp_path: Path) -> None:
    command = [str(MKDOCS), "build", "--quiet", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert 'href="do/deploy.html"' in (tmp_path / "index.html").read_text(encoding="utf-8")
