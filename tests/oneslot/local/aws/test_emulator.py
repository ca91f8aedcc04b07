"""The emulator's Python: this one where it has the pinned ministack, else one that is installed once."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from ministack.services import dynamodb

from oneslot.errors import EmbeddedAwsFailed
from oneslot.local.aws import embedded_aws
from oneslot.local.aws.embedded_aws import PINNED, emulator_python
from oneslot.local.aws.embedded_server import parse_expressions_once


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the cache of a user whose Python lacks ministack."""
    monkeypatch.setattr(embedded_aws, "version", lambda _: "0")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "oneslot"


def make_python(*command: str | Path) -> None:
    """Stand in for `venv` and pip."""
    if command[1:3] == ("-m", "venv"):
        Path(command[3], "bin").mkdir(parents=True)
        Path(command[3], "bin", "python").touch()


def test_emulator_runs_here_when_the_pinned_one_is_installed() -> None:
    assert emulator_python() == Path(sys.executable)


def test_emulators_environment_has_what_lambdas_python_brings() -> None:
    pinned = {line.partition("==")[0] for line in PINNED.read_text().splitlines() if "==" in line}
    assert pinned >= {"boto3", "botocore", "jmespath", "python-dateutil", "s3transfer", "six", "urllib3"}


def test_emulator_is_installed_when_it_or_its_python_is_missing(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(embedded_aws, "_run", make_python)
    python = emulator_python(said.append)
    assert python.is_relative_to(cache)
    assert emulator_python(said.append) == python
    assert said == [f"Installing the embedded AWS, once, into {python.parents[1]} (10 s)..."]
    assert list(cache.iterdir()) == [python.parents[1]]
    python.unlink()
    python.symlink_to(cache / "removed")
    assert emulator_python() == python
    assert python.exists()


@pytest.mark.slow
def test_emulator_is_refused_in_one_sentence_when_pip_reaches_no_index(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"NO_INDEX": "1", "CONFIG_FILE": "/dev/null", "FIND_LINKS": str(cache)}.items():
        monkeypatch.setenv(f"PIP_{name}", value)
    said = (
        r"^The embedded AWS is installed on first use, and that failed: .*boto3==.* Connect to the network and repeat"
    )
    with pytest.raises(EmbeddedAwsFailed, match=said) as refused:
        emulator_python()
    assert "\n" not in str(refused.value)
    assert list(cache.iterdir()) == []


def test_expression_is_read_once_for_all_items(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    for name in ("_tokenize", "_condition_syntax_error"):
        original = getattr(dynamodb, name)

        def counted(text: str, *rest: str, original=original, name=name):  # type: ignore[no-untyped-def]
            read.append(name)
            return original(text, *rest)

        monkeypatch.setattr(dynamodb, name, counted)
    parse_expressions_once()

    kept = [
        item
        for item in ({"n": {"N": str(number)}} for number in range(5))
        if dynamodb._evaluate_condition("n > :least", item, {":least": {"N": "2"}}, {}, slot="FilterExpression")
    ]

    assert [item["n"]["N"] for item in kept] == ["3", "4"]
    assert sorted(read) == ["_condition_syntax_error", "_tokenize"]
