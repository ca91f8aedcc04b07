"""CloudFormation's intrinsic functions, as far as a function's environment and tables need them."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from oneslot.explorer.services.sqs import ACCOUNT, REGION, queue_url

PSEUDO = {
    "AWS::AccountId": ACCOUNT,
    "AWS::Partition": "aws",
    "AWS::Region": REGION,
    "AWS::StackId": f"arn:aws:cloudformation:{REGION}:{ACCOUNT}:stack/explored/00000000-0000-4000-8000-000000000000",
    "AWS::StackName": "explored",
    "AWS::URLSuffix": "amazonaws.com",
}

_VARIABLE = re.compile(r"\$\{(!?)([^}]+)\}")

# The property with the name, the ARN, and what Ref returns, by type.
_ARN, _NAME, _URL = "arn", "name", "url"
_KINDS: dict[str, tuple[str, str, str]] = {
    "AWS::DynamoDB::Table": ("TableName", "dynamodb:{at}:table/{name}", _NAME),
    "AWS::DynamoDB::GlobalTable": ("TableName", "dynamodb:{at}:table/{name}", _NAME),
    "AWS::Serverless::SimpleTable": ("TableName", "dynamodb:{at}:table/{name}", _NAME),
    "AWS::SQS::Queue": ("QueueName", "sqs:{at}:{name}", _URL),
    "AWS::SNS::Topic": ("TopicName", "sns:{at}:{name}", _ARN),
    "AWS::S3::Bucket": ("BucketName", "s3:::{name}", _NAME),
    "AWS::Events::EventBus": ("Name", "events:{at}:event-bus/{name}", _NAME),
    "AWS::StepFunctions::StateMachine": ("StateMachineName", "states:{at}:stateMachine:{name}", _ARN),
    "AWS::Serverless::StateMachine": ("Name", "states:{at}:stateMachine:{name}", _ARN),
    "AWS::Lambda::Function": ("FunctionName", "lambda:{at}:function:{name}", _NAME),
    "AWS::Serverless::Function": ("FunctionName", "lambda:{at}:function:{name}", _NAME),
    "AWS::SecretsManager::Secret": ("Name", "secretsmanager:{at}:secret:{name}-a1b2c3", _ARN),
    "AWS::SSM::Parameter": ("Name", "ssm:{at}:parameter/{name}", _NAME),
    "AWS::KinesisFirehose::DeliveryStream": ("DeliveryStreamName", "firehose:{at}:deliverystream/{name}", _NAME),
}


class Unresolved(Exception):
    """An intrinsic function whose value the template does not give."""


class Resolver:
    """The values in a template. `parameters` are those of the stack, over their defaults.

    `every` has also the resources whose condition is false, because another stack may make them.
    """

    def __init__(self, template: Mapping[str, Any], parameters: Mapping[str, Any]) -> None:
        self._conditions: Mapping[str, Any] = template.get("Conditions", {})
        self._mappings: Mapping[str, Any] = template.get("Mappings", {})
        declared = template.get("Parameters", {})
        defaults = {name: one["Default"] for name, one in declared.items() if "Default" in one}
        self._parameters = {**PSEUDO, **defaults, **parameters}
        self.every: Mapping[str, Any] = {}
        self.resources: Mapping[str, Any] = {}  # none of them decides which exist
        self.every = dict(self._looped(template.get("Resources", {}), {}))
        self.resources = {name: one for name, one in self.every.items() if self._exists(one.get("Condition"))}
        self.template = {**template, "Resources": self.resources}

    def _looped(self, held: Mapping[str, Any], own: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
        """Yield the resources, with those of each round of Fn::ForEach. `own`: the loops' variables."""
        for name, one in held.items():
            if not name.startswith("Fn::ForEach::"):
                yield _replaced(name, own), _replaced(one, own) if own else one
                continue
            variable, values, body = one
            for value in self.known(values, []):
                yield from self._looped(body, {**own, variable: str(value)})

    def _exists(self, condition: Any) -> bool:
        """Return whether a resource with this condition exists; one whose condition cannot be known does."""
        try:
            return condition is None or self.holds(condition)
        except (Unresolved, KeyError):
            return True

    def value(self, node: Any) -> Any:
        """Return a node with its intrinsic functions resolved; what has no value is left out.

        Raises `Unresolved`, naming the function.
        """
        if isinstance(node, list):
            return [value for one in node if (value := self.value(one)) is not None]
        if isinstance(node, str) and node.startswith("{{resolve:"):
            raise Unresolved(node)
        if not isinstance(node, Mapping):
            return node
        if len(node) == 1:
            ((name, argument),) = node.items()
            if name in _FUNCTIONS:
                try:
                    return _FUNCTIONS[name](self, argument)
                except LookupError:
                    raise Unresolved(name) from None
            if name.startswith("Fn::"):
                raise Unresolved(name)
        return {name: value for name, one in node.items() if (value := self.value(one)) is not None}

    def known(self, node: Any, otherwise: Any = None) -> Any:
        """Return the value of a node, or `otherwise` if the template does not give it."""
        try:
            return self.value(node)
        except Unresolved:
            return otherwise

    def physical_name(self, logical_id: str) -> str:
        """Return the name of a resource: the one that the template gives, or else its logical id."""
        resource = self.every[logical_id]
        kind, own = _KINDS.get(resource["Type"]), resource.get("Properties", {})
        is_fifo = str(own.get("FifoQueue", own.get("FifoTopic"))).lower() == "true"
        usual = f"{logical_id}.fifo" if is_fifo else logical_id  # as CloudFormation ends the names that it makes
        given = own.get(kind[0]) if kind else None
        return usual if given is None else str(self.known(given, usual))

    def holds(self, condition: Any) -> bool:
        """Return whether a condition holds, by its name or as it is written."""
        if isinstance(condition, str):
            return self.holds(self._conditions[condition])
        ((name, argument),) = condition.items()
        match name:
            case "Fn::Equals":
                first, second = (str(self.value(one)) for one in argument)
                return first == second
            case "Fn::Not" | "Fn::And" | "Fn::Or":
                held = map(self.holds, argument)
                return all(held) if name == "Fn::And" else any(held) is (name == "Fn::Or")
            case "Condition":
                return self.holds(argument)
        raise Unresolved(name)

    def ref(self, name: str) -> Any:
        """Return what Ref does."""
        if name in self._parameters:
            return self._parameters[name]
        if name == "AWS::NoValue":
            return None
        if name not in self.resources:
            every = ((one, resource.get("Properties", {})) for one, resource in self.resources.items())
            events = {f"{one}{event}": made for one, own in every for event, made in own.get("Events", {}).items()}
            bus = events.get(name, {}).get("Properties", {}).get("EventBusName")
            if bus is None:
                raise Unresolved(f"Ref {name}")
            return f"{self.value(bus)}|{name}"  # the rule that SAM makes of a function's event
        kind = _KINDS.get(self.resources[name]["Type"])
        physical = self.physical_name(name)
        if kind is None or kind[2] == _NAME:
            return physical
        return self._arn(name) if kind[2] == _ARN else queue_url(physical)

    def attribute(self, argument: Any) -> str:
        """Return what Fn::GetAtt does."""
        name, attribute = argument.split(".", 1) if isinstance(argument, str) else argument
        kind = _KINDS.get(self.resources.get(name, {}).get("Type", ""))
        if kind is not None and attribute in ("Arn", f"{kind[0].removesuffix('Name')}Arn"):
            return self._arn(name)
        if kind is not None and attribute in ("Name", kind[0]):
            return self.physical_name(name)
        if attribute == "QueueUrl":
            return str(self.ref(name))
        raise Unresolved(f"Fn::GetAtt {name}.{attribute}")

    def _arn(self, name: str) -> str:
        text = _KINDS[self.resources[name]["Type"]][1]
        return f"arn:aws:{text.format(at=f'{REGION}:{ACCOUNT}', name=self.physical_name(name))}"

    def sub(self, argument: Any) -> str:
        """Return what Fn::Sub does."""
        text, own = (argument, {}) if isinstance(argument, str) else argument

        def replaced(match: re.Match[str]) -> str:
            literal, name = match.groups()
            if literal:
                return f"${{{name}}}"
            if name in own:
                return str(self.value(own[name]))
            return str(self.attribute(name) if "." in name else self.ref(name))

        return _VARIABLE.sub(replaced, text)

    def find_in_map(self, argument: Sequence[Any]) -> Any:
        """Return what Fn::FindInMap does."""
        name, first, second = (self.value(one) for one in argument[:3])
        try:
            return self._mappings[name][first][second]
        except KeyError:
            raise Unresolved(f"Fn::FindInMap {name}.{first}.{second}") from None


