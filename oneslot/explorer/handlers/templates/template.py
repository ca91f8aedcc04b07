"""A handler's scenario from its template: SAM, CloudFormation, or what `cdk synth` wrote."""

import importlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from oneslot.dynamodb_in_memory.contents import Index, TableSchema
from oneslot.dynamodb_in_memory.service import table_of
from oneslot.errors import pip_install
from oneslot.explorer.handlers.given import Given
from oneslot.explorer.handlers.templates.intrinsics import Resolver, Unresolved
from oneslot.explorer.handlers.templates.sources import QUEUES, SQS, STREAMS, FunctionSource, functions, sources_of
from oneslot.explorer.handlers.templates.terraform import is_plan, template_of
from oneslot.explorer.refusal import NotExplorable
from oneslot.runtime.sqs.queue import QUEUE_VISIBILITY_SECONDS, USUAL_RECEIVES

TABLES = ("AWS::DynamoDB::Table", "AWS::DynamoDB::GlobalTable")
LIVES = "TimeToLiveSpecification"
LAYERS = ("AWS::Serverless::LayerVersion", "AWS::Lambda::LayerVersion")
ASSET = "aws:asset:path"

_TYPES = {"String": "S", "Number": "N", "Binary": "B"}
DEFAULT_SECONDS = {"timeout": 3, "visibility": QUEUE_VISIBILITY_SECONDS}
"""The defaults of Lambda and of SQS."""
MOST_LEVELS, MOST_VALUES = 100, 1_000_000
"""CloudFormation takes 1 MB of text. It holds fewer values, unless aliases of YAML repeat them."""
TOO_DEEP = f"it has more than {MOST_LEVELS} levels"

PARAMETER_REMEDY = 'parameters={"Name": "..."}, or name tables and environment by hand'


def from_template(
    path: str | Path,
    *,
    function: str = "",
    parameters: Mapping[str, Any] | None = None,
    env: Mapping[str, str] | None = None,
) -> Given:
    """Return what `explore` needs from a template: `explore(**from_template("template.yaml"), messages=[...])`.

    Args:
        path: a template of SAM or CloudFormation in YAML or JSON, or the folder `cdk.out` if it has one stack.
        function: its logical id, the beginning of it, or its name; not needed if there is one.
        parameters: those of the stack, over their defaults.
        env: environment variables, over the template's.

    Raises `NotExplorable`, naming the remedy, for what the template does not give.
    """
    file = template_file(Path(path))
    resolver = Resolver(read_template(file), parameters or {})
    names = functions_of(resolver)
    found = [name for name in names if function in (name, resolver.physical_name(name))]
    found = found or [name for name in names if name.startswith(function)]
    if len(found) != 1:
        raise NotExplorable(f'function: "{function}" names {len(found)} functions. Name one of {", ".join(names)}.')
    return options_of(resolver, found[0], file.parent, env or {})


def options_of(resolver: Resolver, name: str, folder: Path, env: Mapping[str, str]) -> Given:
    """Return what `explore` needs for the function with this logical id. `folder`: that of the template.

    Raises `NotExplorable`, naming the remedy, for what the template does not give.
    """
    properties = function_properties(resolver.template, name)
    polled = (one for one in sources_of(resolver, name) if one.kind in (*QUEUES, *STREAMS))
    source = next(polled, FunctionSource(SQS))
    queue = (source.resource if source.kind in QUEUES else None) or {}
    visibility = queue.get("VisibilityTimeout", DEFAULT_SECONDS["visibility"])
    policy = redrive_policy(_resolved(resolver, queue.get("RedrivePolicy", {}), "the queue's RedrivePolicy"))
    return Given(
        _resolved(resolver, properties.get("Handler", "app.handler"), f"{name}.Handler"),
        path=[folder / one for one in folders(resolver, resolver.resources[name], properties)],
        tables=template_tables(resolver),
        env=_environment(resolver, properties, name, env),
        timeout=int(_resolved(resolver, properties.get("Timeout", DEFAULT_SECONDS["timeout"]), f"{name}.Timeout")),
        visibility=int(_resolved(resolver, visibility, "the queue")),
        queue=source.physical if source.kind in QUEUES else "",
        reports_failures="ReportBatchItemFailures" in source.settings.get("FunctionResponseTypes", ()),
        bisects=bool(source.settings.get("BisectBatchOnFunctionError")),
        receives=int(policy.get("maxReceiveCount", USUAL_RECEIVES)),
        parameters=parameters_of(resolver) or None,
    )


def redrive_policy(given: Any) -> Mapping[str, Any]:
    """Return a queue's redrive policy, which may be JSON text."""
    with suppress(TypeError, ValueError):
        given = json.loads(given)
    return given if isinstance(given, Mapping) else {}


