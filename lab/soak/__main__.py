"""The command `python -m lab.soak`. Exit status 1 if an invariant is broken."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import click

from lab.soak.load import Size
from lab.soak.run import Settings, refuse_used, run
from oneslot.cli import run_command
from oneslot.local.aws.cloud_assembly import read_stack
from oneslot.local.aws.embedded_aws import EmbeddedAws
from oneslot.local.aws.synthesis import synthesise
from oneslot.terminal import Terminal

# The slots are seeded for this rate. Two cores reached 49 over half an hour beside other work.
MESSAGES_PER_SECOND = 100
FIGURES = "soak.json"


@click.command()
@click.option(
    "--seconds", type=click.FloatRange(1), default=1200, show_default=True, help="Send for at least this many seconds."
)
@click.option("--messages", type=click.IntRange(0), default=0, help="Send at least this many messages.")
@click.option("--seed", type=int, default=1, show_default=True, help="The seed of every choice.")
@click.option(
    "--lease", type=click.IntRange(4, 900), default=6, show_default=True, help="The function's timeout, in seconds."
)
@click.option("--hosts", type=click.IntRange(2), default=2, show_default=True, help="Pollers.")
@click.option(
    "--handlers", type=click.IntRange(1), default=2, show_default=True, help="Handler processes of each poller."
)
@click.option(
    "--gap", type=click.FloatRange(0.1), default=4.0, show_default=True, help="Mean seconds between process faults."
)
@click.option("--json", "as_json", is_flag=True, help="Write one JSON document to standard output.")
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep logs and archive in this folder, which must have none of an earlier run.",
)
@click.option("--write", type=click.Path(file_okay=False, path_type=Path), help="Write the figures to this directory.")
def soak(
    *,
    seconds: float,
    messages: int,
    seed: int,
    lease: int,
    hosts: int,
    handlers: int,
    gap: float,
    as_json: bool,
    folder: Path | None,
    write: Path | None,
) -> int:
    """Run the deployed handler under kill -9, freezes and a bad network; then drain the queue and judge the result."""
    terminal = Terminal(as_json)
    if folder is not None:
        refuse_used(folder)
    expected = max(messages, round(seconds * MESSAGES_PER_SECOND))
    settings = Settings(Size(seconds, messages), expected, seed, lease, hosts, handlers, gap)
    with tempfile.TemporaryDirectory(prefix="oneslot-soak-") as temporary:
        home = folder or Path(temporary)
        home.mkdir(parents=True, exist_ok=True)
        with EmbeddedAws(home) as aws:
            terminal.say("Synthesising the CDK app...")
            stack = read_stack(synthesise(home / "cdk.out", context={"stage": "dev"}), "Oneslot-dev")
            report = run(settings, stack, aws.connection(), home, terminal)
    report.show(terminal)
    terminal.result(report.document())
    if write is not None:
        write.mkdir(parents=True, exist_ok=True)
        (write / FIGURES).write_text(json.dumps(report.document(), indent=2) + "\n")
        terminal.say(f"Wrote {write / FIGURES}.")
    return 0 if report.verdict.holds else 1


if __name__ == "__main__":
    arguments = sys.argv[1:]
    sys.exit(
        run_command(
            lambda: soak.main(arguments, "python -m lab.soak", standalone_mode=False),
            as_json="--json" in arguments,
        )
    )