def _replaced(node: Any, own: Mapping[str, str]) -> Any:
    """Return a node with the variables of its loops replaced: ${Name}, &{Name} without other signs, and {"Ref": "Name"}."""
    if isinstance(node, str):
        for name, value in own.items():
            node = node.replace(f"${{{name}}}", value).replace(f"&{{{name}}}", re.sub(r"\W", "", value))
        return node
    if isinstance(node, list):
        return [_replaced(one, own) for one in node]
    if isinstance(node, Mapping):
        if node.keys() == {"Ref"} and node["Ref"] in own:
            return own[node["Ref"]]
        return {_replaced(name, own): _replaced(one, own) for name, one in node.items()}
    return node


_FUNCTIONS: dict[str, Callable[[Resolver, Any], Any]] = {
    "Ref": Resolver.ref,
    "Fn::GetAtt": Resolver.attribute,
    "Fn::Sub": Resolver.sub,
    "Fn::Join": lambda resolver, given: str(given[0]).join(map(str, resolver.value(given[1]))),
    "Fn::If": lambda resolver, given: resolver.value(given[1] if resolver.holds(given[0]) else given[2]),
    "Fn::Select": lambda resolver, given: resolver.value(given[1])[int(given[0])],
    "Fn::Split": lambda resolver, given: str(resolver.value(given[1])).split(given[0]),
    "Fn::FindInMap": Resolver.find_in_map,
}
