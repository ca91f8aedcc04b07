"""The explorations of `make prove`, and their short forms for `make test`."""

from __future__ import annotations

from dataclasses import replace

from prover.faults import domain_faults, mild_faults
from prover.messages import booking, cancellation
from prover.scenario import Scenario, free_slots

ONE_REQUEST = Scenario(
    name="one request",
    sentence="one booking, delivered again and again while two slots are free",
    messages=(booking("m-1"),),
    deliveries=((0,), (0,)),
    before={"slots": free_slots(2)},
)

if __name__ == "__main__":
    import sys, time
    sys.path.insert(0, "lambda_src")
