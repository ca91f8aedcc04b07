"""Run N seeds of each scenario in this process, for coverage.py: `make -C lab coverage`."""

from __future__ import annotations

import sys

from lab.simulation.run import SCENARIOS, points, run_seeds

SLOW = {"day": 10, "mapping-large": 10}
"""Scenarios that get this part of the seeds."""


def main(seeds: int) -> int:
    """Run the seeds; return 1 if one of them breaks a law."""
    broken = []
    with points() as modules:
        for name in SCENARIOS:
            for done in run_seeds(name, range(max(1, seeds // SLOW.get(name, 1))), modules):
                broken += [f"{name}, seed {done.plan.seed}: {breach.law}" for breach in done.breaches]
    sys.stderr.write("".join(f"{line}\n" for line in broken))
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
