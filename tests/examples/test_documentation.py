"""Every Python example in these pages of the documentation runs, as it stands there."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.exactly_once.valkey_server import ValkeyServer

DOCUMENTATION = Path(__file__).resolve().parents[2] / "docs"
PAGES = ("reuse.md", "stores.md", "fifo.md", "worker.md")
NEEDS_VALKEY = ("stores.md",)
FENCE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def examples() -> list[object]:
    return [
        pytest.param(code, id=f"{page}-{number}", marks=[pytest.mark.valkey] if page in NEEDS_VALKEY else [])
        for page in PAGES
        for number, code in enumerate(FENCE.findall((DOCUMENTATION / page).read_text(encoding="utf-8")), 1)
    ]


@pytest.mark.parametrize("code", examples())
def test_an_example_of_the_documentation_runs(
    code: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ExitStack() as stack:
        if request.node.get_closest_marker("valkey"):
            server = stack.enter_context(ValkeyServer(tmp_path))
            monkeypatch.setenv("VALKEY_URL", f"redis://127.0.0.1:{server.port}")
        done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_a_picture_and_its_links_lead_somewhere(page: str) -> None:
    text = (DOCUMENTATION / page).read_text(encoding="utf-8")
    links = re.findall(r"\]\((?!https?:)([^)#]+)", text)
    assert any(link.endswith(".svg") for link in links)
    assert [link for link in links if not (DOCUMENTATION / link).exists()] == []
