"""The README's commands, run in one shell as a reader types them, and its links."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
BLOCKS: list[tuple[str, str]] = re.findall(r"^```bash *(.*?)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def shell(script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run in bash from the repository, with this interpreter's commands first on PATH; stop at a failure."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["/bin/bash", "-euo", "pipefail", "-c", script],
        cwd=REPOSITORY,
        env={**os.environ, **environment, "PATH": path},
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )


def blocks(containing: str) -> list[str]:
    return [text for _, text in BLOCKS if containing in text]


def test_readme_names_existing_make_targets() -> None:
    for command in [*blocks("make run"), *blocks("make test"), *blocks("make deploy")]:
        dry = shell(command.replace("make ", "make --dry-run "))
        assert dry.returncode == 0, dry.stderr


@pytest.mark.slow
@pytest.mark.embedded_aws
@pytest.mark.timeout(1500)
def test_readme_commands_end_with_a_good_verdict(tmp_path: Path) -> None:
    first, *others = [text for kind, text in BLOCKS if not kind and ("oneslot" in text or "aws " in text)]
    assert "source .venv/bin/activate\n" in first
    by_hand = [text for kind, text in BLOCKS if not kind and "make " not in text]
    script = "".join(by_hand).replace("source .venv/bin/activate\n", "")
    assert script.startswith("oneslot up")
    assert all(other in script for other in others)
    try:
        done = shell(script, ONESLOT_HOME=str(tmp_path), NO_COLOR="1", COLUMNS="160")
    finally:
        shell("oneslot down", ONESLOT_HOME=str(tmp_path))
    assert done.returncode == 0, done.stdout[-3_000:] + done.stderr[-3_000:]
    assert '"S": "COMPLETE"' in done.stdout
    assert "QuarantineReason" in done.stdout
    assert "duplicate" in done.stdout
    assert "Left: 1 that would fail again" in done.stdout
    assert "1 message moved to the queue." in done.stdout
    assert "Exactly once" in done.stdout


def test_readme_links_to_existing_files() -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", README)
    assert len(links) > 5
    assert [link for link in links if not (REPOSITORY / link).exists()] == []


def test_readme_shows_what_the_quickstart_prints() -> None:
    done = shell("python quickstart.py")
    assert done.returncode == 0, done.stderr
    assert f"```text\n{done.stdout}```" in README
