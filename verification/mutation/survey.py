"""Which functions of the core each unit test reaches: a test that does not reach what was spoiled cannot notice it."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType

import pytest

EVERYWHERE = "everywhere"
"""In place of a test: what is reached while files are loaded or fixtures are made that many tests share."""


@dataclass
class Survey:
    """Test → the functions that it reaches, each "file:Class.function", with the tests in the order of their run."""

    reached: dict[str, list[str]] = field(default_factory=dict)

    def tests_of(self, file: str, function: str) -> Sequence[str]:
        """The tests that may notice a change of this function, those that reach little else first.

        `function` is "Class.method" or, for what stands in none, "module" or a class's name: then, and for what is
        reached while files are loaded, it is every test that reaches the file at all, and the others after them.
        """
        place = f"{file}:{function}"
        tests = [test for test in self.reached if test != EVERYWHERE]
        tests.sort(key=lambda test: len(self.reached[test]))
        if place in self._reached_by(tests) and place not in self.reached.get(EVERYWHERE, ()):
            return [test for test in tests if place in self.reached[test]]
        return sorted(tests, key=lambda test: not any(one.startswith(f"{file}:") for one in self.reached[test]))

    def _reached_by(self, tests: Sequence[str]) -> set[str]:
        return {place for test in tests for place in self.reached[test]}

    def to_json(self) -> str:
        """As text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Survey:
        """From `to_json`."""
        return cls(**json.loads(text))


class Surveyor:
    """A pytest plugin that makes the survey of a core's copy; to be entered before the core is imported.

    `seen` is what has been reached since the last test, or in the one that runs.
    """

    def __init__(self, core: str) -> None:
        self.survey = Survey()
        self._core = f"{Path(core).resolve()}/"
        self.seen: set[str] = set()
        self._aside: set[str] = set()
        self._places: dict[object, str] = {}

    def __enter__(self) -> Surveyor:
        threading.settrace(self._called)
        sys.settrace(self._called)
        return self

    def __exit__(self, *failure: object) -> None:
        sys.settrace(None)
        threading.settrace(None)
        self.survey.reached[EVERYWHERE] = sorted(self._aside)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Note what one test reaches, its fixtures included."""
        self._aside |= self.seen
        self.seen.clear()
        yield
        self.survey.reached[item.nodeid] = sorted(self.seen)
        self.seen.clear()

    @pytest.hookimpl(hookwrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object]) -> Iterator[None]:
        """Set aside what a shared fixture reaches: it is made in the first test's time, for others, too."""
        before = set(self.seen)
        yield
        if fixturedef.scope != "function":
            self._aside |= self.seen
            self.seen &= before

    def _called(self, frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        place = self._places.get(code)
        if place is None:
            path = str(Path(code.co_filename).resolve())
            inside = path.startswith(self._core)
            name = code.co_qualname.replace("<locals>.", "")
            place = self._places[code] = f"{path[len(self._core) :]}:{name}" if inside else ""
        if place:
            self.seen.add(place)
