"""What `cdk synth` and `cdk deploy` run. `python app.py` by itself writes the cloud assembly to `cdk.out`, offline."""

from __future__ import annotations

import os
import sys

from stacks.application import build
from stacks.settings import ContradictorySettings
from stacks.shared.vendoring import VendoringProblem

# How CDK begins the message of its only error for a stack that breaks a rule; it has printed the findings by then.
RULES_BROKEN = "ValidationFailed"


def main() -> int:
    """Synthesise. Returns the exit status: 0; 1 if a rule is broken; 2 with a sentence about settings or packages."""
    try:
        build(outdir=os.environ.get("CDK_OUTDIR", "cdk.out")).synth()
    except (ContradictorySettings, VendoringProblem) as problem:
        sys.stderr.write(f"Oneslot: {problem}\n")
        return 2
    except RuntimeError as failure:
        if not str(failure).startswith(RULES_BROKEN):
            raise
        sys.stderr.write(f"Oneslot: {failure}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
