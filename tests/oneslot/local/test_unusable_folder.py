"""A state folder that the system does not let us use is told in a sentence with the path, by every verb."""

from __future__ import annotations

from pathlib import Path

import pytest

from oneslot.local.errors import LocalRunError
from oneslot.local.stack import local_stack
from oneslot.local.supervisor import up
from tests.kits.moto_stack import invoke


@pytest.mark.parametrize("verb", ["up", "status", "down"])
@pytest.mark.parametrize("name", ["", "state.json"], ids=["the folder is a file", "state.json is a folder"])
def test_every_verb_names_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str, name: str) -> None:
    home = tmp_path / "home"
    (home / name).mkdir(parents=True)
    if not name:
        home.rmdir()
        home.touch()
    monkeypatch.setenv("ONESLOT_HOME", str(home))
    answer = invoke(verb)
    assert answer.exit_code == 1
    assert answer.stderr.startswith(f"Error: The state folder {home} cannot be used: "), answer.stderr
    assert f"{home}/state.json. Put that right, or name another folder in ONESLOT_HOME." in answer.stderr


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no folder can be made in /proc")
def test_a_folder_that_cannot_be_made_is_named() -> None:
    home = Path("/proc/oneslot")
    with pytest.raises(LocalRunError, match=r"The state folder /proc/oneslot cannot be used: .*: /proc/oneslot[.]"):
        up(home, progress=lambda _: None)
    with pytest.raises(LocalRunError, match="/proc/oneslot"), local_stack(home, progress=lambda _: None):
        pass


@pytest.mark.parametrize("name", ["lock", "supervisor.log"])
def test_up_names_what_it_cannot_open(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises(LocalRunError, match=f"cannot be used: Is a directory: {tmp_path}/{name}[.]"):
        up(tmp_path, progress=lambda _: None)


@pytest.mark.parametrize("name", ["lock", "previous/consumer.jsonl"])
def test_a_stack_names_what_it_cannot_make_room_for(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir(parents=True)
    with (
        pytest.raises(LocalRunError, match=f"cannot be used: .*: {tmp_path}/{name}[.]"),
        local_stack(tmp_path, progress=lambda _: None),
    ):
        pass
