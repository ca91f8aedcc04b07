"""Counterexamples: stored, read, replayed, and refused with a sentence."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from lab.explore.__main__ import explore
from lab.explore.ours import OURS
from lab.explore.scenarios import ONE_REQUEST
from lab.peers.peers import PEERS
from oneslot.errors import OneslotError
from oneslot.explorer.counterexample import Counterexample, NotReplayable, counterexample, replay
from oneslot.explorer.explorer import Explorer

LIBRARY = PEERS[2].subject


@pytest.fixture(scope="module")
def kept() -> Counterexample:
    """The lock library's lost request."""
    explorer = Explorer(ONE_REQUEST, LIBRARY)
    return counterexample(explorer.system, explorer.run(True, lambda *_: None).breaches[0])


def test_counterexample_survives_its_file(kept: Counterexample) -> None:
    assert Counterexample.from_json(kept.to_json()) == kept


def test_replay_describes_calls_answers_rows_and_laws(kept: Counterexample) -> None:
    text = "\n".join(replay(kept, ONE_REQUEST, LIBRARY).lines)
    assert "A  put ledger m-1 IN_PROGRESS -> done" in text
    assert "ConditionalCheckFailedException; ends, acknowledges" in text
    assert "A  query slots by free_slots: crash before it is sent" in text
    assert "ledger m-1: IN_PROGRESS" in text
    assert "=> I2 m-1: acknowledged, and no slot was ever taken for it" in text
    assert "delivery-" not in text


def test_replay_refuses_a_path_that_the_code_does_not_take(kept: Counterexample) -> None:
    with pytest.raises(NotReplayable, match=r"step 3 .* cannot be taken"):
        replay(kept, ONE_REQUEST, OURS)


@pytest.mark.parametrize("text", ["", "[" * 100_000, "[]", "{}", '{"deliveries": [], "moves": [1], "laws": []}'])
def test_counterexample_is_refused_when_the_file_is_another(text: str) -> None:
    with pytest.raises(NotReplayable, match=r"^not a counterexample that `--save` wrote$"):
        Counterexample.from_json(text)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"deliveries": [[5], [0]]}, ": deliveries: positions must be 0 to 0, as in messages"),
        ({"faults": -1}, ": faults: "),
        ({"moves": [{"delivery": 0}]}, ""),
    ],
    ids=str,
)
def test_replay_names_the_file_when_it_is_invalid(
    kept: Counterexample, tmp_path: Path, change: dict[str, Any], sentence: str
) -> None:
    path = tmp_path / "kept.json"
    path.write_text(json.dumps({**json.loads(kept.to_json()), **change}))
    ran = CliRunner().invoke(explore, ["--replay", str(path)], standalone_mode=False)
    assert isinstance(ran.exception, OneslotError)
    assert f"kept.json: not a counterexample that `--save` wrote{sentence}" in str(ran.exception)


def test_command_fails_when_the_replay_breaks_a_law(kept: Counterexample, tmp_path: Path) -> None:
    path = tmp_path / "kept.json"
    path.write_text(kept.to_json())
    ran = CliRunner().invoke(explore, ["--replay", str(path)], standalone_mode=False)
    assert ran.return_value == 1
    assert "=> I2 m-1" in ran.output


def test_command_names_the_file_of_an_unknown_handler(kept: Counterexample, tmp_path: Path) -> None:
    path = tmp_path / "kept.json"
    path.write_text(kept.to_json().replace(LIBRARY.name, "unknown"))
    ran = CliRunner().invoke(explore, ["--replay", str(path)], standalone_mode=False)
    assert isinstance(ran.exception, OneslotError)
    assert "there is no handler 'unknown'" in str(ran.exception)
    assert "kept.json" in str(ran.exception)
