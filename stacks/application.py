"""The app: the stacks of the stage that the context names, held to two packs of rules. It calls no AWS service."""

import json
from pathlib import Path
from typing import Any

from aws_cdk import App, Tags

from stacks.appointments.stack import AppointmentsStack
from stacks.context import settings_from_context
from stacks.operations.stack import OperationsStack
from stacks.shared.rules import add_rules

TAGS = {"Application": "oneslot"}
"""What every resource is tagged with, beside its `Stage`: activate both for cost allocation, and a bill shows a stage."""

CDK_JSON = Path(__file__).resolve().parents[1] / "cdk.json"


def build(outdir: str | None = None, context: dict[str, Any] | None = None, stage_files: Path | None = None) -> App:
    """Return the app with its stacks, ready for `synth()`.

    Args:
        outdir: the folder of the cloud assembly; None for the one that the CDK CLI names.
        context: the options of `-c`, e.g. `{"stage": "prod"}`.
        stage_files: the folder with the stages' files; None to read none.

    Raises:
        ContradictorySettings: the context is invalid.
        VendoringProblem: a package of an asset is neither installed nor available.
    """
    # The CDK CLI passes cdk.json's feature flags; reading them here gives `python app.py` the same template.
    flags = json.loads(CDK_JSON.read_text(encoding="utf-8"))["context"]
    app = App(outdir=outdir, context={**flags, **(context or {})})
    settings = settings_from_context(app.node.get_all_context(), stage_files)
    appointments = AppointmentsStack(app, f"Oneslot-{settings.stage}", settings=settings)
    operations = OperationsStack(
        app, f"{appointments.stack_name}-operations", settings=settings, appointments=appointments.stack_name
    )
    operations.add_stack_dependency(appointments)
    if settings.audit:
        # Imported here, because most syntheses, such as the local run's, do not need it.
        from stacks.audit.stack import AuditStack

        name = f"{appointments.stack_name}-audit"
        AuditStack(app, name, settings=settings, appointments=appointments.stack_name).add_stack_dependency(
            appointments
        )
    for name, value in TAGS.items():
        Tags.of(app).add(name, value)
    Tags.of(app).add("Stage", settings.stage)
    add_rules(app)
    return app
