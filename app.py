"""The CDK app's entry: `cdk synth` and `cdk deploy` run it. `python app.py` writes the cloud assembly to `cdk.out`, offline."""

from __future__ import annotations

import os
import sys

from oneslot.cdk import ContradictorySettings, VendoringProblem
from stacks.application import build
from stacks.context import STAGE_FILES

# The first word of CDK's error for a stack that breaks a rule. CDK has printed the findings by then.
RULES_BROKEN = "ValidationFailed"


def main() -> int:
    """Synthesise, and return the exit status: 0; 1 if a rule is broken; 2 if settings or packages are invalid."""
    try:
        build(outdir=os.environ.get("CDK_OUTDIR", "cdk.out"), stage_files=STAGE_FILES).synth()
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
