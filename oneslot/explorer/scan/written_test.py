"""A failing pytest from a breach: it replays the shortest path on moto, without Oneslot.

It imports the files that git tracks, not copies of them in a folder of a build, such as `.aws-sam/build` and `cdk.out`.
"""

import hashlib
import os
import pprint
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from oneslot.dynamodb_in_memory.contents import TableSchema
from oneslot.explorer.handlers.given import Given
from oneslot.explorer.handlers.scenario import messages_of
from oneslot.explorer.handlers.surroundings.chance import DRAW
from oneslot.explorer.handlers.templates.sources import FunctionSource
from oneslot.explorer.handlers.verdict import Result
from oneslot.explorer.refusal import NotExplorable
from oneslot.explorer.system import WARM

DELETED, LOST_ANSWER = "message deleted", "crash before the message is deleted"
_UNKNOWN = ("time passes", "drawn high", "at item", "entry refused", "as before", "has expired", "HTTP")
SHOWS_NOTHING = "the handler fails without a fault, so this test shows nothing"
_HARNESS = Path(__file__).with_name("replayed.py")


def file_name(function: str, source: str) -> str:
    """Return the name of the test's file."""
    return f"test_{_snake(function)}_{_snake(source)}.py"


def written_test(function: str, source: FunctionSource, given: Given, result: Result) -> str:
    """Return the test's text.

    Raises `NotExplorable` if the path needs what moto or a test's clock cannot show.
    """
    if result.reads_environment:
        raise NotExplorable("It reads a hash, a host or a process, which a test in one process cannot change.")
    event = given.event
    if event is None:
        messages = messages_of(given.messages, None, fifo=given.fifo)
        event = {"Records": [message.record(position) for position, message in enumerate(messages)]}
    data = {
        "handler": given.handler.replace(":", "."),
        "folders": [os.path.relpath(one) for one in given.folders],
        "event": event,
        "env": given.env,
        "resources": [*_tables(given.tables), *_values(given)],
        "reads_failures": given.reports_failures,
    }
    harness = _HARNESS.read_text().partition('"""\n\nfrom')[2]
    texts = [pprint.pformat(one, width=110, sort_dicts=False) for one in (data, [*_schedule(result.schedule)])]
    title = f"{function}, invoked by {source.title}: {result.verdict}"
    title, path = (one.replace("\\", "\\\\").replace('"', '\\"') for one in (title, result.counterexample))
    return f'''"""{title}

It was written by `oneslot scan --write-test`, and needs pytest, boto3, moto and time-machine. Run it where it was written.

{path}
"""

from{harness}

GIVEN = {texts[0]}
SCHEDULE = {texts[1]}
RETRIES = {[count * given.visibility for count in range(given.receives)]}


def test_{_snake(function)}_takes_effect_once_when_its_event_comes_again() -> None:
    """After the schedule the effects are those of one delivery without a fault."""
    replay = Replay(**GIVEN)
    once, again = replay.once(), replay.run(SCHEDULE, RETRIES)

    assert once["succeeded"], "{SHOWS_NOTHING}"
    assert again["succeeded"], "the event is never done"
    assert again["rows"] == once["rows"]
    assert once["sent"] <= again["sent"]
'''


