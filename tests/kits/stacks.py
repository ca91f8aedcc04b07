"""A synthesised stage, and access to its template without CDK's generated names."""

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stacks.application import build
from stacks.context import settings_from_context
from stacks.settings import Settings


@dataclass(frozen=True)
class Stage:
    """The cloud assembly of one stage, and its settings. `part` chooses another stack of it, such as "-audit"."""

    settings: Settings
    folder: Path
    part: str = ""

    @property
    def stack_name(self) -> str:
        """The stack's name."""
        return f"Oneslot-{self.settings.stage}{self.part}"

    @property
    def template_text(self) -> str:
        """The CloudFormation template, as written."""
        return (self.folder / f"{self.stack_name}.template.json").read_text(encoding="utf-8")

    @property
    def template(self) -> dict[str, Any]:
        """The CloudFormation template."""
        parsed: dict[str, Any] = json.loads(self.template_text)
        return parsed

    @property
    def asset(self) -> Path:
        """The folder of the Lambda asset."""
        (folder,) = self.folder.glob("asset.*")
        return folder

    def resources(self, resource_type: str) -> dict[str, dict[str, Any]]:
        """The resources of one type, by logical id."""
        return {name: found for name, found in self.template["Resources"].items() if found["Type"] == resource_type}

    def properties(self, resource_type: str) -> dict[str, Any]:
        """The properties of the only resource of this type."""
        (resource,) = self.resources(resource_type).values()
        properties: dict[str, Any] = resource["Properties"]
        return properties

    def logical_id(self, output: str) -> str:
        """The logical id of the resource that an output refers to."""
        value = self.template["Outputs"][output]["Value"]
        return str(value["Ref"] if "Ref" in value else value["Fn::GetAtt"][0])

    def of_output(self, output: str) -> dict[str, Any]:
        """The properties of the resource that an output refers to."""
        properties: dict[str, Any] = self.template["Resources"][self.logical_id(output)]["Properties"]
        return properties


def synthesise(folder: Path, **context: str) -> Stage:
    """Synthesise the app with this context, as with `-c`."""
    build(outdir=str(folder), context=dict(context)).synth()
    return Stage(settings_from_context(context), folder)


def resolve(value: Any) -> Any:
    """Return a template's value with a readable name for every reference: `<LogicalId.Arn>`, `<AWS::Region>`."""
    if isinstance(value, list):
        return [resolve(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    match list(value.items()):
        case [("Ref", name)]:
            resolved: Any = f"<{name}>"
        case [("Fn::GetAtt", [name, attribute])]:
            resolved = f"<{name}.{attribute}>"
        case [("Fn::Join", [separator, parts])]:
            resolved = separator.join(str(resolve(part)) for part in parts)
        case [("Fn::Sub", str(text))]:
            resolved = text
        case [("Fn::GetStackOutput", {"OutputName": output})]:
            resolved = f"<{output}>"
        case [("Fn::Select", [index, {"Fn::Split": [_, source]}])]:
            resolved = f"{resolve(source)}[{index}]"
        case _:
            resolved = {name: resolve(entry) for name, entry in value.items()}
    return resolved


def literal_names(template: Mapping[str, Any]) -> list[str]:
    """Return the resources that outlive their stack under a name that its next one would have, too.

    A name is unique if CloudFormation makes it, if it is another resource's, or if it holds the stack's id.
    """
    found = []
    for logical_id, resource in template["Resources"].items():
        if "Retain" not in f"{resource.get('DeletionPolicy')} {resource.get('UpdateReplacePolicy')}":
            continue
        for name, value in resource.get("Properties", {}).items():
            of_another = isinstance(value, dict) and list(value) in (["Ref"], ["Fn::GetAtt"])
            if name.endswith("Name") and not of_another and "AWS::StackId" not in json.dumps(value):
                found.append(f"{logical_id}.{name}")
    return found


HASH = re.compile(r"[0-9a-f]{64}|(?<=CurrentVersion[0-9A-F]{8})[0-9a-f]{32}|(?<=-security-)[0-9a-f]{8}")
ATTRIBUTES = ("DeletionPolicy", "UpdateReplacePolicy", "DependsOn", "UpdatePolicy")
LEFT_OUT = {"AlarmDescription", "DashboardBody", "Tags"}
"""Texts for people, and what other tests read of every resource."""


def outline(template: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Return the properties of each resource, and the outputs, as text without the hashes of assets."""
    shown: dict[str, dict[str, str]] = {}
    for name, resource in sorted(template["Resources"].items()):
        properties = {key: resource[key] for key in ATTRIBUTES if key in resource} | resource.get("Properties", {})
        shown[f"{resource['Type']} {_unhashed(name)}"] = {
            key: json.dumps(_unhashed(resolve(value)), sort_keys=True, ensure_ascii=False)
            for key, value in sorted(properties.items())
            if key not in LEFT_OUT
        }
    if "Outputs" in template:
        outputs = sorted(template["Outputs"].items())
        shown["Outputs"] = {name: _unhashed(resolve(output["Value"])) for name, output in outputs}
    return shown


def differences(template: Mapping[str, Any], base: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a template has that its base has not, and "without" what it lacks, a property a line."""
    shown, known = outline(template), outline(base)
    for heading, properties in shown.items():
        before = known.get(heading, {})
        changes = [f"    {key}: {value}" for key, value in properties.items() if before.get(key) != value]
        changes += [f"    without {key}" for key in before if key not in properties]
        if changes or heading not in known:
            yield heading
            yield from changes
    yield from (f"without {heading}" for heading in known if heading not in shown)


def _unhashed(value: Any) -> Any:
    """Return the value without hashes, and texts of a list in their order without them: CDK sorts them with hashes."""
    if isinstance(value, dict):
        return {key: _unhashed(each) for key, each in value.items()}
    if isinstance(value, list):
        cleaned = [_unhashed(each) for each in value]
        return sorted(cleaned) if all(isinstance(each, str) for each in cleaned) else cleaned
    return HASH.sub("<hash>", value) if isinstance(value, str) else value


def assert_snapshot(template: Mapping[str, Any], path: Path, base: Mapping[str, Any] | None = None) -> None:
    """Compare a template, or its differences from a base, with the file; with UPDATE_SNAPSHOTS write the file."""
    lines = list(differences(template, base or {"Resources": {}}))
    if "UPDATE_SNAPSHOTS" in os.environ:
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert lines == path.read_text(encoding="utf-8").splitlines(), "if intended, run this test with UPDATE_SNAPSHOTS=1"
