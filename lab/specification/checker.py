"""Run the model checker (npm's `tla-checker`, WebAssembly on Node.js) on a specification."""

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from oneslot.errors import OneslotError
from oneslot.local.aws.synthesis import find_node

ROOM = Path(__file__).resolve().parent
LEDGER = ROOM / "ledger.tla"
CONFIGURATION = ROOM / "ledger.cfg"
_MOST_STATES = 5_000_000
_DEEPEST = 1_000
_SECONDS = 3_600


class CheckerFailed(OneslotError):
    """The checker is not installed, or could not read the specification."""


@dataclass(frozen=True)
class Model:
    """The size of a world: its consumers, the messages of its one request, and all its faults."""

    consumers: int = 2
    messages: int = 2
    faults: int = 2

    def configuration(self) -> str:
        """Return the configuration file's text with this model's constants in it."""
        constants = {
            "Consumers": _names("c", self.consumers),
            "Messages": _names("m", self.messages),
            # One for the row, each consumer and each write that may still land, and a free one.
            "Ids": "{" + ", ".join(str(number) for number in range(1, self.consumers + self.faults + 3)) + "}",
            "Faults": str(self.faults),
        }
        text = CONFIGURATION.read_text()
        for name, value in constants.items():
            text, replaced = re.subn(rf"^  {name} = .*$", f"  {name} = {value}", text, flags=re.MULTILINE)
            if not replaced:
                raise CheckerFailed(f"{CONFIGURATION} has no constant {name}.")
        return text


@dataclass(frozen=True)
class Check:
    """The checker's verdict. `violated`: the invariant or property, None if all hold. `trace`: the path to it, as text."""

    states: int
    violated: str | None = None
    trace: str = ""
    dot: str = field(default="", repr=False)

    @property
    def holds(self) -> bool:
        """Whether all that the configuration names holds in every reachable state."""
        return self.violated is None


def specification() -> str:
    """Return the specification's text."""
    return LEDGER.read_text()


def check(text: str, model: Model, *, dot: bool = False) -> Check:
    """Visit every reachable state of this specification. dot: return the graph too, for `transitions`.

    Raises `CheckerFailed` without a verdict: for a syntax error, an unknown name, or too many states.
    """
    answer = _run(text, model.configuration(), dot)
    if answer["success"]:
        return Check(answer["states_explored"], dot=answer["dot"] or "")
    trace = "\n\n".join(answer["trace"] or ())
    match answer["error_type"]:
        case "InvariantViolation":
            violated = _invariants()[int(re.findall(r"\d+", answer["error_message"])[0])]
        case "LivenessViolation":
            violated = "Finished"  # the only property: the checker prints its formula, not its name
        case other:
            raise CheckerFailed(f"The checker gave no verdict: {other}: {answer['error_message']}\n{trace[-2000:]}")
    return Check(answer["states_explored"], violated, trace)


def transitions(dot: str) -> Iterator[tuple[Mapping[str, str], Mapping[str, str]]]:
    """Yield each step of a graph that `check` returned: the variables before it and after it, as TLA+ text."""
    states: dict[str, Mapping[str, str]] = {}
    edges: list[tuple[str, str]] = []
    for line in dot.splitlines():
        if edge := re.match(r"\s*(s\d+) -> (s\d+)", line):
            edges.append((edge[1], edge[2]))
        elif node := re.match(r'\s*(s\d+) \[.*?label="((?:[^"\\]|\\.)*)"', line):
            label = node[2].replace('\\"', '"')
            states[node[1]] = dict(part.split("=", 1) for part in label.split("\\n"))
    for before, after in edges:
        yield states[before], states[after]


def _run(text: str, configuration: str, dot: bool) -> dict[str, Any]:
    request = {
        "spec": text,
        "cfg": configuration,
        "max_states": _MOST_STATES,
        "max_depth": _DEEPEST,
        "dot": dot,
    }
    run = subprocess.run(
        [str(find_node()), str(ROOM / "check.mjs")],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    if "ERR_MODULE_NOT_FOUND" in run.stderr or "MODULE_NOT_FOUND" in run.stderr:
        raise CheckerFailed("The checker of the TLA+ specification is not installed. Run: make -C lab spec, or npm ci.")
    if run.returncode != 0:
        raise CheckerFailed(f"The checker ended with status {run.returncode}: {run.stderr[-2000:]}")
    answer: dict[str, Any] = json.loads(run.stdout)
    return answer


def _invariants() -> list[str]:
    """Return the invariants in the order of the configuration, because the checker names them by their place."""
    (line,) = re.findall(r"^INVARIANTS (.*)$", CONFIGURATION.read_text(), flags=re.MULTILINE)
    return str(line).split()


def _names(prefix: str, count: int) -> str:
    return "{" + ", ".join(f"{prefix}{number}" for number in range(1, count + 1)) + "}"
