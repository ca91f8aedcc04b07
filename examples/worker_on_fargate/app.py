"""The entry of `cdk deploy --app "python -m examples.worker_on_fargate.app"`, in the repository's folder."""

from __future__ import annotations

import os

from examples.worker_on_fargate.build import build

if __name__ == "__main__":
    build(os.environ.get("CDK_OUTDIR", "cdk.out/worker-on-fargate")).synth()
