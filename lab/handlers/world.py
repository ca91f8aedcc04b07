"""The table of the world: every handler that a rule chooses from public repositories, through `oneslot scan`.

`python -m lab.handlers.world CLONES [--only TEXT]` takes a folder with a clone of each repository, named OWNER+NAME. The rule
is in `lab/docs/handlers.md`, and `chosen` is its code. What the handlers import is found on PYTHONPATH. Each function is
scanned in a process of its own. Nothing of a clone is kept but the paths that the explorer prints.
"""

import argparse
import multiprocessing
import re
import resource
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.handlers.figures import REPOSITORIES, WORLD, keep, kept, shown_path
from lab.handlers.world_given import GIVEN
from oneslot.explorer.handlers.templates.intrinsics import Resolver, Unresolved
from oneslot.explorer.handlers.templates.sources import KNOWN, functions, sources_of
from oneslot.explorer.handlers.templates.template import folders, function_properties, read_template
from oneslot.explorer.refusal import NotExplorable
from oneslot.explorer.scan.judging import UNPACKED, inline_code
from oneslot.explorer.scan.scan import scan

WRITES = re.compile(
    r"\.(?:put_item|update_item|delete_item|batch_writer|batch_write_item|transact_write_items"
    r"|put_object|upload_file|upload_fileobj|copy_object|delete_object|delete_objects|send_message|send_message_batch"
    r"|publish|publish_batch|put_events|start_execution|send_task_success|send_task_failure)\("
)
"""The calls that write to DynamoDB, S3, SQS, SNS, EventBridge and Step Functions."""

TEMPLATES = (".yaml", ".yml", ".json", ".template")


@dataclass(frozen=True)
class Chosen:
    """A function that the rule chooses. `template` is its path in the clone, `source` the title of its first source."""

    template: str
    function: str
    source: str


def chosen(clone: Path) -> Iterator[Chosen]:
    """Yield what the rule chooses from a clone, in the order of the templates' paths."""
    seen: set[object] = set()
    for file in sorted(clone.rglob("*")):
        if file.suffix in TEMPLATES and file.is_file() and b"::Function" in file.read_bytes():
            for name, source, code, text in _candidates(file):
                if WRITES.search(text) and code not in seen:
                    seen.add(code)
                    yield Chosen(str(file.relative_to(clone)), name, source)


def _candidates(file: Path) -> Iterator[tuple[str, str, object, str]]:
    """Yield the Python functions of a template that have a known source: name, source, and the code's place and text."""
    try:
        document = read_template(file)
    except (NotExplorable, UnicodeDecodeError):
        return
    resolver = Resolver(document, {})
    for name in functions(resolver):
        properties = function_properties(document, name)
        source = next((one.title for one in sources_of(resolver, name) if one.kind in KNOWN), "")
        if not source or not str(properties.get("Runtime")).startswith("python"):
            continue
        if text := inline_code(resolver, properties):
            yield name, source, (file, name), text
            continue
        try:
            folder, *_ = folders(resolver, resolver.resources[name], properties)
            module, _, _ = str(resolver.value(properties["Handler"])).rpartition(".")
        except Unresolved:
            continue
        code = (file.parent / folder / f"{module.replace('.', '/')}.py").resolve()
        if code.is_file():
            yield name, source, code, code.read_text()


CPU_S = 60
"""The CPU seconds of a function."""
BUDGET_S = 240
"""The seconds of its scan: more than its CPU seconds, because other processes share the machine."""


def run(clones: Path, repository: str, one: Chosen) -> dict[str, Any]:
    """Scan one function in this process, which it limits, and return its row."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    key = f"{repository}/{one.template}#{one.function}"
    template = clones / repository.replace("/", "+") / one.template
    given = dict(GIVEN.get(key, {}))
    names = sorted(given)
    env = given.pop("env", {})
    with tempfile.TemporaryDirectory() as folder:
        if given:
            text = "\n".join(f"{name} = {value!r}" for name, value in given.items())
            (Path(folder) / f"{one.function}.py").write_text(text)
        found = scan(template, budget=BUDGET_S, workers=1, events=Path(folder), env=env, only=[one.function])
    row = next(row for row in found.rows if row.source == one.source)
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = spent.ru_utime + spent.ru_stime
    # A given event with which the handler fails or does nothing says as little as a made one.
    is_in_vain = row.why.startswith("fails when nothing goes wrong")
    verdict = "needs an event" if is_in_vain else row.verdict
    is_spent = seconds >= CPU_S - 1 and row.verdict == "refused"
    why = f"{CPU_S} CPU seconds ended first" if is_spent else row.why
    return {
        "key": key,
        "repository": repository,
        "template": one.template,
        "function": one.function,
        "source": row.source,
        "verdict": "not finished" if is_spent else verdict,
        "why": _plain(why.partition("\nTraceback")[0], clones),
        "steps": row.steps,
        "outside": list(row.outside),
        "given": names,
        "cpu_seconds": round(seconds, 1),
        "path": shown_path(_plain(row.path, clones)) if row.path else [],
    }


def _plain(text: str, clones: Path) -> str:
    """Return a text without the places of this machine."""
    return re.sub(rf"{re.escape(tempfile.gettempdir())}/{UNPACKED}\w+/|{clones.resolve()}/|{clones}/", "", text)


def all_chosen(clones: Path) -> Iterator[tuple[str, Chosen]]:
    """Yield what the rule chooses from every clone."""
    for repository in REPOSITORIES:
        for one in chosen(clones / repository.replace("/", "+")):
            yield repository, one


def main(arguments: Sequence[str] | None = None) -> int:
    """Scan, keep the rows, and fill the pages."""
    parser = argparse.ArgumentParser(prog="lab.handlers.world", description=__doc__)
    parser.add_argument("clones", type=Path, help="a folder with a clone of each repository")
    parser.add_argument("--only", default="", help="a pattern of the keys to scan; the others keep their rows")
    options = parser.parse_args(arguments)
    order = {
        f"{repository}/{one.template}#{one.function}": (repository, one)
        for repository, one in all_chosen(options.clones)
    }
    rows = {row["key"]: row for row in kept(WORLD)}
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["oneslot.explorer.scan.scan"])
    with ProcessPoolExecutor(2, mp_context=context, max_tasks_per_child=1) as pool:
        waiting = [
            pool.submit(run, options.clones, *pair) for key, pair in order.items() if re.search(options.only, key)
        ]
        for done in as_completed(waiting):
            row = done.result()
            rows[row["key"]] = row
            sys.stderr.write(f"{row['key']}: {row['verdict']}, {row['cpu_seconds']} CPU s\n")
    keep(WORLD, [rows[key] for key in order if key in rows])
    return 0


if __name__ == "__main__":  # pragma: no cover
    sys.exit(main())
