"""A counterexample: the plan of a run that breaks a law, made small, kept as JSON, and told on a page."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from botocore.exceptions import ClientError

from lab.explore.practice import TABLES
from lab.simulation.run import SCENARIOS, Run, run
from lab.simulation.world.faults import Fault
from lab.simulation.world.journal import Event
from lab.simulation.world.points import Instrumented
from lab.simulation.world.simulation import Plan
from oneslot.explorer.counterexample import NotReplayable
from oneslot.explorer.wording import describe_call
from oneslot.explorer.world import ApiCall

_INVALID = "not a counterexample that `--save` wrote"
_BATCHES = {
    "send_message_batch": "send",
    "delete_message_batch": "delete",
    "change_message_visibility_batch": "hide or show",
}


def to_json(run: Run) -> str:
    """Return what replays a run."""
    document = {
        "scenario": run.scenario,
        "seed": run.plan.seed,
        "numbers": dict(run.plan.numbers),
        "points": run.plan.points,
        "faults": [asdict(fault) for fault in run.plan.faults or ()],
        "laws": sorted({breach.law for breach in run.breaches}),
    }
    return json.dumps(document, indent=2) + "\n"


def from_json(text: str) -> tuple[str, Plan]:
    """Return the scenario and the plan of a counterexample. Raises `NotReplayable`, with a sentence."""
    try:
        document = json.loads(text)
        name = document["scenario"]
        plan = Plan(
            int(document["seed"]),
            {str(key): int(value) for key, value in document["numbers"].items()},
            tuple(Fault(**fault) for fault in document["faults"]),
            bool(document["points"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise NotReplayable(f"{_INVALID}: {error}") from error
    if name not in SCENARIOS:
        raise NotReplayable(f"there is no scenario {name!r}; choose one of {', '.join(SCENARIOS)}")
    return str(name), plan


def story(run: Run) -> Iterator[str]:
    """Yield the lines of a run's story: what each process did, what became of it, and the laws that it broke."""
    numbers = ", ".join(f"{name} {value}" for name, value in run.plan.numbers.items())
    yield f"{run.scenario}, seed {run.plan.seed}: {numbers}"
    for event in run.events:
        what = _describe(event)
        if what is not None:
            yield f"{event.at / 1_000_000:9.3f} s  {event.process:12} {what}"
    for breach in dict.fromkeys(run.breaches):
        yield f"  => {breach.law}: {breach.detail}"
    if not run.breaches:
        yield "  => no law is broken"


def _describe(event: Event) -> str | None:
    """Return an event in words; None for one that tells nothing."""
    if event.process == "law":
        return None  # said at the end
    if event.what.startswith("FAULT "):
        what, number, seconds = event.details
        return f"! {event.what[6:]}, at {what} ({number}){f', {seconds:g} s' if seconds else ''}"
    if event.what == "logs":
        return _logged(event.details)
    if isinstance(event.details, tuple) and isinstance(event.details[0], Mapping):
        return _called(event.what, *event.details)
    return event.what if event.details is None else f"{event.what} {event.details}"


def _called(operation: str, parameters: Mapping[str, Any], answer: Any) -> str | None:
    said = f" -> {answer.response['Error']['Code']}" if isinstance(answer, ClientError) else ""
    if operation == "receive_message":
        shown = ", ".join(_message(message) for message in ([] if said else answer.get("Messages", ())))
        return f"receive: {shown}{said}" if shown or said else None
    if operation in _BATCHES:
        return f"{_BATCHES[operation]} {_entries(parameters['Entries'])}{said}"
    return f"{describe_call(ApiCall.of(operation, parameters), TABLES)}{said}"


def _logged(line: Mapping[str, Any]) -> str | None:
    if "event" not in line:
        return None
    details = {name: value for name, value in line.items() if name not in ("message", "event", "time")}
    return f"log: {line['event']} {' '.join(f'{name}={value}' for name, value in details.items())}"


def _message(message: Mapping[str, Any]) -> str:
    identity = json.loads(message["Body"]).get("message_id", "?")
    count = message.get("Attributes", {}).get("ApproximateReceiveCount", "?")
    return f"{identity} ({_copy(message['MessageId'])}, receive {count})"


def _entries(entries: Any) -> str:
    return ", ".join(
        (_copy(entry["ReceiptHandle"]) if "ReceiptHandle" in entry else json.loads(entry["MessageBody"])["message_id"])
        + (f" for {entry['VisibilityTimeout']} s" if "VisibilityTimeout" in entry else "")
        for entry in entries
    )


def _copy(name: str) -> str:
    """Return the copy that an SQS id, or a receipt handle that begins with one, means."""
    return f"copy {int(name.partition('/')[0][-12:], 16)}"


TRIES = 2_000
"""The most runs for one counterexample."""

OTHER_SEEDS = 8
"""Seeds that are tried for a smaller plan: without a fault the threads take other turns, and may miss each other."""


def shrink(found: Run, modules: Instrumented) -> Run:
    """Return the smallest run that was found within `TRIES`, and that breaks one of the same laws."""
    laws = {breach.law for breach in found.breaches}
    left = TRIES

    def breaks(plan: Plan, seeds: int) -> Run | None:
        nonlocal left
        for seed in range(plan.seed, plan.seed + seeds):
            if left <= 0:
                return None
            left -= 1
            tried = run(found.scenario, replace(plan, seed=seed), modules)
            if laws & {breach.law for breach in tried.breaches}:
                return tried
        return None

    best = found
    for seeds in (1, OTHER_SEEDS):
        improved = True
        while improved and left > 0:
            improved = False
            for smaller in _smaller(best.plan):
                if (tried := breaks(smaller, seeds)) is not None:
                    best, improved = tried, True
                    break
    return best


def _smaller(plan: Plan) -> Iterator[Plan]:
    """Yield smaller plans, the boldest first."""
    faults = tuple(plan.faults or ())
    for part in _without_parts(faults):
        yield replace(plan, faults=part)
    if plan.points:
        yield replace(plan, points=False, faults=tuple(each for each in faults if each.place != "statement"))
    for name, value in plan.numbers.items():
        nearer = value - 1 if value > 0 else value + 1
        for lower in dict.fromkeys((0, int(value / 2), nearer)):
            if abs(lower) < abs(value):
                yield replace(plan, numbers={**plan.numbers, name: lower})


def _without_parts(faults: Sequence[Fault]) -> Iterator[tuple[Fault, ...]]:
    """Yield the faults without a half of them, a quarter, ... and without each one."""
    size = len(faults)
    while size:
        size = size // 2 if size > 1 else 0
        for start in range(0, len(faults), max(1, size)):
            yield (*faults[:start], *faults[start + max(1, size) :])
        if size <= 1:
            return
