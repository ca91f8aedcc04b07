"""The app: the stacks of the stage that the context names, held to two packs of rules. It asks AWS nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from aws_cdk import App, Validations
from cdk_nag import AwsSolutionsChecks, HIPAASecurityChecks

from stacks.appointments.stack import AppointmentsStack
from stacks.context import settings_from_context
from stacks.operations.stack import OperationsStack

CDK_JSON = Path(__file__).resolve().parents[1] / "cdk.json"


def build(outdir: str | None = None, context: dict[str, Any] | None = None) -> App:
    """The app with its stacks; `synth()` it.

    Args:
        outdir: the folder that takes the cloud assembly; None for the one that the CDK CLI names.
        context: what `-c` would say, e.g. `{"stage": "prod"}`.

    Raises:
        ContradictorySettings: the context asks for what cannot be.
        VendoringProblem: the Lambda asset's packages are not to be had.
    """
    # The CLI hands over cdk.json's feature flags; read here too, so that `python app.py` makes the same template.
    flags = json.loads(CDK_JSON.read_text(encoding="utf-8"))["context"]
    app = App(outdir=outdir, context={**flags, **(context or {})})
    settings = settings_from_context(app.node.get_all_context())
    appointments = AppointmentsStack(app, f"Oneslot-{settings.stage}", settings=settings)
    operations = OperationsStack(
        app, f"{appointments.stack_name}-operations", settings=settings, appointments=appointments.stack_name
    )
    operations.add_stack_dependency(appointments)
    if settings.audit:
        # Its constructs are imported only when asked for: most syntheses, the local run's among them, need none of them.
        from stacks.audit.stack import AuditStack

        name = f"{appointments.stack_name}-audit"
        AuditStack(app, name, settings=settings, appointments=appointments.stack_name).add_stack_dependency(
            appointments
        )
    add_rules(app)
    return app


def add_rules(app: App) -> None:
    """Hold `app` to the AWS Solutions and the HIPAA Security rules: a stack that breaks one is not synthesised."""
    Validations.of(app).add_plugins(AwsSolutionsChecks(app), HIPAASecurityChecks(app))
