"""One function with one of its sources, explored in a process of its own, and the row that comes out.

A handler that holds with one record meets two different ones in one delivery.
"""

import json
import os
import re
import sys
import tempfile
import time
import traceback
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from oneslot.explorer.handlers.exploration import exploration_of
from oneslot.explorer.handlers.given import GIVEN, Given
from oneslot.explorer.handlers.made import Tried, trying
from oneslot.explorer.handlers.templates.intrinsics import Resolver
from oneslot.explorer.handlers.templates.sources import QUEUES, STREAMS, FunctionSource
from oneslot.explorer.handlers.templates.template import PARAMETER_REMEDY, options_of
from oneslot.explorer.handlers.verdict import Kind, Result
from oneslot.explorer.refusal import NotExplorable
from oneslot.explorer.scan.events import Facts
from oneslot.explorer.scan.first_events import (
    IN_ONE_BATCH,
    Pair,
    asked_of,
    assumed_of,
    first_facts,
    options_for,
    pairs_of,
    shown,
)
from oneslot.explorer.scan.growth import Grown, growth
from oneslot.explorer.scan.mapping_rules import may_batch
from oneslot.explorer.scan.written_test import Tracked, written_test

Verdict = Literal[Kind, "always refuses", "refused", "fault"]
JUDGED: tuple[Verdict, ...] = ("holds", "breaks")

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
LONGEST_EVENT = 400
NOUNS = {**dict.fromkeys(QUEUES, "message"), **dict.fromkeys(STREAMS, "record")}
OWN_CHOICES = ("batch", "law")
"""The values of a scenario that speak of its own messages, so that no other message is made beside them."""


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
        steps, path: `length` and `counterexample` of the `Result`; of a fault, the traceback.
        cause, outside, short, line, reached, written, unwritten: see `Result`.
        test: a pytest of that path on moto, or why there is none.
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

    def story(self, *, verbose: bool) -> str:
        """Return what to read of a function that does not hold: the event that was made, and the path, whole or short."""
        made = f"made event: {self.first:.{LONGEST_EVENT}}" if self.first and self.verdict != "holds" else ""
        return "\n".join(filter(None, (made, self.path if verbose or not self.short else self.short)))


@dataclass(frozen=True)
class ScanJob:
    """One function to explore with one source.

    Attributes:
        folder: that of the template; `resolver` has its values, and `properties` are the function's.
        given: what the user gives in place of what the scan makes.
        budget: seconds.
        installed: a folder with packages of the function's own, if there is one.
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
    installed: tuple[Path, ...] = ()


def remedy_of(function: str) -> str:
    return f"Record one, or give what it finds: --events FOLDER, with {function}.json or .py."


def refusal(job: ScanJob, why: str) -> Row:
    return Row(function=job.function, source=job.source.title, verdict="refused", why=why, assumed=job.assumed)


def row_of(job: ScanJob) -> Row:
    """Explore in this process, which ends with it, and return the row."""
    sys.path[:0] = map(str, job.installed)
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    started = time.perf_counter()
    try:
        row = explored(job)
    except NotExplorable as error:
        row = refusal(job, _placed(str(error), job.function))
    except Exception as error:
        why = f"This is a fault in Oneslot, not in the handler: {type(error).__name__}. Report the traceback."
        row = replace(refusal(job, why), verdict="fault", path=traceback.format_exc())
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
            found.append(one.parent if one.is_file() else one)  # `sam package` makes a zip of a single file
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
    grown = Grown(first_facts(job.source), serves=True)
    with trying(replace(given, **job.given)) as deliver:

        def tried(facts: Facts) -> Tried:
            made = replace(given, **{**options_for(job.source, facts, given.tables), **job.given})
            return deliver(made, asked_of(job.source, facts))

        if is_made:
            grown = growth(job.source, tried, job.budget * SHARE_OF_GROWTH)
    made = options_for(job.source, grown.facts, given.tables)
    if not is_made:
        made = {name: value for name, value in made.items() if name not in ("event", "messages")}
    given = replace(given, **{**made, **job.given})
    result = exploration_of(replace(given, budget=max(1.0, ends - time.monotonic()))).run()
    for facts in grown.branches if result.kind == "holds" else ():
        branch = replace(given, **{**options_for(job.source, facts, given.tables), **job.given})
        other = exploration_of(replace(branch, budget=max(1.0, ends - time.monotonic()))).run()
        if other.kind == "breaks" and other.level != "once":
            text = f"{other.verdict}, on {json.dumps(shown(facts), default=str)}"
            given, result = branch, replace(other, verdict=text)
            break
        result = result.also(other) if other.kind == "holds" else result
    if result.kind == "holds" and grown.fault:
        text = f"fails on an object whose key has a space: {grown.fault}"
        result = replace(result, kind="breaks", verdict=text, cause="does not decode the key of an object")
    if _judged(job, result, grown, is_made=is_made)[0] == "holds":
        result = _with_pairs(job, given, result, grown if is_made else None, ends)
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


def _with_pairs(job: ScanJob, given: Given, one: Result, grown: Grown | None, ends: float) -> Result:
    """Return the verdict of one record and of two, or the first with a remark where no two can be made.

    `given`: that of one record. `grown`: the first event; None if it was recorded.
    """
    is_batch, event = may_batch(job.resolver, job.source), job.given.get("event")
    records = event.get("Records") or () if isinstance(event, dict) else job.given.get("messages", ())
    if len(records) > 1 and (event is not None or job.given.get("batch", 1) > 1):
        return one
    own = [name for name in OWN_CHOICES if name in job.given]
    if own or grown is None:
        remedy = ". Record one with two" if is_batch else ""
        why = f"{job.function}.py gives {own[0]}" if own else f"the event is recorded, and has one{remedy}"
        return one.remarked(f"One {NOUNS.get(job.source.kind, 'event')} at a time: {why}.")
    splits = given.reports_failures or given.bisects if is_batch else None
    pairs = pairs_of(job.source, grown.facts, grown.meeting, given.tables, splits)
    return in_pairs(job.source, one, given, [(where, {**each, **job.given}) for where, each in pairs], ends)


def _judged(job: ScanJob, result: Result, grown: Grown, *, is_made: bool) -> tuple[Verdict, str]:
    """Return the verdict and its sentence, with the scan's own remedies."""
    why = _placed(result.verdict, job.function)
    if result.remedy:
        remedy = result.remedy.replace("raise the budget", "raise --budget, or name fewer functions with --function")
        return result.kind, f"{why}. {remedy}"
    is_missed = result.level == "once" and not (result.fails_anyway and not [*assumed_of(grown.facts)])
    is_unserved = result.kind == "needs an event" or (is_made and result.kind == "holds" and not grown.serves)
    if is_missed and grown.fault:
        return result.kind, f"{why}. {grown.fault}."
    if is_made and (result.level == "once" or is_unserved):
        why = f"On a made event it {why}"
    if not is_unserved and not (is_made and is_missed):
        return result.kind, why
    if grown.refuses:
        return "always refuses", f"{why}. Each of {grown.tries} made events is refused. {remedy_of(job.function)}"
    return "needs an event", f"{why}. {remedy_of(job.function)}"


