"""The 8 a.m. rush on the embedded AWS: the real handler and the peers under one load, with and without dying consumers.

    python -m lab.benchmarks.rush [--requests 20000] [--demand FILE] [--kill-every 3] [--handlers ours,Powertools]

Requests follow the practices' demand, from a file as for `oneslot seed --demand` or synthetic. 30 % are sent twice,
and all are sent at once to consumer processes that receive batches of ten. With `--kill-every`, consumers are killed
(SIGKILL) in turn and replaced, the first as soon as a message is done; SQS redelivers their messages after the
visibility timeout. Then the tables are read for requests that hold two slots and for requests without an answer.
Latency is from SQS's SentTimestamp to the moment before deletion, of each request's first copy. All are sent at once,
so most of it is waiting in the queue.

`--seconds` bounds all handlers together. Each handler may use its share of the time that is left, and then reports
what it reached. In a run that was stopped, only acknowledged requests can count as lost.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from lab.benchmarks.harness.command import print_figures, run_main
from lab.benchmarks.rush.figures import Figures, tables
from lab.benchmarks.rush.load import demands, requests
from lab.benchmarks.rush.rush import HANDLERS, Load, Rush
from oneslot.errors import BadInput
from oneslot.local.aws.embedded_aws import EmbeddedAws


def run(load: Load, names: Sequence[str], seconds: float) -> Iterator[Figures]:
    """Run each handler on a new embedded AWS, all within `seconds`."""
    end = time.monotonic() + seconds
    for position, handler in enumerate(names):
        own_end = time.monotonic() + (end - time.monotonic()) / (len(names) - position)
        with tempfile.TemporaryDirectory() as name, EmbeddedAws(Path(name) / "aws") as aws:
            rush = Rush(aws, Path(name), load)
            rush.prepare()
            yield rush.run(handler, own_end)


def main() -> int:
    """Print the tables. Return the exit status: 130 after an interrupt."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--requests", type=int, default=20_000, help="number of requests, before the 30 %% that are sent twice"
    )
    parser.add_argument("--practices", type=int, default=1_000, help="number of practices")
    parser.add_argument("--demand", type=Path, help="a file of appointments by practice; synthetic without it")
    parser.add_argument("--kill-every", type=float, default=0, help="seconds between two kills; 0: none")
    parser.add_argument("--handlers", default=",".join(HANDLERS), help="parts of the names of handlers")
    parser.add_argument("--seconds", type=float, default=3_600, help="time for all handlers together")
    options = parser.parse_args()
    for name in ("requests", "practices", "seconds"):
        if getattr(options, name) <= 0:
            parser.error(f"--{name} must be above 0")
    if options.kill_every < 0:
        parser.error("--kill-every must be 0 or more")
    names = [name for name in HANDLERS if any(part in name for part in options.handlers.split(","))]
    if not names:
        parser.error(f"--handlers: {options.handlers!r} matches none of {', '.join(HANDLERS)}")
    try:
        chosen = demands(options.demand, options.practices)
    except BadInput as error:
        parser.error(f"--demand: {error}")
    load = Load(requests(chosen, options.requests), options.kill_every)
    return print_figures(run(load, names, options.seconds), tables)


if __name__ == "__main__":
    sys.exit(run_main(main))
