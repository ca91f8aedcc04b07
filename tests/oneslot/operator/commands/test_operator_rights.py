"""The policies of `oneslot rights`, beside the calls of each verb on AWS: what is called is allowed, and nothing else."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore import xform_name
from botocore.client import BaseClient

from oneslot.declaration.declaration import Declaration
from oneslot.declaration.reading import declared
from oneslot.operator.commands.rights import policy_of
from oneslot.operator.target import Outputs, Target
from oneslot.runtime.sends.outbox import Unsent, text_of
from tests.kits.consumer import NHS_NUMBER, REGION, booking, record
from tests.kits.moto_stack import ENVIRONMENT, MAPPING, NAMES, NOW, Functions, MotoStack, invoke, put_one_of_each
from tests.kits.order_histories import ORDERS

PAGE = (Path(__file__).resolve().parents[4] / "docs/do/repair.md").read_text(encoding="utf-8")
COMMANDS = {f"{service}:{verb.title().replace('-', '')}" for service, verb in re.findall(r"`aws (\w+) ([a-z-]+)", PAGE)}
ACCOUNT, STACK = "123456789012", "Oneslot-prod"
STACK_ID = f"arn:aws:cloudformation:{REGION}:{ACCOUNT}:stack/{STACK}/0f0f"
MAPPING_ARN = f"arn:aws:lambda:{REGION}:{ACCOUNT}:event-source-mapping:{MAPPING}"
OUTPUTS = {
    "QueueUrl": f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/requests",
    "DeadLetterQueueUrl": f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/requests-dead-letters",
    "RelayLogGroupName": "/oneslot/relay",
    **NAMES,
}
LOOKS = (
    ["env"],
    ["status"],
    ["watch", "--timeout", "0.1"],
    ["inspect", "duplicate"],
    ["check"],
    ["export"],
    ["dlq", "list"],
    ["ledger", "show", "busy"],
)
REPAIRS = (
    ["dlq", "redrive", "retried", "--yes"],
    ["dlq", "drop", "duplicate", "--yes"],
    ["ledger", "unlock", "busy", "--yes"],
    ["ledger", "forget", "stuck", "--yes"],
    ["pause", "--reason", "INC-12", "--yes"],
    ["resume", "--yes"],
    ["relay", "--once"],
)
TARGETS = {
    "MAILS": f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/mails",
    "NEWS": f"arn:aws:sns:{REGION}:{ACCOUNT}:news",
    "SHOP": f"arn:aws:events:{REGION}:{ACCOUNT}:event-bus/shop",
}
SENDS = {f"ONESLOT_SEND_{name}": target for name, target in TARGETS.items()}


@dataclass(frozen=True)
class Call:
    """What IAM sees of a call: the action, the resource, and the condition keys with their values."""

    action: str
    resource: str
    context: Mapping[str, frozenset[str]] = field(default_factory=dict, hash=False)


def target_on_aws(declaration: Declaration | None = None) -> Target:
    consumer = declaration or declared()
    tables = {table.output: name for name, table in consumer.schema.tables.items()}
    target = Target(STACK, STACK_ID, Outputs.of(STACK, OUTPUTS | tables, consumer), Path(), declaration=consumer)
    target.__dict__["functions"] = Functions(SENDS)
    return target


def policy(name: str) -> list[dict[str, Any]]:
    """Return a policy's statements, for this stack."""
    statements: list[dict[str, Any]] = policy_of(name, target_on_aws(), {})["Statement"]
    return statements