def _placed(sentence: str, function: str) -> str:
    """Return a sentence that says where the values of `explore` go which it names."""
    names = dict.fromkeys(re.findall(rf"\b({'|'.join(sorted(GIVEN))})=", sentence))
    where = f". Give {' and '.join(names)} in {function}.py of --events FOLDER." if names else ""
    return f"{sentence.rstrip('.')}{where}" if where else sentence


def _test(job: ScanJob, given: Given, result: Result) -> str:
    if result.in_pair:
        return f"{NO_TEST}It takes two records or events. A written test delivers one event."
    if not result.schedule:
        return f"{NO_TEST}It breaks without a fault. Invoke it with the event."
    if UNPACKED in str(given.folders[0]):
        return f"{NO_TEST}Its code is in the template or in a zip, where no test can import it."
    module = Path(f"{given.handler.rpartition('.')[0].replace('.', '/')}.py")
    given = replace(given, path=[*(job.tracked.folder(one, module) for one in given.folders), *job.installed])
    try:
        return written_test(job.function, job.source, given, result)
    except NotExplorable as error:
        return f"{NO_TEST}{error}"


def in_pairs(source: FunctionSource, one: Result, given: Given, pairs: Sequence[Pair], ends: float) -> Result:
    """Explore two events of a handler that holds with one, until `ends`, and return the verdict of both.

    Once a batch with one fault is explored, a budget that ends does not change the verdict: it names the most faults.
    """
    noun, verdict, has_batch = NOUNS.get(source.kind, "event"), one.verdict, False
    for number, (where, pair) in enumerate(pairs):
        is_batch = where == IN_ONE_BATCH
        share = (ends - time.monotonic()) / (1 if is_batch else len(pairs) - number)
        try:
            result = exploration_of(replace(given, **{**pair, "budget": max(1.0, share)})).run()
        except NotExplorable as error:
            one = one.remarked(f"One {noun} at a time: with two {where}, {error}")
            if is_batch:
                break
            continue
        if result.level == "once" or (result.kind == "not finished" and not is_batch):
            one = one.remarked(f"One {noun} at a time: with two {where} it {result.verdict}.")
            if is_batch:
                break
        elif result.kind == "breaks":
            return replace(result, verdict=f"with two {noun}s {where} it {result.verdict}", in_pair=True)
        elif result.kind == "not finished" and has_batch:
            break
        elif result.kind == "not finished":
            text = f"it holds at every level with one {noun} in a batch; with two, {result.verdict}"
            return replace(result, verdict=text, remedy="To complete the next level, raise the budget.")
        else:  # that the other message changes nothing is news only of two that share nothing
            one, faults = one.also(result if is_batch else replace(result, remark="")), pair["faults"]
            has_batch = is_batch and faults > 0
            verdict = f"{one.verdict}, also with two {noun}s {where} and {faults} fault{'s' if faults > 1 else ''}"
    return replace(one, verdict=verdict)