def why_not(file: Path) -> str:
    """Run a written test, and return why it shows nothing; empty if it fails at one of its last assertions."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:oneslot", str(file)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    errors = re.findall(r"^E\s+(.+)$", ran.stdout, re.MULTILINE)
    if ran.returncode == 0:
        return "it passes on moto, whose services answer otherwise, or in the fresh environments of its retries"
    is_asserted = any("assert" in one.lower() for one in errors) and not any(SHOWS_NOTHING in one for one in errors)
    if ran.returncode == 1 and is_asserted:
        return ""
    said = errors or ran.stderr.splitlines()[-1:] or [f"status {ran.returncode} of pytest"]
    return f"it ends on moto with {said[0]}"


def _snake(text: str) -> str:
    return re.sub(r"\W+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", text)).lower()


def _schedule(steps: Iterable[tuple[int, str, str]]) -> Iterator[tuple[int, str]]:
    """Yield the steps in the words of the replay."""
    for delivery, what, call in steps:
        if any(one in what for one in _UNKNOWN) or (call.startswith("http.") and what != "performed"):
            raise NotExplorable(f'Its path has the step "{what}", which a test on moto cannot show.')
        if call.startswith("http."):
            raise NotExplorable("Its path calls HTTP, which a test on moto cannot show.")
        if call == DRAW or what == LOST_ANSWER:
            continue
        yield delivery, {DELETED: "acknowledged", WARM: "invoked in a warm environment"}.get(what, what)


def _tables(tables: Mapping[str, TableSchema]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for name, schema in tables.items():
        names = dict.fromkeys([*schema.keys, *(key for one in schema.indexes.values() for key in one.keys)])
        kinds = [{"AttributeName": one, "AttributeType": schema.types.get(one, "S")} for one in names]
        wanted: dict[str, Any] = {"TableName": name, "KeySchema": _keys(schema.keys), "AttributeDefinitions": kinds}
        for index, one in schema.indexes.items():
            held = wanted.setdefault(f"{'Global' if one.is_global else 'Local'}SecondaryIndexes", [])
            held.append({"IndexName": index, "KeySchema": _keys(one.keys), "Projection": {"ProjectionType": "ALL"}})
        yield "dynamodb", "create_table", {**wanted, "BillingMode": "PAY_PER_REQUEST"}


def _keys(names: Sequence[str]) -> list[dict[str, str]]:
    return [{"AttributeName": name, "KeyType": kind} for name, kind in zip(names, ("HASH", "RANGE"), strict=False)]


def _values(given: Given) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield what makes parameters and objects. The replay makes the buckets, topics, queues and buses of the calls."""
    for name, value in (given.parameters or {}).items():
        text = value if isinstance(value, str) else ",".join(map(str, value))
        yield "ssm", "put_parameter", {"Name": name, "Value": text, "Type": "String"}
    for bucket, held in (given.objects or {}).items():
        for key, body in held.items():
            yield "s3", "put_object", {"Bucket": bucket, "Key": key, "Body": body}


@dataclass(frozen=True)
class Tracked:
    """The tracked files of a repository, each by the hash that git gives its bytes."""

    files: Mapping[str, tuple[Path, ...]] = field(default_factory=dict)

    @classmethod
    def around(cls, folder: Path) -> "Tracked":
        """Return the files of the repository that has this folder; none without git or a repository."""
        listing = ["git", "-C", str(folder), "ls-files", "-sz", "--full-name", ":/"]
        top = ["git", "-C", str(folder), "rev-parse", "--show-toplevel"]
        try:
            root, listed = (
                subprocess.run(one, capture_output=True, text=True, check=True).stdout for one in (top, listing)
            )
        except (OSError, subprocess.CalledProcessError, UnicodeDecodeError):
            return cls()
        files: dict[str, tuple[Path, ...]] = {}
        for entry in filter(None, listed.split("\0")):
            about, _, name = entry.partition("\t")
            file = Path(root.rstrip("\n")) / name
            files[about.split()[1]] = (*files.get(about.split()[1], ()), file)
        return cls(files)

    def file(self, file: Path) -> Path:
        """Return the tracked file of the same name and bytes; the file itself if it is tracked, or none is."""
        place = file.resolve()
        content = place.read_bytes() if place.is_file() else b""
        number = hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
        alike = [one for one in self.files.get(number, ()) if one.name == file.name]
        return alike[0] if alike and place not in alike else file

    def folder(self, folder: Path, module: Path) -> Path:
        """Return the folder below which a tracked module is, which is a path below `folder`."""
        found = self.file(folder / module)
        is_below = found != folder / module and found.parts[-len(module.parts) :] == module.parts
        return Path(*found.parts[: -len(module.parts)]) if is_below else folder
