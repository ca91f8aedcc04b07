"""The site of `make docs`: every page is near its index, has no rubble, and works from the file system."""

import re
import subprocess
from pathlib import Path

import pytest

from lab.documentation.site import DOCUMENTATION, REPOSITORY, on_page_markdown, pages_of
from tests.kits.browser import opened

BUILDER = REPOSITORY / ".venv" / "docs" / "bin" / "properdocs"
CONFIGURATION = REPOSITORY / "lab" / "documentation" / "properdocs.yml"
INDEX = DOCUMENTATION / "index.md"


def pages_within(clicks: int) -> set[Path]:
    reached = {INDEX}
    for _ in range(clicks):
        reached |= {file for page in reached for file in pages_of(page)}
    return reached


def test_page_is_two_clicks_from_the_index() -> None:
    assert sorted({*DOCUMENTATION.rglob("*.md")} - pages_within(2)) == []


PAGE = type("Page", (), {"file": type("File", (), {"src_uri": "do/deploy.md"})})


@pytest.mark.parametrize(
    ("repository", "code"),
    [
        ("https://example.org/us/it", "[the `code`](https://example.org/us/it/blob/main/app.py#L1)"),
        ("https://example.org/us/it/", "[the `code`](https://example.org/us/it/blob/main/app.py#L1)"),
        (None, "the `code`"),
    ],
)
def test_link_into_the_code_leads_to_the_repository_when_there_is_one(repository: str | None, code: str) -> None:
    text = "[the `code`](../../app.py#L1) [page](repair.md) ![p](../images/reuse.svg)"
    shown = on_page_markdown(text, PAGE, {"repo_url": repository})
    assert shown == f"{code} [page](repair.md) ![p](../images/reuse.svg)\n"


def test_nested_block_is_indented_by_four() -> None:
    text = "- one\n  - two\n\n  ```bash\n  a \\\n    b\n  ```\n"
    expected = "- one\n    - two\n\n    ```bash\n    a \\\n      b\n    ```\n"
    assert on_page_markdown(text, PAGE, {"repo_url": None}) == expected


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the built site."""
    if not BUILDER.exists():
        pytest.skip("make docs has not installed ProperDocs")
    folder = tmp_path_factory.mktemp("site")
    command = [str(BUILDER), "build", "--quiet", "--strict", "-f", str(CONFIGURATION), "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.slow
@pytest.mark.browser
def test_every_page_opens_in_a_browser(site: Path, tmp_path: Path) -> None:
    """In frames of one page, because a browser takes a second to start."""
    addresses = sorted(
        str(page.relative_to(DOCUMENTATION).with_suffix(".html")) for page in DOCUMENTATION.rglob("*.md")
    )
    frames = "".join(f'<iframe src="{address}"></iframe>' for address in addresses)
    report = """<script>
    addEventListener("load", () => {
      const broken = [...document.querySelectorAll("iframe")].filter(each => {
        const page = each.contentDocument;
        return !page || !page.querySelector("article h1") || page.body.innerText.includes("```");
      });
      document.title = "broken: " + broken.map(each => each.getAttribute("src")).join(" ");
    });
    </script>"""
    (site / "frames.html").write_text(f"<!doctype html><title>not loaded</title>{frames}{report}", encoding="utf-8")
    shown = opened(site / "frames.html", tmp_path, "--allow-file-access-from-files", "--dump-dom")
    assert re.findall(r"<title>(.*?)</title>", shown)[0] == "broken: "
