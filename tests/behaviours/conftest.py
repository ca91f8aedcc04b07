"""A person's terminal on the embedded AWS: the real template, the real handler, and the command line."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from oneslot.cli import main
from oneslot.local.aws.cloud_assembly import SynthesisedStack
from oneslot.local.aws.connection import Connection
from oneslot.local.aws.deployment import deploy
from oneslot.local.mapping.event_source_mapping import EventSourceMapping
from oneslot.local.processes import start_ticks
from oneslot.local.state import LocalState, read_state
from oneslot.target import Target, local_target


@dataclass
class Terminal:
    """A person's terminal with a stack of their own."""

    home: Path

    def run(self, *arguments: str) -> Result:
        """Run one command line."""
        return CliRunner().invoke(main, list(arguments), env={"ONESLOT_HOME": str(self.home), "COLUMNS": ""})

    def json(self, *arguments: str, exit_code: int = 0) -> dict[str, Any]:
        """Run one with `--json`, and return its document."""
        result = self.run(*arguments, "--json")
        assert result.exit_code == exit_code, result.output
        document = json.loads(result.stdout)
        assert isinstance(document, dict)
        return document

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
    """A deployed stack, consumed from, whose state is where `oneslot up` would have written it."""
    deployment = deploy(stack, account)
    with EventSourceMapping(account, deployment.outputs["EventSourceMappingId"], folder=folder, processes=2) as poller:
        LocalState(
            endpoint_url=account.endpoint_url,
            region=account.region,
            access_key_id=account.access_key_id,
            secret_access_key=account.secret_access_key,
            stack_name=deployment.stack_name,
            outputs=deployment.outputs,
            supervisor_pid=os.getpid(),
            supervisor_start=start_ticks(os.getpid()) or 0,
            log_file=str(poller.log_file),
        ).write(folder)
        yield poller, Terminal(folder)


@pytest.fixture
def terminal(account: Connection, synthesised: SynthesisedStack, tmp_path: Path) -> Iterator[Terminal]:
    """A stack of stage `dev`, and the terminal."""
    with running_stack(account, synthesised, tmp_path) as (_, terminal):
        yield terminal
