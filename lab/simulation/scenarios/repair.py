"""Operators at their terminals while workers consume: redrives, drops, unlocked and forgotten rows.

Each operator runs one command after another. A command that dies is followed by another process on the same machine. The
operators may work on machines of their own, or at two terminals of one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from botocore.exceptions import BotoCoreError, ClientError

from lab.explore.practice import LEDGER
from lab.simulation.scenarios.workers import run_worker
from lab.simulation.systems.repaired import Repaired
from lab.simulation.world.kernel import MICROSECONDS, Process
from lab.simulation.world.simulation import Simulation
from oneslot.errors import OneslotError
from oneslot.operator.evidence.malformed import Standing, standing
from oneslot.operator.evidence.operator_log import OperatorLog
from oneslot.operator.repair.dropping import drop
from oneslot.operator.repair.forecast import forecast_all
from oneslot.operator.repair.ledger_row import advice, consequences, forget, read_row, unlock
from oneslot.operator.repair.redrive import Redrive, redrive
from oneslot.operator.target import Target
from oneslot.runtime.sqs.dead_letters import HIDDEN_SECONDS
from oneslot.worker.settings import WorkerSettings

FAULTS_SECONDS = 600.0
"""Faults happen in this part of a run."""
OUTAGES = 3
"""Outages of the consumer in this time, each with dead letters."""
SHIFT_SECONDS, BREAK_SECONDS = 6.0, 54.0
"""How long a worker runs, and the time until the next: an idle one costs more steps than all operators."""
LOOKS = 40
"""Looks at the ledger, one a second, for a row to unlock."""
THINKING_SECONDS = 40.0
"""The longest time from a look at a row to its change: it can change in between."""
RATE = 100.0
REST_SECONDS = HIDDEN_SECONDS + 10
"""A failed command advises to continue in five minutes."""

Command = Callable[[Repaired, Target, OperatorLog], None]


def redrives(simulation: Simulation) -> None:
    """Redrives on a standard queue."""
    repair(Repaired(simulation), [run_redrive])


def redrives_fifo(simulation: Simulation) -> None:
    """Redrives on a FIFO queue."""
    repair(Repaired(simulation, fifo=True), [run_redrive])


def operators(simulation: Simulation) -> None:
    """Redrives, drops, and rows that are unlocked or forgotten."""
    repair(Repaired(simulation), [run_redrive, run_drop, run_drop, run_unlock, run_forget])


def repair(application: Repaired, commands: list[Command]) -> None:
    """Let operators repair what workers consume, under faults; then every redrive must end, and every law hold."""
    simulation = application.simulation
    settings = WorkerSettings(threads=2, limit_seconds=30, wait_seconds=5, grace_seconds=10)

    def work(process: Process) -> None:
        run_worker(application, process, settings, application.consumer(process), stop_after=SHIFT_SECONDS)

    application.open_slots(simulation.number("slots", 1, 6))
    messages = simulation.number("messages", 1, 15)
    if simulation.chance("oversized", 4):
        application.add_oversized()
    for outage in range(OUTAGES):
        ids = range(outage * messages // OUTAGES, (outage + 1) * messages // OUTAGES)
        simulation.kernel.at(
            int(outage * FAULTS_SECONDS / OUTAGES) * MICROSECONDS, functools.partial(application.break_down, ids)
        )
    for number in range(simulation.number("workers", 1, 2)):
        simulation.keep_running(f"worker-{number + 1}", work, after_seconds=BREAK_SECONDS)
    one_machine = simulation.chance("one_machine", 3)
    for number in range(simulation.number("operators", 1, 2)):
        machine = "machine-1" if one_machine else f"machine-{number + 1}"
        simulation.keep_running(
            f"operator-{number + 1}",
            lambda process, machine=machine: run_operator(application, process, machine, commands),  # type: ignore[misc]
            after_seconds=simulation.number(f"pause-{number + 1}", 2, 60),
        )
    simulation.run_for(FAULTS_SECONDS)
    simulation.stop_faults()
    simulation.run_until(lambda: False, max(0.0, (simulation.last_fault - simulation.kernel.now) / 1_000_000))
    application.settled = True
    if not simulation.run_until(lambda: not application.left(), within=5 * REST_SECONDS):
        simulation.breach("Q10", f"still to do: {application.left()}")
    application.must_drain(within=2 * settings.limit_seconds + 2 * settings.hidden_seconds + 2 * BREAK_SECONDS)
    application.check()


def run_operator(application: Repaired, process: Process, machine: str, commands: list[Command]) -> None:
    """Run one command after another until the process dies."""
    target, log = application.machine(process, machine)
    while True:
        # The last command of a world without faults is a redrive: it ends what is left.
        choice = 0 if application.settled else int(target.surroundings.jitter() * len(commands))
        try:
            commands[choice](application, target, log)
        except (OneslotError, ClientError, BotoCoreError) as error:
            application.simulation.note(process.name, "fails", type(error).__name__)
            target.surroundings.sleep(REST_SECONDS)
        target.surroundings.sleep(1 + 60 * target.surroundings.jitter())


def run_redrive(application: Repaired, target: Target, log: OperatorLog) -> None:
    """Redrive what it helps, or now and then everything."""
    everything = not application.settled and target.surroundings.jitter() * 4 < 1
    planned = {each.letter.sqs_message_id for each in forecast_all(target, []) if everything or each.helps}
    if not planned:
        return
    one = Redrive(frozenset(planned), RATE, target.surroundings.new_id())
    redrive(target, one, lambda _: None)
    application.note_run(one)
    if one.left:
        target.surroundings.sleep(REST_SECONDS)


def run_drop(application: Repaired, target: Target, log: OperatorLog) -> None:
    """Drop what has its answer; or, accepting the loss, everything."""
    accept_loss = target.surroundings.jitter() * 2 < 1
    forecasts = [each for each in forecast_all(target, []) if each.finished or accept_loss]
    drop(target, {each.letter.sqs_message_id: each for each in forecasts}, log, lambda _: None)


def run_unlock(application: Repaired, target: Target, log: OperatorLog) -> None:
    """Wait for a leased row, look at it, and end its lease."""
    for _ in range(LOOKS):
        for message_id in application.rows(LEDGER, "message_id"):
            row = read_row(target, message_id)
            now = target.surroundings.now_ms()
            if standing(row, now) is Standing.LEASED:
                application.simulation.note("operator", "reads", advice(target, row, now))
                target.surroundings.sleep(THINKING_SECONDS * target.surroundings.jitter())
                unlock(target, row, log)
                return
        target.surroundings.sleep(1)


def run_forget(application: Repaired, target: Target, log: OperatorLog) -> None:
    """Look at a row and at what forgetting it brings about; forget it if it is not leased."""
    ids = list(application.requests) or ["none"]
    row = read_row(target, ids[int(target.surroundings.jitter() * len(ids))])
    now = target.surroundings.now_ms()
    application.simulation.note("operator", "reads", (advice(target, row, now), consequences(target, row)))
    if standing(row, now) is not Standing.LEASED:
        target.surroundings.sleep(THINKING_SECONDS * target.surroundings.jitter())
        forget(target, row, log)
