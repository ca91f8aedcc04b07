"""The functions of the core that each unit test reaches. A test that does not reach a mutation cannot notice it."""

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
"""The key of what is reached while files are imported or shared fixtures are set up."""


@dataclass
class Survey:
    """Test → the functions that it reaches, each "file:Class.function", in the order of the run."""

    reached: dict[str, list[str]] = field(default_factory=dict)

    def tests_of(self, file: str, function: str) -> Sequence[str]:
        """Return the tests that may notice a change of this function, those that reach the least else first.

        `function` is "Class.method", a class's name or "module". For the last two, and for what is reached while files
        are imported, the result is all tests, those that reach the file first.
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
        """Return the survey as text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Survey:
        """Return the survey in the text of `to_json`."""
        return cls(**json.loads(text))


class Surveyor:
    """A pytest plugin that surveys a copy of the core. Enter it before the core is imported.

    `seen` is what was reached since the last test, or in the running one.
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
        """Note what one test reaches, including its fixtures."""
        self._aside |= self.seen
        self.seen.clear()
        sys.settrace(self._called)  # again: Python drops a trace function in which a deep recursion ended
        yield
        self.survey.reached[item.nodeid] = sorted(self.seen)
        self.seen.clear()

    @pytest.hookimpl(hookwrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object]) -> Iterator[None]:
        """Set aside what a shared fixture reaches, because the first test sets it up for others, too."""
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
