"""Explore every function of a template, each in a process of its own, and judge the event source mappings."""

from __future__ import annotations

import json
import os
import re
import tempfile
import time
import traceback
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Literal

from oneslot.errors import InvalidScenario
from oneslot.explorer.handlers.apart import forked
from oneslot.explorer.handlers.exploration import explore_given
from oneslot.explorer.handlers.given import GIVEN, Given
from oneslot.explorer.handlers.made import Tried, trying
from oneslot.explorer.handlers.scenario_file import check_rows, check_scenario, read_scenario
from oneslot.explorer.handlers.templates.intrinsics import PSEUDO, Resolver
from oneslot.explorer.handlers.templates.sources import QUEUES, TASK, FunctionSource, references, sources_of
from oneslot.explorer.handlers.templates.template import (
    PARAMETER_REMEDY,
    function_properties,
    functions_of,
    options_of,
    read_template,
    tables_of,
    template_file,
    template_tables,
    variables_of,
)
from oneslot.explorer.handlers.verdict import Kind, Result
from oneslot.explorer.refusal import NotExplorable
from oneslot.explorer.scan.batches import NO_SECOND, NO_TEST_OF_BATCH, OWN_CHOICES, in_batches, one_at_a_time
from oneslot.explorer.scan.events import Facts
from oneslot.explorer.scan.first_events import (
    KNOWN,
    RETRIES,
    asked_of,
    assumed_of,
    first_facts,
    in_one_batch,
    options_for,
    shown,
)
from oneslot.explorer.scan.growth import Grown, growth
from oneslot.explorer.scan.mapping_rules import Finding, findings, may_batch
from oneslot.explorer.scan.written_test import Tracked, written_test

Verdict = Literal[Kind, "always refuses", "refused", "fault"]
JUDGED: tuple[Verdict, ...] = ("holds", "breaks")

GRACE_S = 30
"""The seconds that a process has beyond its budget: for imports, and for a step that takes long."""
NO_RETRY = "Its state machine has no Retry, so nothing runs it again. Add one, or explore it with `oneslot explore`."
BUILD_REMEDY = (
    "Build the application first (`sam build`, `cdk synth`), put a package of S3 beside the template, or give the folder "
    "of its code in path=."
)
UNPACKED = "oneslot-code-"
"""How the folder begins that has the code of a template or a zip."""
NO_TEST = "No test: "
"""How `Row.test` begins where the path has none."""
SHARE_OF_GROWTH = 0.5
"""The share of a function's budget in which its first event may grow."""


@dataclass(frozen=True)
class Row:
    """One function with one of its sources.

    Attributes:
        function: its logical id in the template.
        source: what invokes it, for people.
        verdict: as `explore` gives it; "refused" if the explorer cannot run it; "fault" if Oneslot itself failed; "always
            refuses" if the handler fails on every event that the scan made, or answers that it is wrong; "needs an event"
            also if some write of its code never ran.
        why: one sentence.
        steps: the length of the shortest path that breaks the law.
        cause: what breaks, and at which call, as a baseline names it.
        outside: effects outside AWS's tables that may happen twice.
        path: the shortest path, to read; of a fault, the traceback.
        short: how that path differs from a run without a fault, in eight lines at most.
        line: the handler's "file:line" of the call that the fault met.
        test: a pytest of that path on moto, or why there is none.
        reached: what "holds" does not speak of: lines that no schedule ran, and calls that never met a fault.
        written, unwritten: the writes that the code names, which ran, or never did although some event should reach them.
        first: the payload of the first event, as the scan made it; empty if the event was recorded.
        assumed: the template's values that the scan had to assume.
        seconds: how long the exploration took.
    """

    function: str
    source: str
    verdict: Verdict
    why: str
    steps: int = 0
    cause: str = ""
    outside: tuple[str, ...] = ()
    path: str = ""
    short: str = ""
    line: str = ""
    test: str = ""
    reached: tuple[str, ...] = ()
    written: tuple[str, ...] = ()
    unwritten: tuple[str, ...] = ()
    first: str = ""
    assumed: tuple[str, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True)
class Scan:
    """The rows and the findings of a template."""

    template: str
    rows: tuple[Row, ...]
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class ScanJob:
    """One function to explore with one source.

    Attributes:
        folder: that of the template; `resolver` has its values, and `properties` are the function's.
        given: what the user gives in place of what the scan makes.
        budget: seconds.
    """

    folder: Path
    resolver: Resolver
    function: str
    source: FunctionSource
    properties: Mapping[str, Any]
    env: Mapping[str, str]
    given: Mapping[str, Any]
    budget: float
    assumed: tuple[str, ...]
    tracked: Tracked = field(default_factory=Tracked)


