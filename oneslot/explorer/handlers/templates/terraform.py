"""A plan of Terraform, as `terraform show -json` writes it, as a template of CloudFormation."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

Values = Mapping[str, Any]


def is_plan(document: Any) -> bool:
    """Return whether a JSON document is a plan."""
    return isinstance(document, dict) and "planned_values" in document


def template_of(plan: Values) -> dict[str, Any]:
    """Return the template of a plan: functions, what invokes them, queues, topics, tables and buckets."""
    expressions = dict(_expressions(plan.get("configuration", {}).get("root_module", {}), ""))
    prior = plan.get("prior_state", {}).get("values", {}).get("root_module", {})
    archives = {
        one["values"].get("output_path"): one["values"].get("source_dir") or one["values"].get("source_file")
        for one in prior.get("resources", ())
        if one.get("type") == "archive_file"
    }
    known = [
        _Given(one, expressions.get(_without_index(one["address"]), {}), archives)
        for one in _resources(plan["planned_values"].get("root_module", {}))
    ]
    resources: dict[str, Any] = {}
    for given in known:
        if given.kind in _TYPES:
            kind, names, others = _TYPES[given.kind]
            pairs = [name.partition("=") for name in names.split()]
            usual = {name: re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower() for name, _, _ in pairs}
            properties = {name: given.value(own or usual[name]) for name, _, own in pairs} | others(given)
            held = {name: value for name, value in properties.items() if value not in (None, [], {}, "")}
            resources[_id(given.address)] = {"Type": kind, "Properties": held}
    for given in known:
        if given.kind == "aws_cloudwatch_event_target":
            rule = resources.get(next(iter(given.references("rule")), ""), {"Properties": {}})
            rule["Properties"].setdefault("Targets", []).append({"Arn": given.arn("arn"), "Input": given["input"]})
    return {"Resources": resources}


def _resources(module: Values) -> Iterator[Values]:
    for one in module.get("resources", ()):
        if one.get("mode", "managed") == "managed":
            yield one
    for child in module.get("child_modules", ()):
        yield from _resources(child)


def _expressions(module: Values, within: str) -> Iterator[tuple[str, Any]]:
    for one in module.get("resources", ()):
        yield f"{within}{one['address']}", one.get("expressions", {})
    for name, call in module.get("module_calls", {}).items():
        yield from _expressions(call.get("module", {}), f"{within}module.{name}.")


def _without_index(address: str) -> str:
    return re.sub(r"\[[^]]*\]", "", address)


def _id(address: str) -> str:
    """Return a logical id: the name of the resource, with the words of its type, so that no two are equal."""
    return "".join(word.capitalize() for word in re.split(r"\W|_", address.replace("aws_", "")) if word)


class _Given:
    """A resource of a plan: its values, and what its expressions refer to where a value is not yet known."""

    def __init__(self, one: Values, expressions: Values, archives: Values) -> None:
        self.address, self.kind = str(one["address"]), str(one["type"])
        self._module = "".join(re.findall(r"module\.\w+\.", _without_index(self.address)))
        self._values, self._expressions, self._archives = one.get("values", {}), expressions, archives

    def __getitem__(self, name: str) -> Any:
        return self._values.get(name)

    def block(self, name: str) -> Values:
        """Return the only block of a name, such as environment."""
        held = self._values.get(name)
        return held[0] if isinstance(held, list) and held else {}

    def references(self, name: str) -> list[str]:
        """Return the logical ids that an expression refers to, by its name or that of its block."""
        found = re.findall(r'"((?:data\.)?aws_\w+\.\w+)', json.dumps(self._expressions.get(name, {})))
        return list(dict.fromkeys(_id(f"{self._module}{one}") for one in found))

    def arn(self, name: str) -> Any:
        """Return an ARN, or a reference to the resource that has it."""
        names = self.references(name)
        return {"Fn::GetAtt": [names[0], "Arn"]} if names else self[name]

    def value(self, name: str) -> Any:
        """Return a value, or what a text in JSON holds."""
        with suppress(TypeError, ValueError):
            return json.loads(self[name]) if name in _DOCUMENTS else self[name]
        return None

    @property
    def code(self) -> Any:
        """The folder or the zip of a function's code."""
        file = self["filename"]
        folder = self._archives.get(file)
        return (re.sub(r"/[^/]*\.py$", "", folder) if folder else file) or {"S3Key": self["s3_key"] or ""}

    @property
    def variables(self) -> dict[str, Any]:
        """The environment variables. One that is not yet known is a reference, if the block has one such."""
        held = dict(self.block("environment").get("variables") or {})
        unknown = [name for name, value in held.items() if value is None]
        urls = re.findall(r'"(aws_sqs_queue\.\w+)\.(?:url|id)"', json.dumps(self._expressions.get("environment", {})))
        for name in unknown:
            is_one = len(unknown) == len(urls) == 1
            held[name] = {"Ref": _id(f"{self._module}{urls[0]}")} if is_one else {"Fn::ImportValue": name}
        return held