def listed(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else value


def holds(operator: str, key: str, wanted: list[str], context: Mapping[str, frozenset[str]]) -> bool:
    """Evaluate one condition as IAM does. Raises for an operator that the policies do not use."""
    given = context.get(key)
    match operator:
        case "ForAllValues:StringEquals":
            return given is None or given <= set(wanted)
        case "Null":
            return (given is None) == (wanted == ["true"])
        case "StringEqualsIfExists":
            return given is None or given <= set(wanted)
        case "StringEquals":
            return given is not None and given <= set(wanted)
    raise NotImplementedError(operator)


def allows(statement: Mapping[str, Any], call: Call) -> bool:
    """Return whether one statement allows a call."""
    resources = (re.escape(each).replace(r"\*", ".*") for each in listed(statement["Resource"]))
    return (
        call.action in listed(statement["Action"])
        and any(re.fullmatch(each, call.resource) for each in resources)
        and all(
            holds(operator, key, listed(wanted), call.context)
            for operator, keys in statement.get("Condition", {}).items()
            for key, wanted in keys.items()
        )
    )


def read_attributes(request: Mapping[str, Any]) -> frozenset[str]:
    """Return the attributes that a read names; `*` if its answer has all."""
    names = request.get("ExpressionAttributeNames", {})
    shown = {names.get(name.strip(), name.strip()) for name in request.get("ProjectionExpression", "*").split(",")}
    keys = {name for key in [request.get("Key", {}), *request.get("Keys", ())] for name in key}
    return frozenset(shown | keys)


def of_table(operation: str, name: str, request: Mapping[str, Any]) -> Call:
    context = {}
    if operation in ("GetItem", "BatchGetItem", "Query", "Scan"):
        select = request.get("Select", "SPECIFIC_ATTRIBUTES" if "ProjectionExpression" in request else "ALL_ATTRIBUTES")
        context["dynamodb:Attributes"] = read_attributes(request)
        if operation in ("Query", "Scan"):
            context["dynamodb:Select"] = frozenset([select])
    return Call(f"dynamodb:{operation}", f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{name}", context)


def calls_of(service: str, operation: str, request: Mapping[str, Any]) -> Iterator[Call]:
    """Yield what IAM checks for one call of botocore, by the service authorization reference."""
    match service:
        case "dynamodb":
            for name, part in request.get("RequestItems", {request.get("TableName"): request}).items():
                yield of_table(operation, name, part)
        case "sqs":
            name = request["QueueUrl"].replace("/", ":")
            arn = f"arn:aws:sqs:{REGION}:{ACCOUNT}:{name.rpartition(':')[2]}"
            yield Call(f"sqs:{operation.removesuffix('Batch')}", arn)
        case "lambda" if "FunctionName" in request:
            yield Call(f"lambda:{operation}", f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{request['FunctionName']}")
        case "lambda":
            yield Call(f"lambda:{operation}", request.get("Resource", MAPPING_ARN))
        case "logs":
            yield Call(f"logs:{operation}", f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:{request['logGroupName']}:*")
        case "sns":
            yield Call("sns:Publish", request["TopicArn"])
        case "events":
            yield from (Call("events:PutEvents", each["EventBusName"]) for each in request["Entries"])
        case "cloudformation":
            yield Call(f"cloudformation:{operation}", STACK_ID)
        case "cloudwatch":
            yield Call("cloudwatch:PutMetricData", "*", {"cloudwatch:namespace": frozenset([request["Namespace"]])})
        case "sts":  # GetCallerIdentity needs no right
            return
        case _:
            raise NotImplementedError(service)


def answer(functions: Functions, service: str, operation: str, request: dict[str, Any]) -> Any:
    """Return the answer of a service that moto has not, or has only in part; None if moto answers."""
    if service == "lambda":
        if operation == "UpdateEventSourceMapping":
            return {}
        found = getattr(functions, xform_name(operation))(**request) or {}
        # The mapping is on unless its tags say that an operator has paused it.
        if operation == "GetEventSourceMapping":
            found |= {"State": "Disabled" if functions.tags else "Enabled", "EventSourceMappingArn": MAPPING_ARN}
        return found
    outputs = [{"OutputKey": name, "OutputValue": value} for name, value in OUTPUTS.items()]
    canned: dict[str, Any] = {
        "DescribeStacks": {"Stacks": [{"StackName": STACK, "StackId": STACK_ID, "Outputs": outputs}]},
        "FilterLogEvents": {"events": []},
        "PutMetricData": {},
    }
    return canned.get(operation)


@pytest.fixture
def recorded(moto_stack: MotoStack, monkeypatch: pytest.MonkeyPatch) -> list[Call]:
    """Return the list of all calls, which grows."""
    put_one_of_each(moto_stack)
    moto_stack.bench.deliver(record(booking("with-patient", **NOW)))
    moto_stack.bench.dynamodb.update_item(
        TableName="ledger",
        Key={"message_id": {"S": "with-patient"}},
        UpdateExpression="SET unsent = :count, sends = :sends",
        ExpressionAttributeValues={
            ":count": {"N": "3"},
            ":sends": {"S": text_of([Unsent(each, each.lower(), "{}") for each in TARGETS])},
        },
    )
    for name, value in {"ACCESS_KEY_ID": "1", "SECRET_ACCESS_KEY": "none", "DEFAULT_REGION": REGION}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    monkeypatch.setattr("oneslot.runtime.sqs.dead_letters.SETTLING_SECONDS", 0)
    functions, ask = (
        Functions(ENVIRONMENT | SENDS | {"ONESLOT_LEDGER_TABLE": "ledger"}),
        vars(BaseClient)["_make_api_call"],
    )
    found: list[Call] = []

    def call(client: Any, operation: str, request: dict[str, Any]) -> Any:
        service = client.meta.service_model.service_name
        found.extend(calls_of(service, operation, request))
        canned = answer(functions, service, operation, request)
        return ask(client, operation, request) if canned is None else canned

    monkeypatch.setattr(Functions, "list_tags", lambda self, **_: {"Tags": dict(self.tags)})
    monkeypatch.setattr(BaseClient, "_make_api_call", call)
    return found


def run(recorded: list[Call], verb: list[str]) -> list[Call]:
    """Run a verb on the stack on AWS and return its calls."""
    before = len(recorded)
    result = invoke(*verb, "--stack", STACK)
    # `check` finds the damage that the kit's dead letters come with, and the relay's targets are not on moto.
    assert result.exit_code == int(verb[0] in ("check", "relay")), result.output
    assert NHS_NUMBER not in result.output
    return recorded[before:]


def granted(statements: list[dict[str, Any]]) -> set[tuple[str, str]]:
    """Return the pairs of action and resource that a policy allows under some condition."""
    return {
        (action, resource)
        for each in statements
        for action in listed(each["Action"])
        for resource in listed(each["Resource"])
    }


def used(statements: list[dict[str, Any]], calls: list[Call]) -> set[tuple[str, str]]:
    """Return the pairs of which a call makes use."""
    return {
        pair
        for each in statements
        for pair in granted([each])
        for call in calls
        if allows({**each, "Action": pair[0], "Resource": pair[1]}, call)
    }


def test_policies_allow_what_the_verbs_call_and_nothing_else(recorded: list[Call], tmp_path: Path) -> None:
    (tmp_path / "requests.jsonl").write_text(json.dumps(booking("sent", **NOW)))
    look, repair = policy("look"), policy("repair")
    looked = {" ".join(verb): run(recorded, verb) for verb in LOOKS}
    repaired = {
        " ".join(verb): run(recorded, verb) for verb in (*REPAIRS, ["send", "--file", str(tmp_path / "requests.jsonl")])
    }

    for statements, verbs in ((look, looked), ([*look, *repair], repaired)):
        for verb, calls in verbs.items():
            refused = {call for call in calls if not any(allows(each, call) for each in statements)}
            assert not refused, f"{verb} may not call {refused}"
    assert granted(look) == used(look, [call for calls in looked.values() for call in calls])
    assert {
        action for action, _ in granted(repair) - used(repair, [call for calls in repaired.values() for call in calls])
    } == COMMANDS


@pytest.mark.parametrize("operation", ["GetItem", "BatchGetItem", "Scan"])
def test_policies_refuse_the_patients_number(operation: str) -> None:
    """Named, or among all attributes. The list is the declared one, so a new attribute is in both."""
    both = [*policy("look"), *policy("repair")]
    of_appointments = partial(of_table, operation, "appointments")
    wanted = declared().schema.tables["appointments"].attributes
    allowed = of_appointments({"ProjectionExpression": ",".join(wanted)})
    [statement] = [each for each in both if allows(each, allowed)]
    assert set(statement["Condition"]["ForAllValues:StringEquals"]["dynamodb:Attributes"]) == set(wanted)
    refused = [
        of_appointments({}),
        of_appointments({"ProjectionExpression": "nhs_number"}),
        of_appointments({"ProjectionExpression": "appointment_id, nhs_number"}),
        replace(allowed, context={}),
    ]
    assert not [call for call in refused for each in both if allows(each, call)]


def test_rights_prints_the_policy_of_a_stack_on_aws(recorded: list[Call], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUDIT", "bucket")
    for name in ("look", "repair", "runbooks"):
        printed = json.loads(invoke("rights", name, "--stack", STACK).stdout)
        assert printed == policy_of(name, target_on_aws(), {"AUDIT": "bucket"})
    monkeypatch.delenv("AUDIT")
    assert "AuditsBucket" not in invoke("rights", "runbooks", "--stack", STACK).stdout
    assert "Name a stack: --stack Oneslot-dev" in invoke("rights", "look").stderr


def test_look_reads_the_tables_of_any_declared_consumer() -> None:
    statements = policy_of("look", target_on_aws(ORDERS), {})["Statement"]
    [tables] = [each["Resource"] for each in statements if each["Sid"] == "Tables"]
    assert tables == [f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/charges"]
    assert not any("Slots" in each["Sid"] or "Appointments" in each["Sid"] for each in statements)
