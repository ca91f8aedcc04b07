"""Every Python example in these pages of the documentation runs, as it stands there."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.kits.valkey_server import ValkeyServer

DOCUMENTATION = Path(__file__).resolve().parents[2] / "docs"
PAGES = ("reuse.md", "stores.md", "fifo.md", "worker.md")
ILLUSTRATED = (*PAGES, "faults.md")
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


@pytest.mark.parametrize("page", ILLUSTRATED)
def test_a_page_has_a_picture_and_its_links_lead_somewhere(page: str) -> None:
    text = (DOCUMENTATION / page).read_text(encoding="utf-8")
    links = re.findall(r"\]\((?!https?:)([^)#]+)", text)
    assert any(link.endswith(".svg") for link in links)
    assert [link for link in links if not (DOCUMENTATION / link).exists()] == []


def test_the_page_of_faults_names_tests_that_exist_and_all_cases() -> None:
    text = (DOCUMENTATION / "faults.md").read_text(encoding="utf-8")
    files = re.findall(r"`(tests/[a-z_/]+\.py)`", text)
    there = {
        name
        for file in files
        for name in re.findall(
            r"^def (test_\w+)", (DOCUMENTATION.parent / file).read_text(encoding="utf-8"), re.MULTILINE
        )
    }
    assert sorted(set(re.findall(r"`(test_\w+)`", text)) - there) == []
    cases = re.findall(r"^\| ([a-z]2?): ", text, re.MULTILINE)
    assert cases == ["a", "b", "b2", "c", "d", "e", "e2", "f", "f2", *"ghijklmnop"]