def _function(one: _Given) -> dict[str, Any]:
    reserved = one["reserved_concurrent_executions"]
    dead = {"TargetArn": one.arn("dead_letter_config")} if one.block("dead_letter_config") else None
    limit = {"ReservedConcurrentExecutions": reserved if reserved != -1 else None, "DeadLetterConfig": dead}
    return {"Environment": {"Variables": one.variables}, **limit, "Code": one.code}


def _mapping(one: _Given) -> dict[str, Any]:
    filters = [{"Pattern": each.get("pattern")} for each in one.block("filter_criteria").get("filter", ())]
    most = one.block("scaling_config").get("maximum_concurrency")
    own = {"EventSourceArn": one.arn("event_source_arn"), "FunctionName": one.arn("function_name")}
    own["ScalingConfig"] = {"MaximumConcurrency": most} if most else None
    return {**own, "FilterCriteria": filters and {"Filters": filters}}


def _queue(one: _Given) -> dict[str, Any]:
    targets, policy = one.references("redrive_policy"), one.value("redrive_policy")
    if policy is None and targets:
        policy = {"deadLetterTargetArn": {"Fn::GetAtt": [targets[0], "Arn"]}}
    return {"RedrivePolicy": policy}


def _subscription(one: _Given) -> dict[str, Any]:
    return {"Endpoint": one.arn("endpoint"), "TopicArn": one.arn("topic_arn")}


def _table(one: _Given) -> dict[str, Any]:
    def keys(held: Any) -> list[dict[str, Any]]:
        given = ((held["hash_key"], "HASH"), (held["range_key"], "RANGE"))
        return [{"AttributeName": name, "KeyType": kind} for name, kind in given if name]

    kinds = [{"AttributeName": each["name"], "AttributeType": each["type"]} for each in one["attribute"] or ()]
    all_of_it = {"Projection": {"ProjectionType": "ALL"}}
    indexes = [
        {"IndexName": each["name"], "KeySchema": keys({"range_key": None, **each}), **all_of_it}
        for each in one["global_secondary_index"] or ()
        if each.get("hash_key")
    ]
    return {"KeySchema": keys(one), "AttributeDefinitions": kinds, "GlobalSecondaryIndexes": indexes}


def _notification(one: _Given) -> dict[str, Any]:
    listed: dict[str, list[Any]] = {}
    for name, target in (("lambda_function", "Function"), ("queue", "Queue"), ("topic", "Topic")):
        arn = one.arn(name)
        for each in one[name] or ():
            ends = (("prefix", each.get("filter_prefix")), ("suffix", each.get("filter_suffix")))
            rules = [{"Name": end, "Value": value} for end, value in ends if value]
            listed.setdefault(name, []).append({target: arn, "Filter": {"Key": {"FilterRules": rules}}})
    bucket = one.references("bucket")
    named: Any = {"Ref": bucket[0]} if bucket else one["bucket"]
    return {"BucketName": named, "NotificationConfiguration": listed}


_DOCUMENTS = ("redrive_policy", "filter_policy", "event_pattern")
_OF_MAPPING = (
    "MaximumBatchingWindowInSeconds MaximumRetryAttempts MaximumRecordAgeInSeconds BisectBatchOnFunctionError "
    "BatchSize StartingPosition FunctionResponseTypes DestinationConfig"
)
_OF_SUBSCRIPTION = "Protocol FilterPolicy FilterPolicyScope RawMessageDelivery"
_TIMES = "VisibilityTimeout=visibility_timeout_seconds MessageRetentionPeriod=message_retention_seconds"
_TYPES: Mapping[str, tuple[str, str, Callable[[_Given], dict[str, Any]]]] = {
    "aws_lambda_function": ("AWS::Lambda::Function", "FunctionName Handler Runtime Timeout PackageType", _function),
    "aws_lambda_event_source_mapping": ("AWS::Lambda::EventSourceMapping", _OF_MAPPING, _mapping),
    "aws_sqs_queue": ("AWS::SQS::Queue", f"QueueName=name FifoQueue {_TIMES}", _queue),
    "aws_sns_topic": ("AWS::SNS::Topic", "TopicName=name FifoTopic", lambda one: {}),
    "aws_sns_topic_subscription": ("AWS::SNS::Subscription", _OF_SUBSCRIPTION, _subscription),
    "aws_dynamodb_table": ("AWS::DynamoDB::Table", "TableName=name", _table),
    "aws_kinesis_stream": ("AWS::Kinesis::Stream", "Name", lambda one: {}),
    "aws_s3_bucket": ("AWS::S3::Bucket", "BucketName=bucket", lambda one: {}),
    "aws_s3_bucket_notification": ("Custom::S3BucketNotifications", "", _notification),
    "aws_cloudwatch_event_rule": ("AWS::Events::Rule", "ScheduleExpression EventPattern", lambda one: {}),
}
"""Each type's name in CloudFormation, its properties that are attributes here, maybe of another name, and the others."""
