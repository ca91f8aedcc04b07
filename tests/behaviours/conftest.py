"""A terminal on the embedded AWS: the real template, the real handler, and the command line."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from oneslot.local.aws.cloud_assembly import SynthesisedStack
from oneslot.local.aws.connection import Connection
from oneslot.local.aws.deployment import deploy
from oneslot.local.mapping.event_source_mapping import EventSourceMapping
from oneslot.local.state import LocalState, read_state
from oneslot.operator.cli import main
from oneslot.operator.target import Target, local_target
from oneslot.runtime.sqs import dead_letters


@dataclass
class Terminal:
    """A terminal with a stack of its own."""

    home: Path

    def run(self, *arguments: str) -> Result:
        """Run one command line."""
        return CliRunner().invoke(main, list(arguments), env={"ONESLOT_HOME": str(self.home), "COLUMNS": ""})

    def json(self, *arguments: str, exit_code: int = 0) -> dict[str, Any]:
        """Run one command line with `--json`; return its document."""
        result = self.run(*arguments, "--json")
        assert result.exit_code == exit_code, result.output
        document = json.loads(result.stdout)
        assert isinstance(document, dict)
        return document

    def drain(self) -> str:
        """Wait until the queue is drained; return the output of `watch`."""
        watched = self.run("watch", "--until-drained", "--timeout", "300")
        assert watched.exit_code == 0, watched.output
        return watched.output

    @property
    def target(self) -> Target:
        """The stack."""
        state = read_state(self.home)
        assert state is not None
        return local_target(state, self.home)


@contextmanager
def running_stack(
    account: Connection, stack: SynthesisedStack, folder: Path
) -> Iterator[tuple[EventSourceMapping, Terminal]]:
    """Deploy a stack, consume its queue, and write its state as `oneslot up` does."""
    deployment = deploy(stack, account)
    with EventSourceMapping(account, deployment.outputs["EventSourceMappingId"], folder=folder, processes=2) as poller:
        LocalState.of(deployment, poller.log_file).write(folder)
        yield poller, Terminal(folder)


@pytest.fixture(autouse=True, scope="module")
def short_polls() -> Iterator[None]:
    """Read the dead-letter queue without long polls or waits: the embedded SQS has one server and exact counts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dead_letters, "WAIT_SECONDS", 0)
        patch.setattr(dead_letters, "SETTLING_SECONDS", 0.1)
        yield


@pytest.fixture
def terminal(account: Connection, synthesised: SynthesisedStack, tmp_path: Path) -> Iterator[Terminal]:
    """A terminal with a stack of stage `dev`."""
    with running_stack(account, synthesised, tmp_path) as (_, terminal):
        yield terminal
