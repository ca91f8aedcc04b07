"""The command `python -m lab.soak`. Exit status 1 if an invariant is broken."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import click

from lab.soak.load import Size
from lab.soak.run import Settings, run
from oneslot.cli import run_command
from oneslot.local.aws.cloud_assembly import read_stack
from oneslot.local.aws.embedded_aws import EmbeddedAws
from oneslot.local.aws.synthesis import synthesise
from oneslot.terminal import Terminal

# The slots are seeded for this rate. Two cores reached 49 over half an hour beside other work.
MESSAGES_PER_SECOND = 100
HOME = Path("build/soak")


@click.command()
@click.option("--seconds", type=click.FloatRange(1), default=1200, help="Send for at least this many seconds.")
@click.option("--messages", type=click.IntRange(0), default=0, help="Send at least this many messages.")
@click.option("--seed", type=int, default=1, show_default=True, help="The seed of every choice.")
@click.option("--write", type=click.Path(file_okay=False, path_type=Path), help="Write the figures to this directory.")
def soak(*, seconds: float, messages: int, seed: int, write: Path | None) -> int:
    """Run the deployed handler under kill -9 and freezes; then drain the queue and judge the result.

    Logs and archive of the newest run are in build/soak.
    """
    terminal = Terminal()
    shutil.rmtree(HOME, ignore_errors=True)
    HOME.mkdir(parents=True)
    settings = Settings(Size(seconds, messages), max(messages, round(seconds * MESSAGES_PER_SECOND)), seed)
    with EmbeddedAws(HOME) as aws:
        terminal.say("Synthesising the CDK app...")
        stack = read_stack(synthesise(HOME / "cdk.out", context={"stage": "dev"}), "Oneslot-dev")
        figures, verdict = run(settings, stack, aws.connection(), HOME.resolve(), terminal)
    terminal.plain(
        f"{figures['messages']:,} messages in {figures['seconds']:,} s; {figures['faults_by_kind']};"
        f" {figures['claimed_more_than_once']:,} requests claimed more than once."
    )
    terminal.plain(verdict.sentence, style="bold green" if verdict.holds else "bold red")
    if write is not None:
        command = ["/usr/bin/env", "git", "rev-parse", "--short", "HEAD"]
        commit = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        document = {"commit": commit, "cores": os.cpu_count(), **figures}
        (write / "soak.json").write_text(json.dumps(document, indent=2) + "\n")
    return 0 if verdict.holds else 1


if __name__ == "__main__":
    sys.exit(run_command(lambda: soak.main(standalone_mode=False), as_json=False))
