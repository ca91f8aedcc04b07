"""Explore every function of a template, each in a process of its own, and judge the event source mappings."""

import hashlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from oneslot.errors import InvalidScenario
from oneslot.explorer.handlers.exploration import forked
from oneslot.explorer.handlers.given import GIVEN
from oneslot.explorer.handlers.scenario_file import check_rows, check_scenario, read_scenario
from oneslot.explorer.handlers.templates.intrinsics import PSEUDO, Resolver
from oneslot.explorer.handlers.templates.sources import KNOWN, TASK, FunctionSource, references, sources_of
from oneslot.explorer.handlers.templates.template import (
    folders,
    function_properties,
    functions_of,
    read_template,
    tables_of,
    template_file,
    template_tables,
    variables_of,
)
from oneslot.explorer.refusal import NotExplorable
from oneslot.explorer.scan.first_events import RETRIES
from oneslot.explorer.scan.judging import JUDGED, Row, ScanJob, refusal, remedy_of, row_of
from oneslot.explorer.scan.mapping_rules import Finding, findings
from oneslot.explorer.scan.written_test import Tracked

GRACE_S = 30
"""The seconds that a process has beyond its budget: for imports, and for a step that takes long."""
TOO_LATE = (
    f"It ran {GRACE_S} s beyond its budget: it loops without a call, or one step takes long. End it, or raise --budget."
)
NO_VERDICT = "Its process ended without a verdict, as after os._exit. Remove what ends it."
_OF_SSM, _DYNAMIC = "AWS::SSM::Parameter::Value", "{{resolve:"
"""How the type or the default of a parameter begins whose value is only in the account."""
NO_RETRY = "Its state machine has no Retry, so nothing runs it again. Add one, or explore it with `oneslot explore`."

_PIP_ERROR = re.compile(r"ERROR: (?!Ignored)(.*?)(?: \(from versions: .*)?$", re.MULTILINE)
_INCLUDES = re.compile(r"^\s*(?:-[rc]|--requirement|--constraint)[ =]*(\S+)", re.MULTILINE)


@dataclass(frozen=True)
class Scan:
    """The rows and the findings of a template."""

    template: str
    rows: tuple[Row, ...]
    findings: tuple[Finding, ...]


