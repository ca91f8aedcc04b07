"""The appointments application as the tools see it: the only module of `oneslot` that imports it.

The names below are pure and imported eagerly. The pipeline on Glue has `oneslot` and `appointments` alone, so whatever is in
`booking`, `workload` or `verification` is loaded by its name, in the function that needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from appointments.allocation import answer_of
from appointments.invariants import INVARIANTS, PLACE, Breach, Evidence, check, lacking, result_of
from appointments.messages import BookRequest, parse_message
from appointments.nhs_number import WRITTEN as NHS_NUMBER_PATTERN
from appointments.nhs_number import contains_one as contains_nhs_number
from appointments.outcomes import ANSWERED
from appointments.statuses import CANCELLED, COMPLETE, IN_PROGRESS
from oneslot.runtime.attempt import attempt
from oneslot.runtime.consumer.batch import process

if TYPE_CHECKING:
    import click
    from botocore.config import Config

    from oneslot.local.state import LocalState
    from oneslot.runtime.consumer.delivery_log import Delivery
    from oneslot.target import Target
    from oneslot.terminal import Terminal

__all__ = [
    "ANSWERED",
    "CANCELLED",
    "COMPLETE",
    "INVARIANTS",
    "IN_PROGRESS",
    "NHS_NUMBER_PATTERN",
    "PLACE",
    "BookRequest",
    "Breach",
    "Evidence",
    "answer_of",
    "check",
    "compose_consumer",
    "contains_nhs_number",
    "explore_handlers",
    "lacking",
    "next_steps",
    "parse_message",
    "replay_counterexample",
    "replay_simulation",
    "result_of",
    "simulate",
    "verbs",
]


def verbs() -> Sequence[click.Command]:
    """Return the application's own verbs: seed, send, smoke and run."""
    return tuple(_load(f"workload.commands.{name}", name) for name in ("seed", "send", "smoke", "run"))


def next_steps(target: Target, state: LocalState) -> list[tuple[str, str, str]]:
    """Return `(name, purpose, shell lines)`: what to paste into a shell once the local stack is up."""
    steps: list[tuple[str, str, str]] = _load("workload.next_steps", "next_steps")(target, state)
    return steps


def compose_consumer(  # noqa: PLR0917 - the parts of one consumer
    environment: Mapping[str, str],
    queue_url: str | None,
    threads: int,
    connect_dynamodb: Callable[[Config], Any],
    sqs: Any,
    log: Callable[[Delivery], None],
) -> tuple[str, Any]:
    """Return the URL of the consumer's queue and the consumer, as a Lambda handler.

    `queue_url` replaces the queue of `environment`. Raises `ValueError` for a wrong value in `environment`.
    """
    configuration = _load("booking.configuration", "Configuration").from_environment(environment)
    if queue_url:  # a busy message is deferred in the queue that it came from
        configuration = replace(configuration, queue_url=queue_url)
    dynamodb = connect_dynamodb(_load("booking.compose", "client_configuration")(threads))
    consumer = _load("booking.compose", "compose")(configuration, dynamodb, sqs, log, attempt=attempt, process=process)
    return configuration.queue_url, consumer


def explore_handlers(
    terminal: Terminal,
    *,
    short: bool,
    mutants: bool,
    only_mutants: bool,
    record: bool,
    save: Path | None,
    write: Path | None,
) -> int:
    """Run this project's explorations and mutants. Return the exit status."""
    options = _load("verification.figures.run", "Options")(short, mutants, only_mutants, record, save, write)
    status: int = _load("verification.figures.run", "run")(options, terminal)
    return status


def replay_counterexample(path: Path, terminal: Terminal) -> int:
    """Replay a counterexample of this project's handlers. Return the exit status."""
    status: int = _load("verification.figures.run", "run_replay")(path, terminal)
    return status


def simulate(terminal: Terminal, **options: Any) -> int:
    """Simulate the whole system. `options` are those of `oneslot simulate` but for --replay. Return the exit status."""
    status: int = _load("verification.simulation.command", "run_simulation")(
        _load("verification.simulation.command", "Options")(**options), terminal
    )
    return status


def replay_simulation(path: Path, terminal: Terminal) -> int:
    """Replay a counterexample of the simulation. Return the exit status."""
    status: int = _load("verification.simulation.command", "run_replay")(path, terminal)
    return status


def _load(module: str, name: str) -> Any:
    return getattr(import_module(module), name)
