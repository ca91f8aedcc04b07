"""The README's commands and links."""

import os
import re
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
BLOCKS: list[str] = re.findall(r"^```bash\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


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
    return [text for text in BLOCKS if containing in text]


def test_readme_names_existing_make_targets() -> None:
    inline = re.findall(r"`(make [^`]+)`", README)
    assert inline
    for command in [*blocks("make run"), *inline]:
        dry = shell(command.replace("make ", "make --dry-run "))
        assert dry.returncode == 0, dry.stderr


def test_readme_shows_what_the_quickstart_prints() -> None:
    done = shell("python quickstart.py", PYTHONWARNINGS="error")
    assert done.returncode == 0, done.stderr
    assert f"```text\n{done.stdout}```" in README


def test_readme_shows_what_a_first_scan_prints() -> None:
    shown = r"^<!-- the end of what the last command prints -->\n```text\n(.*?)^```$"
    (block,) = re.findall(shown, README, re.MULTILINE | re.DOTALL)
    done = shell("cd examples/scanned && oneslot scan template.yaml", COLUMNS="120")
    assert done.returncode == 1, done.stderr
    assert done.stdout.endswith(block)