def scan(
    template: Path,
    *,
    budget: float = 300,
    workers: int = 0,
    events: Path | None = None,
    parameters: Mapping[str, str] | None = None,
    env: Mapping[str, str] | None = None,
    only: Sequence[str] = (),
    packages: Path | None = None,
    on_row: Callable[[Row], None] = lambda row: None,
) -> Scan:
    """Scan a template.

    Args:
        template: a template of SAM or CloudFormation, or the folder `cdk.out`.
        budget: seconds for all functions together; each has an equal share.
        workers: processes at a time; as many as the machine has cores unless given.
        events: a folder with what the handlers find: FUNCTION.json, one whole event of its source, or FUNCTION.py, with
            the names that a scenario file of `explore` has. Those replace what the scan makes.
        parameters: those of the stack, over their defaults.
        env: environment variables of every function, over the template's.
        only: the logical ids to scan; all unless given.
        packages: a folder for what the functions import: each requirements.txt beside a handler is installed into a folder
            of its own there, once. None to import only what is installed here.
        on_row: called with each row as soon as it is known.

    Raises `NotExplorable` if the template cannot be read, or does not have a function of `only`, and `InvalidScenario` for
    a file of `events` that is not valid.
    """
    file = template_file(template)
    document = read_template(file)
    declared = document.get("Parameters", {})
    for one in parameters or {}:
        if one not in declared and one not in PSEUDO:
            remedy = f"Name one of {', '.join(declared)}." if declared else "It declares none."
            raise NotExplorable(f"{file} has no parameter {one}. {remedy}")
    assumed = {
        name: 1 if one.get("Type") == "Number" else (one.get("AllowedValues") or [_assumed_text(name)])[0]
        for name, one in declared.items()
        if any(text in f"{one.get('Type')} {one.get('Default', _DYNAMIC)}" for text in (_OF_SSM, _DYNAMIC))
        and name not in (parameters or {})
    }
    resolver = Resolver(document, {**assumed, **(parameters or {})})
    names = functions_of(resolver)
    for one in only:
        if one not in names:
            raise NotExplorable(f"{file} has no function {one}. Name one of {', '.join(names)}.")
    chosen = [name for name in names if not only or name in only]
    pairs = [(name, source) for name in chosen for source in sources_of(resolver, name) or (None,)]
    workers = workers or os.cpu_count() or 1
    share = budget * min(workers, len(pairs) or 1) / (len(pairs) or 1)
    tracked, found = Tracked.around(file.parent), list[Finding]()
    jobs: list[ScanJob | Row] = []
    for name, source in pairs:
        properties = {**function_properties(resolver.template, name), **_invoke_config(resolver, name)}
        why = _refused(properties, source)
        if source is None or why:
            jobs.append(Row(function=name, source=source.title if source else "none", verdict="refused", why=why))
        else:
            unknown = [one for one, node in variables_of(properties).items() if resolver.known(node) is None]
            variables = {one: _assumed_text(one) for one in unknown if one not in (env or {})}
            texts = tuple(f"{one}={value}" for one, value in [*assumed.items(), *variables.items()])
            given, environment = _given(events, name, resolver), {**(env or {}), **variables}
            retries = resolver.known(properties.get("EventInvokeConfig", {}).get("MaximumRetryAttempts"))
            own = replace(source, settings={**source.settings, RETRIES: retries})
            jobs.append(
                ScanJob(file.parent, resolver, name, own, properties, environment, given, share, texts, tracked)
            )
        if source is not None:
            found += findings(resolver, name, properties, source)
    rows: dict[int, Row] = {}
    for position, row in _run(jobs, workers, packages):
        rows[position] = row
        places = [place for place, job in enumerate(jobs) if job.function == row.function]
        if rows.keys() >= {*places}:
            for number, settled in zip(places, _settled([rows[place] for place in places]), strict=True):
                rows[number] = settled
                on_row(settled)
    return Scan(str(template), tuple(rows[position] for position in range(len(jobs))), tuple(found))


def _settled(rows: Sequence[Row]) -> Iterator[Row]:
    """Yield the rows of one function: it holds on the events that were made if each of its writes ran on one of them.

    A write may be another source's, whose row then speaks of it.
    """
    written = {one for row in rows for one in row.written}
    for row in rows:
        missing = [one for one in row.unwritten if one not in written]
        is_judged = all(other.verdict in JUDGED for other in rows if other is not row)
        if row.first and row.verdict == "holds" and missing and is_judged:
            why = f"On made events it {row.why}, but {', '.join(missing)} never ran. {remedy_of(row.function)}"
            yield replace(row, verdict="needs an event", why=why)
        elif row.first and row.verdict == "needs an event" and row.unwritten and not missing:
            yield replace(row, verdict="holds", why="holds at every level, and writes nothing")
        else:
            yield row


def _invoke_config(resolver: Resolver, function: str) -> dict[str, Any]:
    """Return the function's settings of asynchronous invocations, if they are a resource of their own."""
    for resource in resolver.resources.values():
        own = resource.get("Properties", {})
        if resource["Type"] == "AWS::Lambda::EventInvokeConfig" and function in references(own.get("FunctionName")):
            return {"EventInvokeConfig": own}
    return {}


def _refused(properties: Mapping[str, Any], source: FunctionSource | None) -> str:
    """Return why a function cannot be explored, and the remedy; empty if it may be."""
    runtime = str(properties.get("Runtime", "python"))
    if not runtime.startswith("python"):
        return f"It runs on {runtime}. The explorer runs handlers in Python."
    if source is None:
        return "The template gives it no event source. Explore it alone with `oneslot explore`, and its event."
    is_image = properties.get("PackageType") == "Image" or "ImageUri" in properties
    states = [source.settings[name] for name in ("Definition", "DefinitionString") if name in source.settings]
    unknown = f"{source.kind} is not a source that the explorer knows. Use `oneslot explore` with a recorded event."
    reasons = {
        unknown: source.kind not in KNOWN,
        "It is a container image. Explore its handler with `oneslot explore`.": is_image,
        NO_RETRY: source.kind == TASK and bool(states) and "Retry" not in json.dumps(states),
        "It has no Handler, which Lambda requires. Name it, such as app.handler.": "Handler" not in properties,
    }
    return next((why for why, is_so in reasons.items() if is_so), "")