def function_properties(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a function's properties, over those of SAM's Globals. Variables of both are kept."""
    everywhere = document.get("Globals", {}).get("Function", {})
    own = document["Resources"][name].get("Properties", {})
    variables = {**variables_of(everywhere), **variables_of(own)}
    return {**everywhere, **own, **({"Environment": {"Variables": variables}} if variables else {})}


def variables_of(properties: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the environment variables among a function's properties, as the template writes them."""
    return properties.get("Environment", {}).get("Variables", {})  # type: ignore[no-any-return]


def template_file(path: Path) -> Path:
    """Return the template in the folder `cdk.out`, or the path itself if it is a file."""
    if not path.is_dir():
        return path
    found = sorted(path.glob("*.template.json"))
    if len(found) != 1:
        names = ", ".join(one.name for one in found)
        raise NotExplorable(
            f"{path} has {f'these templates: {names}' if names else 'no *.template.json'}. Name a template."
        )
    return found[0]


def read_template(file: Path) -> dict[str, Any]:
    """Return a template's document. Raises `NotExplorable` if it cannot be read or has no Resources."""
    try:
        text = file.read_text()
        document = json.loads(text) if file.suffix == ".json" else _read_yaml(text)
        _measure(document, MOST_LEVELS, {})
    except OSError as error:
        raise NotExplorable(f"{file}: {error.strerror}. Name a template of SAM or CloudFormation.") from error
    except (RecursionError, ValueError) as error:
        reason = TOO_DEEP if isinstance(error, RecursionError) else " ".join(str(error).split())
        raise NotExplorable(f"{file} cannot be read: {reason}. Correct the file.") from error
    if is_plan(document):
        return template_of(document)
    if not isinstance(document, dict) or not isinstance(document.get("Resources"), dict):
        raise NotExplorable(f"{file} has no Resources. Name a template of SAM or CloudFormation.")
    for name, one in document["Resources"].items():
        own = one.get("Properties", {}) if isinstance(one, dict) and isinstance(one.get("Type"), str) else None
        if not str(name).startswith("Fn::ForEach::") and not isinstance(own, dict):
            raise NotExplorable(f"{file}: {name} is not a resource. Give it a Type, and Properties as a mapping.")
    return document


def _measure(node: Any, levels: int, known: dict[int, int]) -> int:
    """Return the number of values in a document with YAML's aliases written out. Raises `ValueError` beyond the limits."""
    if levels < 0:
        raise ValueError(TOO_DEEP)
    if not isinstance(node, dict | list):
        return 1
    if id(node) not in known:
        held = node.values() if isinstance(node, dict) else node
        known[id(node)] = 1 + sum(_measure(one, levels - 1, known) for one in held)
    if known[id(node)] > MOST_VALUES:
        raise ValueError(f"it has more than {MOST_VALUES:,} values")
    return known[id(node)]


def _read_yaml(text: str) -> Any:
    """Read YAML with CloudFormation's short forms: !Ref, !Sub, !GetAtt."""
    try:
        yaml: Any = importlib.import_module("yaml")
    except ImportError as error:  # pragma: no cover
        raise NotExplorable(f"A template in YAML needs PyYAML; run: {pip_install('explorer')}") from error

    loader: Any = type("Loader", (yaml.SafeLoader,), {})

    def short(constructor: Any, suffix: str, node: Any) -> dict[str, Any]:
        if isinstance(node, yaml.ScalarNode):
            value: Any = constructor.construct_scalar(node)
        elif isinstance(node, yaml.SequenceNode):
            value = constructor.construct_sequence(node, deep=True)
        else:
            value = constructor.construct_mapping(node, deep=True)
        return {suffix if suffix in ("Ref", "Condition") else f"Fn::{suffix}": value}

    loader.add_multi_constructor("!", short)
    try:
        return yaml.load(text, loader)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


def _resolved(resolver: Resolver, node: Any, where: str, remedy: str = "") -> Any:
    try:
        return resolver.value(node)
    except Unresolved as error:
        remedy = remedy or f"Give the parameter: {PARAMETER_REMEDY}"
        raise NotExplorable(f"{where}: the template does not say what {error} is. {remedy}.") from error


def functions_of(resolver: Resolver) -> list[str]:
    """Return the logical ids of the functions. Raises `NotExplorable` if there are none."""
    names = functions(resolver)
    if not names:
        raise NotExplorable("The template has no function. Name the template of the stack that has it.")
    return names


def _environment(
    resolver: Resolver, properties: Mapping[str, Any], name: str, own: Mapping[str, str]
) -> dict[str, str]:
    found: dict[str, str] = {}
    for variable, node in variables_of(properties).items():
        if variable in own:
            continue
        remedy = f'Give its value: env={{"{variable}": "..."}}'
        value = _resolved(resolver, node, f"{name}'s variable {variable}", remedy)
        if value is not None:
            found[variable] = str(value).lower() if isinstance(value, bool) else str(value)
    return {**found, **own}


def template_tables(resolver: Resolver) -> dict[str, TableSchema]:
    """Return the tables of a template by their physical names: those of this stack before those of another one.

    A table of another stack is left out if the values of this stack do not give its keys.
    """
    tables: dict[str, TableSchema] = {}
    wanted = ("KeySchema", "AttributeDefinitions", "LocalSecondaryIndexes", "GlobalSecondaryIndexes", LIVES)
    for name, resource in sorted(resolver.every.items(), key=lambda one: one[0] in resolver.resources):
        properties = resource.get("Properties", {})
        with suppress(*(() if name in resolver.resources else (NotExplorable, KeyError))):
            if resource["Type"] in TABLES:
                given = _resolved(resolver, {one: properties[one] for one in wanted if one in properties}, name)
                lives = given.get(LIVES, {})
                attribute = lives.get("AttributeName", "") if str(lives.get("Enabled")).lower() == "true" else ""
                tables[resolver.physical_name(name)] = replace(table_of(given), time_to_live=attribute)
            elif resource["Type"] == "AWS::Serverless::SimpleTable":
                key = _resolved(resolver, properties.get("PrimaryKey", {"Name": "id", "Type": "String"}), name)
                types = {key["Name"]: _TYPES[key["Type"]]}
                tables[resolver.physical_name(name)] = TableSchema(key["Name"], types=types)
    return tables


def folders(resolver: Resolver, resource: Mapping[str, Any], properties: Mapping[str, Any]) -> list[str]:
    """Return the folder of the code, and those of the layers that the template has."""
    folders = [_folder(resource, properties, ("CodeUri", "Code")) or "."]
    for layer in properties.get("Layers", ()):
        held = resolver.resources.get(layer.get("Ref", "") if isinstance(layer, Mapping) else "", {})
        content = _folder(held, held.get("Properties", {}), ("ContentUri", "Content"))
        if held.get("Type") in LAYERS and content:
            folders += [content, f"{content.rstrip('/')}/python"]
    return folders


def _folder(resource: Mapping[str, Any], properties: Mapping[str, Any], names: Sequence[str]) -> str | None:
    """Return a folder or a zip as SAM writes it, that of CDK's asset, or what a package in S3 was made of.

    CDK's key is the asset's hash. Others end with the name of the file that was uploaded.
    """
    asset = resource.get("Metadata", {}).get(ASSET)
    given = asset or next((properties[name] for name in names if name in properties), None)
    key = given.get("S3Key") if isinstance(given, Mapping) else None
    given = key if isinstance(key, str) else given
    if not isinstance(given, str):
        return None
    if key and key.endswith(".zip") and "/" not in key:
        return f"asset.{key.removesuffix('.zip')}"
    return given.rpartition("/")[2] if key or given.startswith("s3://") else given


def parameters_of(resolver: Resolver) -> dict[str, Any]:
    """Return the values of the template's parameters. A handler that reads another one is refused with the remedy."""
    return {
        resolver.physical_name(name): value
        for name, one in resolver.resources.items()
        if one["Type"] == "AWS::SSM::Parameter" and (value := resolver.known(one["Properties"]["Value"])) is not None
    }


def table(
    name: str, key: str, sort: str = "", time_to_live: str = "", **indexes: str | tuple[str, str]
) -> tuple[str, TableSchema]:
    """Return a table by hand: `table("orders", "id", by_customer=("customer", "day"))`, with its global indexes."""
    keys = {index: (parts, "") if isinstance(parts, str) else parts for index, parts in indexes.items()}
    made = {index: Index(first, second, is_global=True) for index, (first, second) in keys.items()}
    return name, TableSchema(key, sort, made, time_to_live=time_to_live)


def tables_of(tables: Any) -> dict[str, TableSchema]:
    """Return tables from {"orders": "id"}, {"orders": ("customer", "id")}, ["orders:id"] or [table("orders", "id")]."""
    found: dict[str, TableSchema] = {}
    for one in tables.items() if isinstance(tables, Mapping) else tables:
        name, keys = one.split(":") if isinstance(one, str) else one
        keys = tuple(keys.split("/")) if isinstance(one, str) else (keys,) if isinstance(keys, str) else keys
        found[name] = keys if isinstance(keys, TableSchema) else TableSchema(*keys)
    return found
