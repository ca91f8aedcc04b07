"""Reading and trimming a CloudFormation template. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from oneslot.local.errors import DeploymentFailed

TABLE_TYPES = ("AWS::DynamoDB::Table", "AWS::DynamoDB::GlobalTable")

DroppedResources = Mapping[str, tuple[str, ...]]
"""What was dropped: the kind of resource -> logical ids."""


@dataclass(frozen=True)
class Rejected:
    """A kind of resource for which the embedded AWS rejects the whole stack. Without it there is nothing to test there:
    none of these takes part in the way of a message."""

    resource_type: str
    with_property: str | None = None  # only if it has this property

    def __str__(self) -> str:
        return self.resource_type if self.with_property is None else f"{self.resource_type} with {self.with_property}"

    def matches(self, resource: Mapping[str, Any]) -> bool:
        """Whether this resource of a template is of that kind."""
        return resource["Type"] == self.resource_type and (
            self.with_property is None or bool(resource.get("Properties", {}).get(self.with_property))
        )


REJECTED = (
    Rejected("AWS::CloudWatch::CompositeAlarm"),
    Rejected("AWS::CloudWatch::Alarm", "Metrics"),  # metric math
)
"""All that may be dropped. Anything else that the embedded AWS does not know fails the deployment."""


def drop_rejected(template: dict[str, Any]) -> tuple[dict[str, Any], DroppedResources]:
    """Return the template without the kinds in `REJECTED`, and what was dropped.

    Outputs and DependsOn that speak of a dropped resource go with it. Raises `DeploymentFailed` if a resource that
    stays needs one: then it cannot be left out.
    """
    kinds = {
        logical_id: str(rejected)
        for logical_id, resource in template["Resources"].items()
        for rejected in REJECTED
        if rejected.matches(resource)
    }
    resources = {
        logical_id: _without_dependencies(resource, kinds)
        for logical_id, resource in template["Resources"].items()
        if logical_id not in kinds
    }
    for logical_id, resource in resources.items():
        if needed := sorted(set(references(resource)) & set(kinds)):
            raise DeploymentFailed(
                f"The embedded AWS has no {kinds[needed[0]]}, but {logical_id} refers to {needed[0]}. "
                "Keep both in another stack."
            )
    trimmed = {**template, "Resources": resources}
    if "Outputs" in template:
        trimmed["Outputs"] = {
            name: output for name, output in template["Outputs"].items() if not set(references(output)) & set(kinds)
        }
    return trimmed, {
        kind: tuple(sorted(each for each in kinds if kinds[each] == kind)) for kind in sorted(set(kinds.values()))
    }


def references(value: Any) -> Iterator[str]:
    """Yield every logical id that this part of a template refers to with Ref, Fn::GetAtt or Fn::Sub."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "Ref" and isinstance(inner, str):
                yield inner
            elif key == "Fn::GetAtt":
                yield inner[0] if isinstance(inner, list) else inner.partition(".")[0]
            elif key == "Fn::Sub":
                yield from _substituted(inner[0] if isinstance(inner, list) else inner)
            yield from references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


def _substituted(text: str) -> Iterator[str]:
    for piece in text.split("${")[1:]:
        yield piece.partition("}")[0].partition(".")[0]


def _without_dependencies(resource: dict[str, Any], dropped: Mapping[str, str]) -> dict[str, Any]:
    if "DependsOn" not in resource:
        return resource
    depends_on = resource["DependsOn"]
    names = [depends_on] if isinstance(depends_on, str) else depends_on
    return {**resource, "DependsOn": [name for name in names if name not in dropped]}


@dataclass(frozen=True)
class TableSettings:
    """What the embedded AWS ignores in a table of a template, and takes by API."""

    ttl_attribute: str | None
    point_in_time_recovery: bool


def table_settings(resource: Mapping[str, Any]) -> TableSettings:
    """Read a table's TTL and point-in-time recovery from its template, in either of CloudFormation's two table types."""
    properties = resource.get("Properties", {})
    ttl = properties.get("TimeToLiveSpecification", {})
    holders = [properties, *properties.get("Replicas", [])]
    recovery = [holder.get("PointInTimeRecoverySpecification", {}) for holder in holders]
    return TableSettings(
        ttl_attribute=ttl.get("AttributeName") if ttl.get("Enabled") else None,
        point_in_time_recovery=any(each.get("PointInTimeRecoveryEnabled") for each in recovery),
    )