def _assumed_text(name: str) -> str:
    """Return what a name says of its value: a URL, a level of logs, or else the name."""
    text = name.lower()
    if text.endswith(("url", "uri", "endpoint")) or text.startswith("url"):
        return f"https://{text.replace('_', '-')}"
    return "INFO" if text.endswith(("loglevel", "log_level")) else text


def _given(events: Path | None, function: str, resolver: Resolver) -> Mapping[str, Any]:
    """Return what the folder has for a function, as `explore` takes it. Raises `InvalidScenario`."""
    if events is None:
        return {}
    recorded, scenario = (events / f"{function}{ending}" for ending in (".json", ".py"))
    if recorded.exists():
        try:
            given = {"event": json.loads(recorded.read_text())}
        except (RecursionError, ValueError) as error:
            raise InvalidScenario(f"{recorded} is not JSON: {error}. Record one whole event.") from error
        check_scenario(given, recorded)
        return given
    given = read_scenario(scenario, GIVEN) if scenario.exists() else {}
    if "tables" in given:
        given["tables"] = tables_of(given["tables"])
    if "rows" in given:
        check_rows(given["rows"], given.get("tables") or template_tables(resolver), scenario)
    return given


def _with_packages(job: ScanJob, packages: Path) -> ScanJob:
    """Install a function's requirements into a folder of its lists and this Python. Raises `NotExplorable` if pip fails."""
    roots = folders(job.resolver, job.resolver.resources[job.function], job.properties)
    lists = [file for one in roots if (file := (job.folder / one / "requirements.txt").absolute()).is_file()]
    if not lists:
        return job
    files = [*lists]  # which name others that count: equal texts may do so, and a file may change
    for one in files:
        included = (one.parent / name for name in _INCLUDES.findall(one.read_text(errors="replace")))
        files += [file for file in map(Path.resolve, included) if file.is_file() and file not in files]
    named = [sys.version_info[:2], *((str(one), one.read_bytes()) for one in files)]
    number = hashlib.sha256(repr(named).encode()).hexdigest()[:16]
    installed = packages.absolute() / number / "site-packages"
    if not installed.exists():
        unfinished = installed.with_name("unfinished")
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--upgrade", "--target", str(unfinished)]
        command += [word for one in lists for word in ("-r", str(one))]
        ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=lists[0].parent)
        if ran.returncode:
            said = [*_PIP_ERROR.findall(ran.stderr), "it does not say why"][0].rstrip(".")
            raise NotExplorable(f"pip cannot install {lists[0]}: {said}. Correct it, or scan without --packages.")
        unfinished.rename(installed)
    return replace(job, installed=(installed,))


def _run(jobs: Sequence[ScanJob | Row], workers: int, packages: Path | None) -> Iterator[tuple[int, Row]]:
    """Yield the row of each job with its position, as soon as it is known."""
    waiting = list(enumerate(jobs))
    running: dict[Connection, tuple[int, ScanJob, BaseProcess, float]] = {}
    while waiting or running:
        while waiting and len(running) < workers:
            position, job = waiting.pop(0)
            if isinstance(job, Row):
                yield position, job
                continue
            try:
                job = _with_packages(job, packages) if packages else job
            except NotExplorable as error:
                yield position, refusal(job, str(error))
                continue
            reader, process = forked(row_of, job)
            running[reader] = (position, job, process, time.monotonic() + job.budget + GRACE_S)
        ready = wait(list(running), timeout=1)
        for reader, (position, own_job, process, ends) in list(running.items()):
            if reader in ready or time.monotonic() > ends:
                del running[reader]
                try:
                    row = reader.recv() if reader in ready else refusal(own_job, TOO_LATE)
                except EOFError:
                    row = refusal(own_job, NO_VERDICT)
                process.kill()
                process.join()
                yield position, row
