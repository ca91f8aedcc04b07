"""The pictures of the README are what their scripts make of the current code and the kept recording."""

from __future__ import annotations

import json

from lab.documentation import counterexample, recording


def test_counterexample_is_the_current_codes() -> None:
    usual, ours = counterexample.replays()
    assert counterexample.PICTURE.read_text(encoding="utf-8") == counterexample.picture(usual, ours)
    assert counterexample.KEPT.read_text(encoding="utf-8") == counterexample.usual_path().to_json()


def test_usual_handler_books_twice_and_ours_once() -> None:
    usual, ours = counterexample.replays()
    assert [line for line in usual.broken if line.startswith("I1 ")]
    assert ours.broken == ()
    for told in (usual, ours):
        assert sum(counterexample.FAULT in line for line in told.lines) == 1
        assert not any("crash" in line for line in told.lines)


def test_recording_is_drawn_from_the_kept_lines() -> None:
    lines = [(at, text) for at, text in json.loads(recording.KEPT.read_text(encoding="utf-8"))]
    assert recording.PICTURE.read_text(encoding="utf-8") == recording.picture(lines)
    assert [text for _, text in lines if text.startswith("$ ")] == ["$ python quickstart.py", "$ make run"]