def scan(
    template: Path,
    *,
    budget: float = 300,
    workers: int = 0,
    events: Path | None = None,
    parameters: Mapping[str, str] | None = None,
    env: Mapping[str, str] | None = None,
    only: Sequence[str] = (),
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
    resolver, assumed = _resolver(document, parameters or {})
    names = _chosen(functions_of(resolver), only, file)
    pairs = [(name, source) for name in names for source in sources_of(resolver, name) or (None,)]
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
            variables = _assumed_variables(resolver, properties, env or {})
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
    for position, row in _run(jobs, workers):
        rows[position] = row
        places = [place for place, job in enumerate(jobs) if job.function == row.function]
        if rows.keys() >= {*places}:
            for number, settled in zip(places, _settled([rows[place] for place in places]), strict=True):
                rows[number] = settled
                on_row(settled)
    return Scan(str(template), tuple(rows[position] for position in range(len(jobs))), tuple(found))


def _settled(rows: Sequence[Row]) -> Iterator[Row]:
    """Yield the rows of one function: it holds on the events that were made if each of its writes ran on one of them."""
    written = {one for row in rows for one in row.written}
    for row in rows:
        missing = [one for one in row.unwritten if one not in written]
        if row.first and row.verdict == "holds" and missing:
            why = f"On made events it {row.why}, but {', '.join(missing)} never ran. {_remedy(row.function)}"
            yield replace(row, verdict="needs an event", why=why)
        elif row.first and row.verdict == "needs an event" and row.unwritten and not missing:
            yield replace(row, verdict="holds", why="holds at every level, and writes nothing")
        else:
            yield row


def _remedy(function: str) -> str:
    return f"Record one, or give what it finds: --events FOLDER, with {function}.json or .py."


def _resolver(document: Mapping[str, Any], given: Mapping[str, str]) -> tuple[Resolver, dict[str, Any]]:
    """Return the values of the template, and those of its parameters that had to be assumed: each its own name."""
    declared = document.get("Parameters", {})
    assumed = {
        name: 1 if one.get("Type") == "Number" else (one.get("AllowedValues") or [name.lower()])[0]
        for name, one in declared.items()
        if "Default" not in one and name not in given
    }
    return Resolver(document, {**assumed, **given}), assumed


def _chosen(names: Sequence[str], only: Sequence[str], file: Path) -> list[str]:
    for one in only:
        if one not in names:
            raise NotExplorable(f"{file} has no function {one}. Name one of {', '.join(names)}.")
    return [name for name in names if not only or name in only]


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


def _assumed_variables(resolver: Resolver, properties: Mapping[str, Any], given: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that neither the template nor the user gives, with assumed values: each its own name."""
    unknown = object()
    variables = {name: resolver.known(node, unknown) for name, node in variables_of(properties).items()}
    return {name: name.lower() for name, value in variables.items() if value is unknown and name not in given}


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


def _run(jobs: Sequence[ScanJob | Row], workers: int) -> Iterator[tuple[int, Row]]:
    """Yield the row of each job with its position, as soon as it is known."""
    waiting = list(enumerate(jobs))
    running: dict[Connection, tuple[int, ScanJob, BaseProcess, float]] = {}
    while waiting or running:
        while waiting and len(running) < workers:
            position, job = waiting.pop(0)
            if isinstance(job, Row):
                yield position, job
                continue
            reader, process = forked(_row_of, job)
            running[reader] = (position, job, process, time.monotonic() + job.budget + GRACE_S)
        ready = wait(list(running), timeout=1)
        for reader, (position, own_job, process, ends) in list(running.items()):
            if reader in ready or time.monotonic() > ends:
                del running[reader]
                row = _received(reader, own_job, is_late=reader not in ready)
                process.kill()
                process.join()
                yield position, row


def _received(reader: Connection, job: ScanJob, *, is_late: bool) -> Row:
    why = "Its exploration did not stop at its budget: it may loop without a call. End the loop, or raise --budget."
    if not is_late:
        try:
            return reader.recv()  # type: ignore[no-any-return]
        except EOFError:
            why = "Its process ended without a verdict, as after os._exit. Remove what ends it."
    return _refusal(job, why)


def _refusal(job: ScanJob, why: str) -> Row:
    return Row(function=job.function, source=job.source.title, verdict="refused", why=why, assumed=job.assumed)


def _row_of(job: ScanJob) -> Row:
    """Explore in this process, which ends with it, and return the row."""
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    started = time.perf_counter()
    try:
        row = explored(job)
    except NotExplorable as error:
        row = _refusal(job, _placed(str(error), job.function))
    except Exception as error:
        why = f"This is a fault in Oneslot, not in the handler: {type(error).__name__}. Report the traceback."
        row = replace(_refusal(job, why), verdict="fault", path=traceback.format_exc())
    return replace(row, assumed=job.assumed, seconds=time.perf_counter() - started)


def explored(job: ScanJob) -> Row:
    """Explore one function with one source in this process. Raises `NotExplorable`."""
    try:
        given = options_of(job.resolver, job.function, job.folder, job.env)
    except NotExplorable as error:
        raise NotExplorable(str(error).replace(PARAMETER_REMEDY, "--parameter Name=...")) from error
    if job.source.kind not in QUEUES:
        given = replace(given, receives=Given.receives, visibility=Given.visibility)
    folders = given.folders
    with tempfile.TemporaryDirectory(prefix=UNPACKED) as folder:
        if code := inline_code(job.resolver, job.properties):  # Lambda writes it to the file index.py
            (Path(folder) / "index.py").write_text(code)
            folders[0] = Path(folder)
        folders = unpacked(folders, Path(folder))
        if "path" not in job.given and not folders[0].is_dir():
            raise NotExplorable(f"{folders[0]} is not there. {BUILD_REMEDY}")
        return _tried(job, replace(given, path=[one for one in folders if one.is_dir()]))


def unpacked(folders: Sequence[Path], within: Path) -> list[Path]:
    """Return the folders of code and layers, with those that are zips unpacked in another folder."""
    found: list[Path] = []
    for number, one in enumerate(folders):
        zipped = next((file for file in (one, Path(f"{one}.zip"), one.parent) if zipfile.is_zipfile(file)), None)
        if one.is_dir() or zipped is None:
            found.append(one)
        elif zipped == one.parent:  # a folder within a layer
            found.append(found[-1] / one.name)
        else:
            zipfile.ZipFile(zipped).extractall(within / str(number))
            found.append(within / str(number))
    return found


def inline_code(resolver: Resolver, properties: Mapping[str, Any]) -> str:
    """Return the code that a template holds itself; empty if it holds none."""
    code = properties.get("Code")
    text = properties.get("InlineCode", code.get("ZipFile") if isinstance(code, Mapping) else None)
    return str(resolver.known(text) or "")


def _tried(job: ScanJob, given: Given) -> Row:
    """Explore with the recorded event, or with a first event that grows by what the handler asks of it."""
    ends = time.monotonic() + job.budget
    is_made = not {"event", "messages"} & job.given.keys()
    grown = _grown(job, given) if is_made else Grown(first_facts(job.source), serves=True)
    made = options_for(job.source, grown.facts, given.tables)
    if not is_made:
        made = {name: value for name, value in made.items() if name not in ("event", "messages")}
    given = replace(given, **{**made, **job.given})
    result = explore_given(replace(given, budget=max(1.0, ends - time.monotonic())))
    for facts in grown.branches:
        if result.kind == "holds":
            given, result = _of_branch(job, given, result, facts, ends)
    if result.kind == "holds" and grown.fault:
        text = f"fails on an object whose key has a space: {grown.fault}"
        result = replace(result, kind="breaks", verdict=text, cause="does not decode the key of an object")
    if _judged(job, result, grown, is_made=is_made)[0] == "holds":
        result = _with_batches(job, given, result, grown.facts if is_made else None, ends)
    verdict, why = _judged(job, result, grown, is_made=is_made)
    line = result.line
    if line:
        place, _, number = line.rpartition(":")
        line = f"{job.tracked.file(Path(place))}:{number}"
    with suppress(ValueError):
        line = str(Path(line).relative_to(Path.cwd()))
    return Row(
        function=job.function,
        source=job.source.title,
        verdict=verdict,
        why=why,
        steps=result.length,
        cause=result.cause,
        outside=result.outside,
        path=result.counterexample,
        short=result.short,
        line=line,
        test=_test(job, given, result) if result.kind == "breaks" else "",
        reached=(*result.reached, *assumed_of(grown.facts)),
        written=result.written,
        unwritten=result.unwritten,
        first=json.dumps(shown(grown.facts), default=str) if is_made else "",
    )


def _of_branch(job: ScanJob, given: Given, result: Result, facts: Facts, ends: float) -> tuple[Given, Result]:
    """Return what breaks on an event of another branch, or the verdict of both."""
    branch = replace(given, **{**options_for(job.source, facts, given.tables), **job.given})
    other = explore_given(replace(branch, budget=max(1.0, ends - time.monotonic())))
    if other.kind == "breaks" and other.level != "once":
        return branch, replace(other, verdict=f"{other.verdict}, on {json.dumps(shown(facts), default=str)}")
    if other.kind != "holds":
        return given, result
    return given, result.also(other)


def _grown(job: ScanJob, given: Given) -> Grown:
    """Return the facts of a first event, grown by what the handler asks."""
    with trying(replace(given, **job.given)) as deliver:

        def tried(facts: Facts) -> Tried:
            made = replace(given, **{**options_for(job.source, facts, given.tables), **job.given})
            return deliver(made, asked_of(job.source, facts))

        return growth(job.source, tried, job.budget * SHARE_OF_GROWTH)


def _with_batches(job: ScanJob, given: Given, one: Result, facts: Facts | None, ends: float) -> Result:
    """Return the verdict of one record and of two in a batch, or the first with a remark where no two can be made.

    `given`: that of one record. `facts`: those of the first event; None if it was recorded.
    """
    is_batch, event = may_batch(job.resolver, job.source), job.given.get("event")
    records = event.get("Records") or () if isinstance(event, dict) else job.given.get("messages", ())
    has_batch = len(records) > 1 and (event is not None or job.given.get("batch", 1) > 1)
    if has_batch or not (is_batch or job.source.kind in QUEUES):
        return one
    own = [name for name in OWN_CHOICES if name in job.given]
    if own or facts is None:
        why = f"{job.function}.py gives {own[0]}" if own else NO_SECOND
        return replace(one, remark=one_at_a_time(job.source, why)) if is_batch else one
    made = in_one_batch(job.source, facts, given.tables, splits=given.reports_failures or given.bisects)
    batches = [{**each, **job.given} for each in (made if is_batch else made[:1])]
    return in_batches(job.source, one, given, batches, ends)


def _judged(job: ScanJob, result: Result, grown: Grown, *, is_made: bool) -> tuple[Verdict, str]:
    """Return the verdict and its sentence, with the scan's own remedies."""
    why = _placed(result.verdict, job.function)
    if result.remedy:
        remedy = result.remedy.replace("raise the budget", "raise --budget, or name fewer functions with --function")
        return result.kind, f"{why}. {remedy}"
    is_missed = result.level == "once" and not result.fails_anyway
    is_unserved = result.kind == "needs an event" or (is_made and result.kind == "holds" and not grown.serves)
    if is_missed and grown.fault:
        return result.kind, f"{why}. {grown.fault}."
    if is_made and (result.level == "once" or is_unserved):
        why = f"On a made event it {why}"
    if not is_unserved and not (is_made and is_missed):
        return result.kind, why
    if grown.refuses:
        return "always refuses", f"{why}. Each of {grown.tries} made events is refused. {_remedy(job.function)}"
    return "needs an event", f"{why}. {_remedy(job.function)}"


def _placed(sentence: str, function: str) -> str:
    """Return a sentence that says where the values of `explore` go which it names."""
    names = dict.fromkeys(re.findall(rf"\b({'|'.join(sorted(GIVEN))})=", sentence))
    where = f". Give {' and '.join(names)} in {function}.py of --events FOLDER." if names else ""
    return f"{sentence.rstrip('.')}{where}" if where else sentence


def _test(job: ScanJob, given: Given, result: Result) -> str:
    if result.in_batch:
        return f"{NO_TEST}{NO_TEST_OF_BATCH}"
    if not result.schedule:
        return f"{NO_TEST}It fails without a fault. Invoke it with the event."
    if UNPACKED in str(given.folders[0]):
        return f"{NO_TEST}Its code is in the template or in a zip, where no test can import it."
    module = Path(f"{given.handler.rpartition('.')[0].replace('.', '/')}.py")
    given = replace(given, path=[job.tracked.folder(one, module) for one in given.folders])
    try:
        return written_test(job.function, job.source, given, result)
    except NotExplorable as error:
        return f"{NO_TEST}{error}"
