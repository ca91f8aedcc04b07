"""The Makefile: its help, and when it makes the environment again."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

MAKEFILE = Path(__file__).parents[1] / "Makefile"
MAKES_ENVIRONMENT = "-m venv --clear .venv"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with this Makefile and an environment that is newer than its requirements."""
    for folder in (".venv", "requirements"):
        (tmp_path / folder).mkdir()
    shutil.copy(MAKEFILE, tmp_path)
    shutil.copy(MAKEFILE.parent / "requirements" / "environment.mk", tmp_path / "requirements")
    for age, name in enumerate(
        [".venv/.installed", ".venv/.run", "requirements/dev.txt", "requirements/run.txt", "pyproject.toml"]
    ):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (1_000_000 - age, 1_000_000 - age))
    return tmp_path


def make(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `make` in `folder`."""
    command = ["/usr/bin/env", "make", "--no-print-directory", *arguments]
    return subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True)


@pytest.mark.parametrize("makefile", [MAKEFILE, MAKEFILE.parent / "lab" / "Makefile"], ids=["product", "lab"])
def test_help_lists_every_target(makefile: Path) -> None:
    text = makefile.read_text(encoding="utf-8")
    targets = re.findall(r"^([a-z-]+):.*##", text, re.MULTILINE)
    listed = [line.split()[0] for line in make(makefile.parent, "help").stdout.splitlines()]
    assert listed == targets
    assert {*targets} <= {*re.findall(r"^\.PHONY: (.+)$", text, re.MULTILINE)[0].split()}


def test_environment_is_kept_when_requirements_are_older(checkout: Path) -> None:
    done = make(checkout, "--dry-run", ".venv/.installed")
    assert MAKES_ENVIRONMENT not in done.stdout


@pytest.mark.parametrize("name", ["requirements/run.txt", "pyproject.toml"])
def test_environment_is_made_again_when_requirements_change(checkout: Path, name: str) -> None:
    (checkout / name).touch()
    done = make(checkout, "--dry-run", ".venv/.installed")
    assert MAKES_ENVIRONMENT in done.stdout


def test_environment_is_kept_and_extended_when_the_other_list_changes(checkout: Path) -> None:
    (checkout / "requirements/dev.txt").touch()
    done = make(checkout, "--dry-run", ".venv/.installed").stdout
    assert MAKES_ENVIRONMENT not in done
    assert "-r requirements/dev.txt" in done


def test_environment_is_refused_when_python_is_too_old(checkout: Path) -> None:
    (checkout / "requirements/run.txt").touch()
    (checkout / "requirements/dev.txt").touch()
    old = checkout / "python3"
    old.write_text(f'#!/bin/sh\nexec {shutil.which("python3")} -c "import sys; sys.version_info = (3, 9); $2"\n')
    old.chmod(0o755)
    done = make(checkout, f"PYTHON={old}", ".venv/.installed")
    assert done.returncode != 0
    assert "Oneslot needs Python 3.11 or newer. Try: make PYTHON=python3.11" in done.stderr


def test_last_lines_name_skipped_tests_and_their_remedy_when_a_server_is_missing(tmp_path: Path) -> None:
    tests = "tests/oneslot/runtime/stores/test_valkey.py"
    environment = {name: value for name, value in os.environ.items() if name != "CI"} | {"PATH": str(tmp_path)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow", tests]
    run = subprocess.run(command, cwd=MAKEFILE.parent, env=environment, capture_output=True, text=True, check=True)
    *_, reason, _ = run.stdout.splitlines()
    assert re.fullmatch(r"\d+ not run\. Valkey and Redis are not on PATH\. .*: sudo make valkey\.", reason)


@pytest.mark.parametrize("tag", ["v9.9.9", "v0.2.0-rc1", "v"])
def test_dist_is_refused_when_the_tag_names_another_version(checkout: Path, tag: str) -> None:
    (checkout / "pyproject.toml").write_text('version = "0.2.0"\n')
    os.utime(checkout / "pyproject.toml", (0, 0))
    done = make(checkout, "dist", f"TAG={tag}")
    assert done.returncode != 0
    assert f"The tag {tag} is not v and the version in pyproject.toml." in done.stdout
