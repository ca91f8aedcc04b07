"""The services that the nightly state machine calls, and what a night finds there."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from oneslot.audit.conclusion import VERSION
from oneslot.audit.write.finished import DESCRIPTION
from stacks.audit.workflow import DEFINITION
from tests.kits.stacks import Stage, resolve
from tests.stacks.audit.state_machine import Ended, Interpreter, NeverAnswered, StateFailure

SOUND = {"sound": True, "sentence": "Every one of 7 requests took effect at most once.", "violations": {"I1": 0}}
EARLIER = {**SOUND, "version": VERSION, "retention_ms": 30 * 86_400_000, "forgotten_before": 0}
BAD = {"sound": False, "sentence": "Invariants that do not hold: I3 (2).", "violations": {"I1": 0, "I3": 2, "I5": 1}}
# The second night of a week of changes: 2026-11-24 is 20781 days after the epoch, and 20781 % 7 is 5.
CHANGES = {"scheduled": "2026-11-24T00:30:00Z"}
FULL = {"scheduled": "2026-11-26T00:30:00Z"}


@dataclass
class World:
    """The services that the states call, and what they were asked."""

    definition: dict[str, Any]
    objects: dict[str, Any] = field(default_factory=dict)
    verdict: Any = None
    job_fails: str | None = None
    exports_fail: bool = False
    export_minutes: int = 3
    job_hangs: bool = False
    calls: list[tuple[str, Any]] = field(default_factory=list)
    looks: dict[str, int] = field(default_factory=dict)
    way: list[str] = field(default_factory=list)
    buckets: set[str] = field(default_factory=set)
    broken: dict[str, StateFailure | NeverAnswered] = field(default_factory=dict)

    def run(self, given: Any) -> Ended:
        """Execute once."""
        tasks: dict[str, Callable[[Any], Any]] = {
            "aws-sdk:s3:headObject": self.get,
            "aws-sdk:s3:getObject": self.get,
            "aws-sdk:s3:putObject": self.put,
            "aws-sdk:dynamodb:exportTableToPointInTime": self.export,
            "aws-sdk:dynamodb:describeExport": self.describe,
            "glue:startJobRun.sync": self.job,
            "aws-sdk:cloudwatch:putMetricData": lambda _: {},
            "sns:publish": lambda _: {"MessageId": "1"},
        }
        context = {"Execution": {"Name": "night-1", "StartTime": "2026-11-24T00:30:07.123Z"}}
        wrapped = {name: self._recorded(name, task) for name, task in tasks.items()}
        interpreter = Interpreter(self.definition, wrapped, context)
        try:
            return interpreter.run(given)
        finally:
            self.way = interpreter.visited

    def _recorded(self, name: str, task: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def call(arguments: Any) -> Any:
            self.calls.append((name, arguments))
            if name in self.broken:
                raise self.broken[name]
            return task(arguments)

        return call

    def called(self, name: str) -> list[Any]:
        """The arguments of every call whose name ends so."""
        return [arguments for called, arguments in self.calls if called.endswith(name)]

    def get(self, arguments: Any) -> Any:
        self.buckets.add(arguments["Bucket"])
        if arguments["Key"] not in self.objects:
            raise StateFailure("S3.NoSuchKeyException")
        there = self.objects[arguments["Key"]]
        return {"Body": there if isinstance(there, str) else json.dumps(there)}

    def put(self, arguments: Any) -> Any:
        self.buckets.add(arguments["Bucket"])
        self.objects[arguments["Key"]] = arguments["Body"]
        return {}

    def export(self, arguments: Any) -> Any:
        self.buckets.add(arguments["S3Bucket"])
        return {"ExportDescription": {"ExportArn": f"export of {arguments['TableArn']}"}}

    def describe(self, arguments: Any) -> Any:
        seen = self.looks[arguments["ExportArn"]] = self.looks.get(arguments["ExportArn"], 0) + 1
        if self.exports_fail:
            return {"ExportDescription": {"ExportStatus": "FAILED", "FailureMessage": "no such key"}}
        done = seen >= self.export_minutes  # each look comes a minute after the one before
        return {"ExportDescription": {"ExportStatus": "COMPLETED" if done else "IN_PROGRESS"}}

    def job(self, arguments: Any) -> Any:
        if self.job_hangs:
            raise NeverAnswered
        if self.verdict is not None:
            output = arguments["Arguments"]["--output"].partition("://")[2].partition("/")[2]
            self.objects[f"{output}/{DESCRIPTION}"] = self.verdict
        if self.job_fails:
            raise StateFailure("States.TaskFailed", self.job_fails)
        return {"JobRunState": "SUCCEEDED"}


def definition(stage: Stage, **changes: str) -> dict[str, Any]:
    """Return a deployed stage's definition, with readable names for references, and changed substitutions."""
    given = resolve(stage.properties("AWS::StepFunctions::StateMachine")["DefinitionSubstitutions"])
    values = given | changes
    text = re.sub(r"\$\{(\w+)\}", lambda found: str(values[found[1]]), DEFINITION.read_text("utf-8"))
    filled: dict[str, Any] = json.loads(text)
    return filled
