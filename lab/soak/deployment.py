"""The real stack with a short lease."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import Any

from oneslot.local.aws.cloud_assembly import SynthesisedStack

QUEUE, FUNCTION, MAPPING = "AWS::SQS::Queue", "AWS::Lambda::Function", "AWS::Lambda::EventSourceMapping"


def shortened(stack: SynthesisedStack, timeout_seconds: int) -> SynthesisedStack:
    """Return the stack with another consumer timeout, and its queue's visibility timeout in the same ratio.

    Only the mapping's concurrency changes besides. A lease of seconds shows in minutes what the deployed one shows in
    hours. Raises `ValueError` if the template has not exactly one event source mapping.
    """
    template: dict[str, Any] = copy.deepcopy(stack.template)
    resources = template["Resources"]
    mappings = [each["Properties"] for each in resources.values() if each["Type"] == MAPPING]
    if len(mappings) != 1:
        raise ValueError(f"the template has {len(mappings)} event source mappings; one was expected")
    (mapping,) = mappings
    function = _named(resources, FUNCTION, mapping["FunctionName"])
    queue = _named(resources, QUEUE, mapping["EventSourceArn"])
    ratio = queue["VisibilityTimeout"] // function["Timeout"]
    function["Timeout"] = timeout_seconds
    queue["VisibilityTimeout"] = timeout_seconds * ratio
    mapping["ScalingConfig"] = {"MaximumConcurrency": 64}
    return replace(stack, template=template)


def _named(resources: dict[str, Any], kind: str, reference: object) -> dict[str, Any]:
    text = json.dumps(reference)
    (found,) = [each["Properties"] for name, each in resources.items() if each["Type"] == kind and f'"{name}"' in text]
    properties: dict[str, Any] = found
    return properties
