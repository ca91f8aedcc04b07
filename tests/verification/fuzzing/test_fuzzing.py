"""Hostile messages: every seed, larger bodies, any JSON, a short fuzzing run, and mistakes that it must find."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oneslot.runtime.consumer.queues import Queues
from verification.fuzzing.subject import GOOD, Broken, consume

ROOT = Path(__file__).resolve().parents[3]
SEEDS = sorted((ROOT / "verification" / "fuzzing" / "seeds").iterdir())
ATHERIS = ROOT / ".venv" / "fuzz"
MEBIBYTE = 1_048_576


@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: str(seed.name))
def test_seed_is_answered_or_refused_with_a_reason(seed: Path) -> None:
    fate = consume(seed.read_bytes())
    assert fate.complete != bool(fate.reason)
    content = consume(seed.read_bytes(), content_based=True)
    assert content.complete != bool(content.reason)
    if fate.reason != "missing_message_id":
        assert content == fate


def test_seeds_reach_every_refusal() -> None:
    reasons = {consume(seed.read_bytes()).reason for seed in SEEDS}
    assert reasons == {
        None,
        "not_json",
        "missing_message_id",
        "invalid_message_id",
        "unknown_type",
        "invalid_field",
        "unknown_practice",
    }


@pytest.mark.parametrize(
    "body",
    [
        "x" * MEBIBYTE,
        '{"message_id": "m", "type": "' + "b" * (MEBIBYTE - 100) + '"}',
        '{"message_id": "m", "a": ' + "[" * 500_000,
        '{"message_id": "m", "a": ' + "[" * 100_000 + "]" * 100_000 + "}",
        '{"a":' * 100_000 + "1" + "}" * 100_000,
        '{"message_id": "m", "a": ' + "9" * (MEBIBYTE - 100) + "}",
        '{"message_id": "m", "a": 1e' + "9" * 100_000 + "}",
        "{" + ",".join(f'"name-{number}": {number}' for number in range(50_000)) + "}",
        "{" + '"m": 1, ' * 100_000 + '"m": 2}',
        json.dumps({**GOOD, "message_id": "large", "more": "y" * 900_000}),
    ],
    ids=["text", "type", "open", "lists", "objects", "digits", "exponent", "names", "duplicates", "booking"],
)
def test_huge_or_deep_body_is_answered_or_refused(body: str) -> None:
    fate = consume(body.encode())
    assert fate.complete == ("large" in body)


values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(sorted(GOOD.values())),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(sorted(GOOD)) | st.sampled_from(["appointment_id", "x"]), values), st.binary())
@settings(deadline=None, max_examples=25)
def test_any_object_and_any_bytes_are_answered_or_refused(changes: dict[str, Any], noise: bytes) -> None:
    for data in (json.dumps({**GOOD, "message_id": "m", **changes}).encode(), noise):
        fate = consume(data)
        assert fate.complete != bool(fate.reason)


@pytest.mark.slow
@pytest.mark.skipif(not (ATHERIS / "atheris").exists(), reason="atheris has no package for this system")
def test_short_fuzzing_run_finds_nothing(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "verification.fuzzing",
        "--runs",
        "400",
        "--seconds",
        "20",
        "--folder",
        str(tmp_path),
    ]
    environment = {**os.environ, "PYTHONPATH": str(ATHERIS)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3_000:]
    assert "INITED cov:" in done.stderr
    assert not [path for path in tmp_path.iterdir() if path.name != "corpus"]


def test_fuzzing_finds_a_parser_that_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oneslot.runtime.consumer.record.parse_body", json.loads)
    with pytest.raises(Broken, match="reported as failed"):
        consume(b"no JSON")


def test_fuzzing_finds_a_quarantine_that_loses_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Queues, "quarantine", lambda *_: None)
    with pytest.raises(Broken, match="in no queue"):
        consume(b"no JSON")


def test_fuzzing_finds_an_nhs_number_in_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oneslot.runtime.identity.NOT_JSON", "the body is 9990000018")
    with pytest.raises(Broken, match="NHS number"):
        consume(b"no JSON")
