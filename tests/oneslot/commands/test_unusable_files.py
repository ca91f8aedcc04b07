"""Damaged files in the state folder are named, and not reported as a fault in Oneslot."""

from __future__ import annotations

import pytest

from tests.kits.moto_stack import MotoStack, invoke


@pytest.mark.parametrize(
    ("verb", "name"),
    [
        ("status", "statistics.json"),
        ("check", "accepted.jsonl"),
        ("check", "consumer.jsonl"),
        ("check", "operator-log.jsonl"),
        ("inspect x", "accepted.jsonl"),
    ],
)
def test_verb_names_a_file_that_is_a_folder(moto_stack: MotoStack, verb: str, name: str) -> None:
    (moto_stack.home / name).mkdir()
    result = invoke(*verb.split())
    assert result.exit_code == 1
    assert "cannot be used: Is a directory" in result.stderr
    assert str(moto_stack.home / name) in result.stderr
    assert "Correct that" in result.stderr


@pytest.mark.parametrize("text", ["", "no JSON", "[1]"])
def test_status_names_an_invalid_statistics_file(moto_stack: MotoStack, text: str) -> None:
    (moto_stack.home / "statistics.json").write_text(text)
    result = invoke("status")
    assert result.exit_code == 1
    assert f"{moto_stack.home}/statistics.json is not a valid statistics file" in result.stderr
