"""Run benchmarks, and print their tables: `python -m lab.benchmarks [--short] NAME ...`."""

import argparse

from lab.benchmarks import billed_time, cold_start, commit, counter, explored

BENCHMARKS = {each.__name__.rpartition(".")[2]: each for each in (billed_time, commit, counter, cold_start, explored)}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="lab.benchmarks", description=__doc__)
    parser.add_argument("names", nargs="+", choices=BENCHMARKS, help="what to measure")
    parser.add_argument("--short", action="store_true", help="few runs, where a benchmark has some")
    given = parser.parse_args()
    for name in given.names:
        print(f"{BENCHMARKS[name].__doc__}\n{BENCHMARKS[name].tables(given.short)}")
