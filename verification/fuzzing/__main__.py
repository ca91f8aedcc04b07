"""`make fuzz`: coverage-guided fuzzing of parser and consumer with atheris (libFuzzer), for a bounded time.

    python -m verification.fuzzing --seconds 60        # or --runs 20000
    python -m verification.fuzzing --input FILE        # run a finding again

It starts from `seeds` and writes to `build/fuzz`: new inputs to `corpus/`, an input that breaks a promise to `crash-*`, and
one that takes more than ten seconds to `timeout-*`. Exit status 0 only without such an input.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

HERE = Path(__file__).parent
FOUND = HERE.parents[1] / "build" / "fuzz"
SECONDS_PER_INPUT = 10
MEGABYTES = 2_048
LONGEST = 16_384
"""The most bytes of an input. Larger ones have tests of their own, because mutating them is slow."""


def main() -> None:
    """Fuzz, or run one input."""
    parser = argparse.ArgumentParser(description="Coverage-guided fuzzing of parser and consumer.")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--runs", type=int, default=-1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=FOUND, help="for its findings")
    parser.add_argument("--input", type=Path)
    arguments = parser.parse_args()
    if arguments.input is not None:
        from verification.fuzzing.subject import consume

        print(consume(arguments.input.read_bytes()))  # noqa: T201 - its output
        return
    try:
        import atheris
    except ImportError:
        sys.exit("atheris has no package for this system. Run the seeds instead: pytest tests/verification/fuzzing")
    with atheris.instrument_imports(include=["appointments", "booking", "oneslot.runtime"]):
        from verification.fuzzing.subject import consume

    def one(data: bytes) -> None:
        if consume(data).reason == "missing_message_id":
            consume(data, content_based=True)

    found: Path = arguments.folder
    (found / "corpus").mkdir(parents=True, exist_ok=True)
    limits = {
        "max_total_time": arguments.seconds,
        "runs": arguments.runs,
        "seed": arguments.seed,
        "timeout": SECONDS_PER_INPUT,
        "rss_limit_mb": MEGABYTES,
        "max_len": LONGEST,
        "dict": HERE / "words.dict",
        "artifact_prefix": f"{found}/",
        "print_final_stats": 1,
    }
    options = [f"-{name}={value}" for name, value in limits.items()]
    atheris.Setup([sys.argv[0], *options, str(found / "corpus"), str(HERE / "seeds")], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
