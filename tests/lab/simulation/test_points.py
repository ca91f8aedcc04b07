"""Points before statements, which leave the module as it was."""

from __future__ import annotations

from importlib import import_module

from lab.simulation.world.points import instrumented
from oneslot.worker import job
from oneslot.worker.job import InHand


def test_point_comes_before_each_statement_that_runs() -> None:
    points: list[int] = []
    backoff = import_module("oneslot.runtime.surroundings")

    with instrumented([backoff]) as modules:
        modules.set_point(lambda: points.append(1))
        raised = None
        try:
            backoff.retry(int, ValueError("x"), lambda _: False, backoff)
        except ValueError as error:
            raised = error

    assert raised is not None
    assert len(points) == 2  # `while` and `raise`


def test_classes_stay_the_same_objects_and_get_their_code_back() -> None:
    before, code = job.InHand, InHand.add.__code__

    with instrumented([job]):
        within = InHand.add.__code__
        held = InHand.__new__(InHand)

    assert within is not code
    assert job.InHand is before
    assert isinstance(held, InHand)
    assert InHand.add.__code__ is code
    assert "__point__" not in vars(job)
